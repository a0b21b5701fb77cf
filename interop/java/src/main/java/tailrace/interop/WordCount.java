package tailrace.interop;

import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/**
 * Counts words with Kafka Streams, exactly once: WordCount APPLICATION INPUT OUTPUT STATE_FOLDER. Ends with its
 * standard input.
 */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.putAll(Map.of("bootstrap.servers", Check.BOOTSTRAP, "application.id", args[0], "state.dir", args[3], "processing.guarantee", "exactly_once_v2",
            "default.key.serde", Serdes.StringSerde.class.getName(), "default.value.serde", Serdes.StringSerde.class.getName(), "statestore.cache.max.bytes", 64 << 20));
        config.putAll(Map.of("num.stream.threads", 2, "commit.interval.ms", 500, "consumer.auto.offset.reset", "earliest", "consumer.session.timeout.ms", 6000,
            "consumer.heartbeat.interval.ms", 500, "producer.linger.ms", 20, "producer.batch.size", 1 << 17, "reconnect.backoff.max.ms", 500,
            "task.timeout.ms", 600_000, "producer.delivery.timeout.ms", 300_000));
        var builder = new StreamsBuilder();
        builder.<String, String>stream(args[1]).flatMapValues(line -> Arrays.asList(line.split(" "))).groupBy((none, word) -> word)
            .count(Materialized.as("counts")).toStream().to(args[2], Produced.with(Serdes.String(), Serdes.Long()));
        var streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("thread replaced: " + error);
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setGlobalStateRestoreListener(new org.apache.kafka.streams.processor.StateRestoreListener() {
            @Override public void onRestoreStart(org.apache.kafka.common.TopicPartition tp, String store, long from, long to) { }
            @Override public void onBatchRestored(org.apache.kafka.common.TopicPartition tp, String store, long to, long count) { }
            @Override public void onRestoreEnd(org.apache.kafka.common.TopicPartition tp, String store, long total) { System.out.println("restored " + total); }
        });
        streams.start();
        while (System.in.read() >= 0) { }
        boolean closed = streams.close(Duration.ofSeconds(60));
        Runtime.getRuntime().halt(closed ? 0 : 1);
    }
}
