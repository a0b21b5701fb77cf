package tailrace.interop;

import static tailrace.interop.Check.*;
import static tailrace.interop.Clients.*;

import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Share groups (KIP-932): records as a work queue. */
final class ShareTests {
    static void all() {
        run(true, "share group: every record once for five consumers", ShareTests::spread);
        run(true, "share group: accept, release, reject", ShareTests::acknowledge);
        run(false, "share group: renewed locks", ShareTests::renew);
        run(true, "share group: what is not acknowledged comes again when its lock expires", ShareTests::expiry);
        run(true, "share group: after five deliveries a record is given up", ShareTests::limit);
        run(false, "share group: consumers that never acknowledge, and what they hold is given up", ShareTests::silent);
        run(false, "share group: a killed consumer's records go to others, and are given up", ShareTests::killed);
        run(false, "share group: what is always rejected never comes again", ShareTests::rejected);
        run(true, "share group: only records of committed transactions", ShareTests::committed);
        run(false, "share group: every record, of aborted transactions too", ShareTests::uncommitted);
        run(false, "share group: state survives a kill of the server", ShareTests::restart);
        run(false, "share group: admin", ShareTests::admin);
    }

    /** A group that reads from the start of the topic; `configs` are name, value pairs. */
    private static String group(String purpose, String... configs) throws Exception {
        String group = "share-" + topic(purpose);
        List<AlterConfigOp> ops = new ArrayList<>(List.of(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)));
        for (int i = 0; i < configs.length; i += 2) ops.add(new AlterConfigOp(new ConfigEntry(configs[i], configs[i + 1]), AlterConfigOp.OpType.SET));
        try (Admin a = Clients.admin()) {
            a.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), ops)).all().get();
        }
        return group;
    }

    private static KafkaShareConsumer<byte[], byte[]> member(String group, String topic, String mode) {
        var member = new KafkaShareConsumer<>(Map.of("bootstrap.servers", BOOTSTRAP, "group.id", group, "share.acknowledgement.mode", mode, "fetch.max.wait.ms", 200, "max.poll.records", 50,
            "reconnect.backoff.max.ms", "500"), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        member.subscribe(List.of(topic));
        return member;
    }

    private static String filled(String purpose, int partitions, int count) throws Exception {
        String topic = create(purpose, partitions, Map.of());
        try (var p = producer()) {
            send(p, IntStream.range(0, count).mapToObj(i -> record(topic, i % partitions, null, String.valueOf(i).getBytes())).toList());
        }
        return topic;
    }

    private static int value(ConsumerRecord<byte[], byte[]> r) { return Integer.parseInt(new String(r.value())); }

    private static void until(String what, int seconds, Probe probe) throws Exception {
        for (long end = System.nanoTime() + seconds * 1_000_000_000L; !probe.holds(); ) that(System.nanoTime() < end, "not within " + seconds + " s: " + what);
    }

    private static void spread() throws Exception {
        String topic = filled("share", 2, 1000), group = group("spread");
        Map<Integer, Integer> seen = new HashMap<>();
        int[] per = new int[5];
        List<KafkaShareConsumer<byte[], byte[]>> members = new ArrayList<>();
        try {
            for (int i = 0; i < 5; i++) members.add(member(group, topic, "explicit"));
            until("1000 records", 60, () -> {
                for (int i = 0; i < 5; i++) {
                    for (var r : members.get(i).poll(Duration.ofMillis(50))) {
                        seen.merge(value(r), 1, Integer::sum);
                        per[i]++;
                        members.get(i).acknowledge(r, AcknowledgeType.ACCEPT);
                    }
                    members.get(i).commitSync().values().forEach(error -> that(error.isEmpty(), "acknowledgement: " + error));
                }
                return seen.size() == 1000;
            });
        } finally {
            for (var m : members) m.close();
        }
        that(seen.values().stream().allMatch(n -> n == 1), "some records came twice");
        that(Arrays.stream(per).filter(n -> n > 0).count() >= 2, "one consumer got everything: " + Arrays.toString(per));
    }

    private static void acknowledge() throws Exception {
        String topic = filled("share", 1, 100), group = group("acks");
        Map<Integer, List<Short>> deliveries = new TreeMap<>();
        try (var m = member(group, topic, "explicit")) {
            // Of ten records, one is rejected and one is released at its first two deliveries. The rest are
            // accepted.
            until("all settled", 60, () -> {
                for (var r : m.poll(Duration.ofMillis(200))) {
                    deliveries.computeIfAbsent(value(r), v -> new ArrayList<>()).add(r.deliveryCount().orElse((short) -1));
                    m.acknowledge(r, value(r) % 10 == 3 ? AcknowledgeType.REJECT
                        : value(r) % 10 == 7 && r.deliveryCount().orElse((short) 0) < 3 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                m.commitSync();
                return deliveries.size() == 100 && IntStream.range(0, 10).allMatch(i -> deliveries.get(i * 10 + 7).size() == 3);
            });
            for (long end = System.nanoTime() + 1_000_000_000L; System.nanoTime() < end; ) for (var r : m.poll(Duration.ofMillis(200))) throw new AssertionError(value(r) + " came again");
        }
        deliveries.forEach((v, counts) -> same(counts, v % 10 == 7 ? List.of((short) 1, (short) 2, (short) 3) : List.of((short) 1), "delivery counts of " + v));
    }

    private static void renew() throws Exception {
        String topic = filled("share", 1, 1), group = group("renew", "share.record.lock.duration.ms", "5000");
        try (var m = member(group, topic, "explicit"); var other = member(group, topic, "explicit")) {
            List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
            until("the record", 30, () -> { m.poll(Duration.ofMillis(200)).forEach(held::add); return !held.isEmpty(); });
            for (long end = System.nanoTime() + 12_000_000_000L; System.nanoTime() < end; ) {
                m.acknowledge(held.get(0), AcknowledgeType.RENEW);
                m.commitSync();
                m.poll(Duration.ofMillis(500));
                for (long pause = System.nanoTime() + 1_000_000_000L; System.nanoTime() < pause; ) that(other.poll(Duration.ofMillis(300)).isEmpty(), "another consumer got a record whose lock was renewed");
            }
            m.acknowledge(held.get(0), AcknowledgeType.ACCEPT);
            m.commitSync().values().forEach(error -> that(error.isEmpty(), "acceptance after renewals: " + error));
        }
    }

    private static void expiry() throws Exception {
        String topic = filled("share", 1, 10), group = group("expiry", "share.record.lock.duration.ms", "5000");
        try (var idle = new Holding(group, topic); var worker = member(group, topic, "explicit")) {
            long began = System.nanoTime();
            idle.pause();
            same(idle.deliveries, all(10, 1), "delivery counts for the first consumer");
            Set<Integer> taken = new TreeSet<>();
            until("the same ten for another", 40, () -> {
                for (var r : worker.poll(Duration.ofMillis(200))) {
                    same(r.deliveryCount().orElse((short) 0), (short) 2, "delivery count after an expiry");
                    taken.add(value(r));
                    worker.acknowledge(r);
                }
                return taken.size() == 10;
            });
            that(System.nanoTime() - began > 1_000_000_000L, "the locks did not last");
            worker.commitSync().values().forEach(error -> that(error.isEmpty(), "acknowledgement: " + error));
        }
    }

    private static void limit() throws Exception {
        String topic = filled("share", 1, 20), group = group("limit");
        Map<Integer, Integer> times = new TreeMap<>();
        try (var m = member(group, topic, "explicit")) {
            until("every other record five times", 60, () -> {
                for (var r : m.poll(Duration.ofMillis(200))) {
                    times.merge(value(r), 1, Integer::sum);
                    m.acknowledge(r, value(r) % 2 == 0 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                m.commitSync();
                return times.size() == 20 && times.values().stream().mapToInt(n -> n).sum() >= 60;
            });
            for (long end = System.nanoTime() + 2_000_000_000L; System.nanoTime() < end; ) for (var r : m.poll(Duration.ofMillis(200))) throw new AssertionError(value(r) + " came a sixth time");
        }
        times.forEach((v, n) -> same(n, v % 2 == 0 ? 5 : 1, "deliveries of " + v));
        nothingIsLeft(group, topic);
    }

    /** Nothing is left to deliver: everything was accepted, rejected or archived. */
    private static void nothingIsLeft(String group, String topic) throws Exception {
        try (Admin a = Clients.admin()) {
            eventually("nothing is left to do", () -> {
                var offset = a.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get().get(new TopicPartition(topic, 0));
                return offset != null && offset.lag().orElse(-1L) == 0;
            });
        }
    }

    /** Returns the delivery counts of the next records by value. The records stay acquired. */
    private static Map<Integer, Integer> hold(KafkaShareConsumer<byte[], byte[]> member, int count) throws Exception {
        Map<Integer, Integer> held = new TreeMap<>();
        until(count + " records", 40, () -> {
            if (held.isEmpty()) member.poll(Duration.ofMillis(200)).forEach(r -> held.put(value(r), (int) r.deliveryCount().orElse((short) 0)));
            return held.size() == count;
        });
        return held;
    }

    private static void quiet(KafkaShareConsumer<byte[], byte[]> member, int milliseconds, String what) {
        for (long end = System.nanoTime() + milliseconds * 1_000_000L; System.nanoTime() < end; ) member.poll(Duration.ofMillis(200)).forEach(r -> that(false, value(r) + " came " + what));
    }

    private static Map<Integer, Integer> all(int count, int deliveries) {
        return IntStream.range(0, count).boxed().collect(Collectors.toMap(i -> i, i -> deliveries, (a, b) -> a, TreeMap::new));
    }

    /** Acquires records and never acknowledges them. Returns the delivery counts of what it got, by value. */
    private interface Holder { Map<Integer, Integer> next(int count) throws Exception; }

    /** All three records come twice, then once more one by one, so that a bad record spoils no others. */
    private static void untilGivenUp(String group, String topic, Holder holder) throws Exception {
        same(holder.next(3), all(3, 1), "delivery counts for the first consumer");
        same(holder.next(3), all(3, 2), "delivery counts for the second consumer");
        Map<Integer, Integer> last = new TreeMap<>();
        for (int i = 0; i < 3; i++) last.putAll(holder.next(1));
        same(last, all(3, 3), "delivery counts for the last three consumers");
        try (var worker = member(group, topic, "explicit"); var p = producer()) {
            quiet(worker, 6000, "after its last delivery");
            nothingIsLeft(group, topic);
            send(p, List.of(record(topic, 0, null, "10".getBytes())));
            same(hold(worker, 1), Map.of(10, 1), "the next record");
        }
    }

    /** They stay members but neither poll nor acknowledge: the records wait for the end of their locks. */
    private static void silent() throws Exception {
        String topic = filled("silent", 1, 3), group = group("silent", "share.record.lock.duration.ms", "3000", "share.delivery.count.limit", "3");
        List<Holding> members = new ArrayList<>();
        try {
            untilGivenUp(group, topic, count -> {
                var holder = new Holding(group, topic);
                members.add(holder);
                holder.pause();
                return holder.deliveries;
            });
        } finally {
            for (var m : members) m.close();
        }
    }

    private static void killed() throws Exception {
        String topic = filled("killed", 1, 3), group = group("killed", "share.record.lock.duration.ms", "3000", "share.delivery.count.limit", "3");
        untilGivenUp(group, topic, count -> {
            var holder = new Holding(group, topic);
            holder.close();
            same(holder.deliveries.size(), count, "records held by the consumer that was killed");
            return holder.deliveries;
        });
    }

    /**
     * A consumer in a process of its own that acquires records and never acknowledges them. The client goes on
     * fetching in the background if its answer and the next poll cross, and would get its own records again when
     * their locks expire. A process that is paused or killed cannot.
     */
    private static final class Holding implements AutoCloseable {
        private final Process process;
        /** The delivery counts of what it got, by value. */
        final Map<Integer, Integer> deliveries = new TreeMap<>();

        Holding(String group, String topic) throws Exception {
            process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "tailrace.interop.ShareHolder", group, topic)
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
            // A test that waits too long is given up while it waits here.
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
            try (var out = process.inputReader()) {
                for (String line = out.readLine(); line != null && !line.equals("held"); line = out.readLine()) deliveries.put(Integer.parseInt(line.split(" ")[0]), Integer.parseInt(line.split(" ")[1]));
            }
        }

        void pause() throws Exception {
            same(new ProcessBuilder("kill", "-STOP", String.valueOf(process.pid())).start().waitFor(), 0, "status of kill");
        }

        @Override public void close() throws InterruptedException { process.destroyForcibly().waitFor(); }
    }

    private static void rejected() throws Exception {
        String topic = filled("rejected", 1, 100), group = group("rejected", "share.record.lock.duration.ms", "3000");
        Map<Integer, Integer> times = new TreeMap<>();
        try (var m = member(group, topic, "explicit"); var other = member(group, topic, "explicit")) {
            until("100 records rejected", 60, () -> {
                for (var each : List.of(m, other)) {
                    for (var r : each.poll(Duration.ofMillis(200))) {
                        times.merge(value(r), 1, Integer::sum);
                        each.acknowledge(r, AcknowledgeType.REJECT);
                    }
                    each.commitSync().values().forEach(error -> that(error.isEmpty(), "rejection: " + error));
                }
                return times.size() == 100;
            });
            same(times, all(100, 1), "deliveries");
            quiet(m, 4000, "again after it was rejected");
            quiet(other, 1000, "again after it was rejected");
        }
        nothingIsLeft(group, topic);
        server("restart", "KILL");
        try (var m = member(group, topic, "explicit"); var p = producer()) {
            send(p, List.of(record(topic, 0, null, "100".getBytes())));
            same(hold(m, 1), Map.of(100, 1), "after a restart");
        }
    }

    /**
     * 0..9 plain, 10..19 committed, 20..29 aborted, 30..39 plain; and an open transaction with 40..49 before
     * 50..59, plain.
     */
    private static Producer<byte[], byte[]> transactional(String topic) throws Exception {
        try (var plain = producer(); var t = producer("transactional.id", topic + "-decided")) {
            t.initTransactions();
            send(plain, ten(topic, 0));
            t.beginTransaction();
            send(t, ten(topic, 10));
            t.commitTransaction();
            t.beginTransaction();
            send(t, ten(topic, 20));
            t.abortTransaction();
            send(plain, ten(topic, 30));
            var open = producer("transactional.id", topic + "-open");
            open.initTransactions();
            open.beginTransaction();
            send(open, ten(topic, 40));
            send(plain, ten(topic, 50));
            return open;
        }
    }

    private static List<ProducerRecord<byte[], byte[]>> ten(String topic, int from) {
        return IntStream.range(from, from + 10).mapToObj(i -> record(topic, 0, null, String.valueOf(i).getBytes())).toList();
    }

    /** Takes and accepts records until `count` have come, each once, and then no more come. */
    private static Set<Integer> take(KafkaShareConsumer<byte[], byte[]> member, int count) throws Exception {
        Set<Integer> taken = new TreeSet<>();
        until(count + " records", 40, () -> {
            for (var r : member.poll(Duration.ofMillis(200))) {
                that(taken.add(value(r)) && r.deliveryCount().orElse((short) 0) == 1, value(r) + " came twice");
                member.acknowledge(r);
            }
            member.commitSync().values().forEach(error -> that(error.isEmpty(), "acknowledgement: " + error));
            return taken.size() >= count;
        });
        quiet(member, 1500, "beyond the " + count);
        return taken;
    }

    private static Set<Integer> tens(int... from) {
        return Arrays.stream(from).boxed().flatMap(f -> IntStream.range(f, f + 10).boxed()).collect(Collectors.toCollection(TreeSet::new));
    }

    private static void committed() throws Exception {
        for (boolean commits : new boolean[] {true, false}) {
            String topic = create("committed", 1, Map.of()), group = group("committed", "share.isolation.level", "read_committed");
            try (var open = transactional(topic); var m = member(group, topic, "explicit")) {
                same(take(m, 30), tens(0, 10, 30), "before the open transaction is decided");
                if (commits) open.commitTransaction(); else open.abortTransaction();
                same(take(m, commits ? 20 : 10), commits ? tens(40, 50) : tens(50), "after it");
            }
            nothingIsLeft(group, topic);
        }
    }

    private static void uncommitted() throws Exception {
        String topic = create("uncommitted", 1, Map.of()), group = group("uncommitted", "share.isolation.level", "read_uncommitted");
        try (var open = transactional(topic); var m = member(group, topic, "explicit")) {
            same(take(m, 60), tens(0, 10, 20, 30, 40, 50), "every record");
            open.abortTransaction();
            quiet(m, 1500, "after everything");
        }
        nothingIsLeft(group, topic);
    }

    private static void restart() throws Exception {
        String topic = filled("share", 1, 100), group = group("restart");
        Set<Integer> accepted = new TreeSet<>();
        try (var m = member(group, topic, "explicit")) {
            until("the first half", 30, () -> {
                for (var r : m.poll(Duration.ofMillis(200))) {
                    boolean wanted = value(r) % 2 == 0;
                    m.acknowledge(r, wanted ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                    if (wanted) accepted.add(value(r));
                }
                m.commitSync();
                return accepted.size() == 50;
            });
        }
        server("restart", "KILL");
        Set<Integer> left = new TreeSet<>();
        try (var m = member(group, topic, "explicit")) {
            until("the other half", 60, () -> {
                for (var r : m.poll(Duration.ofMillis(200))) {
                    that(value(r) % 2 == 1, value(r) + " was accepted before the kill");
                    left.add(value(r));
                    m.acknowledge(r);
                }
                m.commitSync();
                return left.size() == 50;
            });
        }
    }

    private static void admin() throws Exception {
        String topic = filled("share", 1, 10), group = group("admin");
        try (Admin a = Clients.admin()) {
            try (var m = member(group, topic, "implicit")) {
                List<Integer> got = new ArrayList<>();
                until("ten records", 30, () -> { m.poll(Duration.ofMillis(200)).forEach(r -> got.add(value(r))); return got.size() == 10; });
                m.commitSync();
                var described = a.describeShareGroups(List.of(group)).all().get().get(group);
                same(described.members().size(), 1, "members");
                same(described.groupState().toString(), "Stable", "state");
            }
            var listed = a.listGroups(ListGroupsOptions.forShareGroups()).all().get().stream().map(GroupListing::groupId).collect(Collectors.toSet());
            that(listed.contains(group), "not listed");
            var spec = Map.of(group, new ListShareGroupOffsetsSpec());
            var tp = new TopicPartition(topic, 0);
            // The start offset itself may lag behind the acknowledgements.
            eventually("nothing is left to do", () -> {
                var offset = a.listShareGroupOffsets(spec).partitionsToOffsetInfo(group).get().get(tp);
                return offset != null && offset.lag().orElse(-1L) == 0;
            });
            a.alterShareGroupOffsets(group, Map.of(tp, 4L)).all().get();
            same(a.listShareGroupOffsets(spec).partitionsToOffsetInfo(group).get().get(tp).startOffset(), 4L, "altered start offset");
            a.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
            a.deleteShareGroups(List.of(group)).all().get();
            that(a.listGroups(ListGroupsOptions.forShareGroups()).all().get().stream().noneMatch(g -> g.groupId().equals(group)), "still listed");
        }
    }
}
