package tailrace.interop;

import static tailrace.interop.Check.*;
import static tailrace.interop.Clients.*;

import java.time.Duration;
import java.util.*;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Utils;

/** Records come out as they went in. */
final class RecordTests {
    private static final Map<Integer, Long> START = Map.of(0, 0L);

    static void all() {
        for (String c : List.of("none", "gzip", "snappy", "lz4", "zstd")) run(true, "codec " + c, () -> codec(c));
        for (String c : List.of("uncompressed", "gzip", "snappy", "lz4", "zstd")) run(c.equals("lz4"), "topic recompresses to " + c, () -> recompressed(c));
        run(true, "record sizes from 1 B to 1 MiB", RecordTests::sizes);
        run(true, "null and empty keys, values and headers", RecordTests::nulls);
        run(true, "LogAppendTime topic", RecordTests::logAppendTime);
        for (String a : List.of("0", "1", "all")) run(a.equals("0"), "acks " + a, () -> acks(a));
        run(true, "idempotent producer", RecordTests::idempotent);
        run(true, "keys over partitions", RecordTests::keys);
        run(true, "record too large", RecordTests::tooLarge);
        run(false, "timestamp out of range", RecordTests::badTimestamp);
        run(true, "automatic topic creation", RecordTests::autoCreation);
        run(true, "long poll", RecordTests::longPoll);
        run(true, "fetch session with idle partitions", RecordTests::sessions);
        run(true, "read while writing", RecordTests::readWhileWriting);
        run(false, "read committed", RecordTests::readCommitted);
        run(true, "server restarts", RecordTests::restarts);
    }

