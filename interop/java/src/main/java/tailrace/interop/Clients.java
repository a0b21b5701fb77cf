package tailrace.interop;

import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/** Makes clients, sends and reads. Partitions are assigned to consumers by hand, without groups. */
final class Clients {
    static final Random RANDOM = new Random();

    static String topic(String purpose) { return "java-" + purpose + "-" + Integer.toHexString(RANDOM.nextInt()); }

    private static Map<String, Object> config(Object... pairs) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", Check.BOOTSTRAP, "reconnect.backoff.max.ms", "500"));
        for (int i = 0; i < pairs.length; i += 2) c.put((String) pairs[i], pairs[i + 1]);
        return c;
    }

    static Admin admin() { return Admin.create(config()); }

    static Producer<byte[], byte[]> producer(Object... pairs) {
        var c = config("max.request.size", "4000000");
        c.putAll(config(pairs));
        return new KafkaProducer<>(c, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Consumer<byte[], byte[]> consumer(String topic, Map<Integer, Long> from, Object... pairs) {
        var c = config("enable.auto.commit", "false", "auto.offset.reset", "none");
        c.putAll(config(pairs));
        var consumer = new KafkaConsumer<>(c, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(from.keySet().stream().map(p -> new TopicPartition(topic, p)).toList());
        from.forEach((p, offset) -> consumer.seek(new TopicPartition(topic, p), offset));
        return consumer;
    }

    static String create(String purpose, int partitions, Map<String, String> configs) throws Exception {
        String topic = topic(purpose);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, Check.REPLICAS).configs(configs))).all().get();
            if (Check.LEADERS_LATE) {
                Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
                for (int p = 0; p < partitions; p++) latest.put(new TopicPartition(topic, p), OffsetSpec.latest());
                admin.listOffsets(latest).all().get();
            }
        }
        return topic;
    }

    static List<RecordMetadata> send(Producer<byte[], byte[]> producer, List<ProducerRecord<byte[], byte[]>> records) throws Exception {
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (var r : records) futures.add(producer.send(r));
        producer.flush();
        List<RecordMetadata> out = new ArrayList<>();
        for (var f : futures) out.add(f.get());
        return out;
    }

    static List<ConsumerRecord<byte[], byte[]>> readOn(Consumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> out = new ArrayList<>();
        for (long end = System.nanoTime() + 60_000_000_000L; out.size() < count; ) {
            Check.that(System.nanoTime() < end, "only " + out.size() + " of " + count + " records within a minute");
            consumer.poll(Duration.ofSeconds(1)).forEach(out::add);
        }
        return out;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String topic, int count, Map<Integer, Long> from, Object... pairs) {
        try (var consumer = consumer(topic, from, pairs)) {
            return readOn(consumer, count);
        }
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, byte[] key, byte[] value) { return new ProducerRecord<>(topic, partition, key, value); }

    static ProducerRecord<byte[], byte[]> record(String topic, String value) { return record(topic, 0, null, value.getBytes()); }

    /** Bytes that compress somewhat: half words, half noise. */
    static byte[] payload(long seed, int size) {
        Random rng = new Random(seed);
        var out = new java.io.ByteArrayOutputStream(size + 100);
        while (out.size() < size) {
            out.writeBytes("stream flume weir sluice river ".getBytes());
            byte[] noise = new byte[rng.nextInt(40)];
            rng.nextBytes(noise);
            out.writeBytes(noise);
        }
        return Arrays.copyOf(out.toByteArray(), size);
    }

    static void sameRecords(List<ConsumerRecord<byte[], byte[]>> got, List<ProducerRecord<byte[], byte[]>> want) {
        Check.same(got.size(), want.size(), "count");
        for (int i = 0; i < got.size(); i++) {
            var g = got.get(i);
            var w = want.get(i);
            Check.that(Arrays.equals(g.key(), w.key()) && Arrays.equals(g.value(), w.value()), "key or value of record " + i);
            Check.same(Arrays.asList(g.headers().toArray()), Arrays.asList(w.headers().toArray()), "headers of record " + i);
            if (w.timestamp() != null) Check.same(g.timestamp(), w.timestamp(), "timestamp of record " + i);
        }
    }

    static List<String> values(List<ConsumerRecord<byte[], byte[]>> records, int partition) {
        return records.stream().filter(r -> r.partition() == partition).map(r -> new String(r.value())).toList();
    }
}
