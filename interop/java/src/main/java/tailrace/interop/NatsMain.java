package tailrace.interop;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * jnats against the NATS front, run by interop/run.sh. The same tests pass against nats-server.
 *
 * With `read TOPIC COUNT` it prints the records of partition 0, as Kafka's client reads them, for mixed.py.
 */
public final class NatsMain {
    public static void main(String[] args) {
        if (args.length == 3 && args[0].equals("read")) {
            read(args[1], Integer.parseInt(args[2]));
            return;
        }
        Check.client = "jnats";
        NatsTests.all();
        NatsFrontTests.all();
        System.exit(Check.failed == 0 ? 0 : 1);
    }

    private static void read(String topic, int count) {
        Map<String, Object> config = Map.of("bootstrap.servers", Check.BOOTSTRAP, "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class);
        var out = new java.io.PrintStream(System.out, false, StandardCharsets.UTF_8);
        try (var consumer = new KafkaConsumer<String, String>(config)) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            for (int got = 0; got < count;) {
                if (System.nanoTime() > end) throw new IllegalStateException(got + " of " + count + " records");
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    out.println(record.key() + "\t" + record.value());
                    got++;
                }
            }
        }
        out.flush();
    }
}
