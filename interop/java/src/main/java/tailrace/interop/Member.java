package tailrace.interop;

import java.time.*;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * One member of a group in a process of its own, so that it can be killed. Its options and its output are
 * the same for every client in every language: see python/groups.py, which starts it.
 */
public final class Member {
    private static final Map<String, String> OPTIONS = new HashMap<>();
    private static volatile boolean stopped;

    private static synchronized void say(Object... words) {
        Instant now = Instant.now();
        System.out.println(now.getEpochSecond() + "." + String.format("%06d", now.getNano() / 1000) + " " + Arrays.stream(words).map(String::valueOf).collect(Collectors.joining(" ")));
        System.out.flush();
    }

    private static void tell(String event, Collection<TopicPartition> partitions) {
        say(event, partitions.stream().map(TopicPartition::partition).sorted().map(String::valueOf).collect(Collectors.joining(" ")));
    }

    public static void main(String[] args) {
        for (String word : args) OPTIONS.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        Thread input = new Thread(() -> {
            try { while (System.in.read() >= 0) { } } catch (java.io.IOException ignored) { }
            stopped = true;
        });
        input.setDaemon(true);
        input.start();
        try {
            switch (OPTIONS.get("role")) {
                case "consume" -> consume();
                case "copy" -> copy();
                case "fence" -> fence();
                default -> throw new IllegalArgumentException("no such role");
            }
        } catch (FencedInstanceIdException e) {
            say("fatal", e.getClass().getSimpleName());
            Runtime.getRuntime().halt(4);
        } catch (Exception e) {
            say("error", e);
            Runtime.getRuntime().halt(3);
        }
        say("left");
        Runtime.getRuntime().halt(0);
    }

    private static Consumer<byte[], byte[]> consumer(String isolation) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", OPTIONS.get("bootstrap"), "group.id", OPTIONS.get("group"), "enable.auto.commit", "false",
            "auto.offset.reset", "earliest", "max.poll.records", 100, "reconnect.backoff.max.ms", "300", "fetch.max.wait.ms", 200, "isolation.level", isolation));
        if ("consumer".equals(OPTIONS.get("protocol"))) c.put("group.protocol", "consumer");
        else c.putAll(Map.of("session.timeout.ms", Integer.parseInt(OPTIONS.getOrDefault("session", "6000")), "heartbeat.interval.ms", 500, "partition.assignment.strategy", CooperativeStickyAssignor.class.getName()));
        if (OPTIONS.containsKey("instance")) c.put("group.instance.id", OPTIONS.get("instance"));
        var consumer = new KafkaConsumer<>(c, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(OPTIONS.get("topic")), new ConsumerRebalanceListener() {
            @Override public void onPartitionsAssigned(Collection<TopicPartition> found) { tell("assigned", found); }
            @Override public void onPartitionsRevoked(Collection<TopicPartition> found) { tell("revoked", found); }
            @Override public void onPartitionsLost(Collection<TopicPartition> found) { tell("lost", found); }
        });
        return consumer;
    }

    private static Map<TopicPartition, OffsetAndMetadata> next(ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (var r : records) next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
        return next;
    }

    private static void tellGot(ConsumerRecords<byte[], byte[]> found) {
        for (TopicPartition tp : found.partitions()) {
            long first = -1, last = -2;
            for (var r : found.records(tp)) {
                if (first >= 0 && r.offset() != last + 1) say("got", tp.partition(), first, last);
                if (first < 0 || r.offset() != last + 1) first = r.offset();
                last = r.offset();
            }
            if (first >= 0) say("got", tp.partition(), first, last);
        }
    }

    private static void consume() {
        try (var consumer = consumer("read_uncommitted")) {
            while (!stopped) {
                var found = consumer.poll(Duration.ofMillis(200));
                if (found.isEmpty()) continue;
                tellGot(found);
                try {
                    var next = next(found);
                    consumer.commitSync(next);
                    next.forEach((tp, o) -> say("committed", tp.partition(), o.offset()));
                } catch (FencedInstanceIdException e) {
                    throw e;
                } catch (CommitFailedException | RebalanceInProgressException | RetriableException e) {
                    say("note", e.getClass().getSimpleName());
                }
            }
        }
    }

    private static Producer<byte[], byte[]> producer() {
        Map<String, Object> c = Map.of("bootstrap.servers", OPTIONS.get("bootstrap"), "transactional.id", OPTIONS.get("txn"), "transaction.timeout.ms", 10_000, "reconnect.backoff.max.ms", "300");
        return new KafkaProducer<>(c, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void send(Producer<byte[], byte[]> producer, int partition, String value) {
        producer.send(new ProducerRecord<>(OPTIONS.get("out"), partition, null, value.getBytes()));
    }

    private static void copy() {
        try (var consumer = consumer("read_committed"); var producer = producer()) {
            producer.initTransactions();
            say("ready");
            for (int turn = 1; !stopped; ) {
                var found = consumer.poll(Duration.ofMillis(200));
                if (found.isEmpty()) continue;
                if (turn++ % 5 == 0) {
                    producer.beginTransaction();
                    for (var r : found) send(producer, r.partition(), "aborted " + new String(r.value()));
                    producer.flush();
                    producer.abortTransaction();
                }
                producer.beginTransaction();
                for (var r : found) send(producer, r.partition(), "copy of " + new String(r.value()));
                producer.sendOffsetsToTransaction(next(found), consumer.groupMetadata());
                producer.commitTransaction();
                say("copied", found.count());
            }
        }
    }

    private static void fence() {
        var first = producer();
        first.initTransactions();
        first.beginTransaction();
        send(first, 0, "of the first");
        first.flush();
        var second = producer();
        second.initTransactions();
        second.beginTransaction();
        send(second, 0, "of the second");
        second.commitTransaction();
        try {
            first.commitTransaction();
            say("error", "the first producer committed");
        } catch (ProducerFencedException | InvalidProducerEpochException e) {
            say("fenced", e.getClass().getSimpleName());
        }
    }
}