    private static void codec(String codec) throws Exception {
        String topic = create("codec-" + codec, 1, Map.of("max.message.bytes", "4000000"));
        List<ProducerRecord<byte[], byte[]>> want = new ArrayList<>();
        for (int size : new int[] {1, 0, 7, 100, 1000, 5000, 100_000})
            for (int i = 0; i < 20; i++)
                want.add(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + want.size(), ("k" + i).getBytes(), payload(size * 100L + i, size), List.of(new RecordHeader("h", new byte[] {(byte) i}))));
        try (var p = producer("compression.type", codec)) {
            var acknowledged = send(p, want);
            for (int i = 0; i < want.size(); i++) same(acknowledged.get(i).offset(), (long) i, "acknowledged offset");
        }
        sameRecords(read(topic, want.size(), START), want);
    }

    private static void recompressed(String codec) throws Exception {
        String topic = create("recompress-" + codec, 1, Map.of("compression.type", codec));
        List<ProducerRecord<byte[], byte[]>> want = new ArrayList<>();
        for (int i = 0; i < 50; i++) want.add(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + i, null, payload(i, 500)));
        for (String c : List.of("none", "gzip")) try (var p = producer("compression.type", c)) { send(p, want); }
        List<ProducerRecord<byte[], byte[]>> twice = new ArrayList<>(want);
        twice.addAll(want);
        sameRecords(read(topic, 100, START), twice);
    }

    private static void sizes() throws Exception {
        String topic = create("sizes", 1, Map.of("max.message.bytes", "3000000"));
        var want = IntStream.of(1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000, (1 << 20) - 1, 1 << 20).mapToObj(n -> record(topic, 0, null, payload(n, n))).toList();
        try (var p = producer()) { send(p, want); }
        sameRecords(read(topic, want.size(), START), want);
    }

    private static void nulls() throws Exception {
        String topic = create("nulls", 1, Map.of());
        byte[] k = {'k'}, v = {'v'}, empty = {};
        List<ProducerRecord<byte[], byte[]>> want = new ArrayList<>(List.of(record(topic, 0, null, null), record(topic, 0, k, null), record(topic, 0, null, v),
            record(topic, 0, empty, empty), record(topic, 0, empty, null), record(topic, 0, null, empty)));
        var h = record(topic, 0, k, v);
        h.headers().add("null", null).add("empty", empty).add("", v).add("a", k).add("a", v).add("a", k).add("binary", new byte[] {0, -1, 10, 13}).add("grüße", "wörld".getBytes("UTF-8"));
        want.add(h);
        try (var p = producer()) { send(p, want); }
        sameRecords(read(topic, want.size(), START), want);
    }

    private static void logAppendTime() throws Exception {
        String topic = create("append-time", 1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        for (String c : List.of("none", "zstd"))
            try (var p = producer("compression.type", c)) {
                for (var m : send(p, List.of(new ProducerRecord<>(topic, 0, 1_500_000_000_000L, null, payload(1, 300))))) that(m.timestamp() >= before - 1, "acknowledged timestamp " + m.timestamp());
            }
        for (var r : read(topic, 2, START, "check.crcs", "true")) {
            same(r.timestampType(), TimestampType.LOG_APPEND_TIME, "timestamp type");
            that(r.timestamp() >= before - 1 && r.timestamp() <= System.currentTimeMillis() + 1, "timestamp " + r.timestamp());
        }
    }

    private static List<ProducerRecord<byte[], byte[]>> numbered(String topic, int count) { return IntStream.range(0, count).mapToObj(i -> record(topic, "" + i)).toList(); }

    private static void acks(String acks) throws Exception {
        String topic = create("acks", 1, Map.of());
        try (var p = producer("acks", acks, "enable.idempotence", "false")) { send(p, numbered(topic, 300)); }
        sameRecords(read(topic, 300, START), numbered(topic, 300));
    }

    private static void idempotent() throws Exception {
        String topic = create("idempotent", 3, Map.of());
        int count = SMOKE ? 300 : 3000;
        try (var p = producer("enable.idempotence", "true", "batch.size", "200")) {
            send(p, IntStream.range(0, count).mapToObj(i -> record(topic, i % 3, null, ("" + i).getBytes())).toList());
        }
        var got = read(topic, count, Map.of(0, 0L, 1, 0L, 2, 0L));
        for (int n = 0; n < 3; n++) {
            int partition = n;
            same(values(got, n), IntStream.range(0, count / 3).mapToObj(i -> "" + (i * 3 + partition)).toList(), "partition " + n);
        }
    }

    private static void keys() throws Exception {
        String topic = create("keys", 5, Map.of());
        try (var p = producer()) {
            for (int i = 0; i < 100; i++) {
                byte[] key = ("key-" + i % 40).getBytes();
                var done = send(p, List.of(new ProducerRecord<>(topic, key, key))).get(0);
                same(done.partition(), Utils.toPositive(Utils.murmur2(key)) % 5, "partition");
            }
        }
        same(read(topic, 100, Map.of(0, 0L, 1, 0L, 2, 0L, 3, 0L, 4, 0L)).size(), 100, "records");
    }

    private static void tooLarge() throws Exception {
        String topic = create("too-large", 1, Map.of("max.message.bytes", "10000"));
        try (var p = producer()) {
            raises(RecordTooLargeException.class, () -> send(p, List.of(record(topic, 0, null, payload(1, 20_000)))), "a record above max.message.bytes");
            send(p, List.of(record(topic, 0, null, payload(1, 9000))));
        }
    }

    private static void badTimestamp() throws Exception {
        String topic = create("bad-timestamp", 1, Map.of("message.timestamp.after.max.ms", "1000", "message.timestamp.before.max.ms", "1000"));
        try (var p = producer()) {
            for (long at : new long[] {System.currentTimeMillis() + 100_000, System.currentTimeMillis() - 100_000})
                raises(InvalidTimestampException.class, () -> send(p, List.of(new ProducerRecord<>(topic, 0, at, null, new byte[1]))), "timestamp " + at);
            send(p, List.of(record(topic, "now")));
        }
    }

    private static void autoCreation() throws Exception {
        String topic = topic("auto");
        try (var p = producer()) { send(p, List.of(new ProducerRecord<>(topic, null, "v".getBytes()))); }
        same(values(read(topic, 1, START), 0), List.of("v"), "values");
    }

    /** A consumer that waits gets a record long before its maximum wait. */
    private static void longPoll() throws Exception {
        String topic = create("long-poll", 1, Map.of());
        var events = new LinkedBlockingQueue<String>();
        Thread waiting = new Thread(() -> {
            try (var c = consumer(topic, START, "fetch.max.wait.ms", "20000")) {
                events.add("waits");
                readOn(c, 1).forEach(r -> events.add(new String(r.value())));
                c.close(CloseOptions.timeout(Duration.ZERO)); // otherwise it waits for the fetch in flight
            }
        });
        waiting.start();
        same(events.take(), "waits", "event");
        Thread.sleep(1500); // nothing may arrive in this time
        same(events.size(), 0, "records before the send");
        long sent = System.nanoTime();
        try (var p = producer()) { send(p, List.of(record(topic, "v"))); }
        same(events.poll(30, TimeUnit.SECONDS), "v", "event");
        that(System.nanoTime() - sent < 10_000_000_000L, "the record came only at the end of the maximum wait");
        waiting.join();
    }

    /** An incremental fetch session must not lose any of this. */
    private static void sessions() throws Exception {
        String topic = create("sessions", 8, Map.of());
        Map<Integer, Long> from = new TreeMap<>();
        for (int n = 0; n < 8; n++) from.put(n, 0L);
        Map<Integer, List<String>> want = new TreeMap<>(), got = new TreeMap<>();
        int turn = 0;
        try (var c = consumer(topic, from, "fetch.max.wait.ms", "200"); var p = producer()) {
            for (int[] active : new int[][] {{0, 3}, {3}, {}, {5, 0}, {7, 7, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {}, {6}}) {
                turn++;
                for (int n : active) {
                    String v = turn + "/" + n + "/" + want.size();
                    send(p, List.of(record(topic, n, null, v.getBytes())));
                    want.computeIfAbsent(n, x -> new ArrayList<>()).add(v);
                }
                if (active.length == 0) same(c.poll(Duration.ofMillis(700)).count(), 0, "records without a send");
                for (var r : readOn(c, active.length)) got.computeIfAbsent(r.partition(), x -> new ArrayList<>()).add(new String(r.value()));
            }
        }
        same(got, want, "values");
    }

    private static void readWhileWriting() throws Exception {
        String topic = create("writing", 2, Map.of());
        int count = SMOKE ? 5000 : 50_000;
        Thread writer = new Thread(() -> {
            try (var p = producer("acks", "1", "enable.idempotence", "false", "max.in.flight.requests.per.connection", "1")) {
                for (int i = 0; i < count; i++) p.send(record(topic, i % 2, null, ("" + i).getBytes()));
            }
        });
        writer.start();
        List<ConsumerRecord<byte[], byte[]>> got = read(topic, count, Map.of(0, 0L, 1, 0L));
        writer.join();
        for (int n = 0; n < 2; n++) {
            int partition = n;
            same(values(got, n), IntStream.range(0, count / 2).mapToObj(i -> "" + (2 * i + partition)).toList(), "partition " + n);
        }
    }

    private static void readCommitted() throws Exception {
        String topic = create("read-committed", 1, Map.of());
        try (var p = producer()) { send(p, numbered(topic, 50)); }
        sameRecords(read(topic, 50, START, "isolation.level", "read_committed"), numbered(topic, 50));
    }

    /** The same producer and consumer continue after the server stopped and started on the same port. */
    private static void restarts() throws Exception {
        String topic = create("restart", 1, Map.of());
        List<String> want = new ArrayList<>(), got = new ArrayList<>();
        try (var p = producer(); var c = consumer(topic, START)) {
            for (int turn = 0; turn < (SMOKE ? 2 : 3); turn++) {
                if (turn > 0) server("restart", "TERM");
                List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
                for (int i = 0; i < 200; i++) {
                    records.add(record(topic, turn + "/" + i));
                    want.add(turn + "/" + i);
                }
                send(p, records);
                for (var r : readOn(c, 200)) {
                    same(r.offset(), (long) got.size(), "offset");
                    got.add(new String(r.value()));
                }
            }
        }
        same(got, want, "values");
    }
}
