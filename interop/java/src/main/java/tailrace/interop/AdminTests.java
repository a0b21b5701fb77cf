package tailrace.interop;

import static tailrace.interop.Check.*;
import static tailrace.interop.Clients.*;

import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;

/** Every admin call that does not need groups, transactions or credentials. */
final class AdminTests {
    static void all() {
        run(true, "create, describe and delete topics", AdminTests::topics);
        run(true, "create topic errors", AdminTests::createErrors);
        run(true, "create partitions", AdminTests::partitions);
        run(true, "topic configs", AdminTests::configs);
        run(false, "broker configs", AdminTests::brokerConfigs);
        run(true, "offsets by position, time and maximum timestamp", AdminTests::offsets);
        run(true, "delete records", AdminTests::deleteRecords);
        run(false, "seek and out of range", AdminTests::seek);
        run(true, "cluster, log dirs and producers", AdminTests::cluster);
        run(true, "a compacted topic keeps the last of each key", AdminTests::compaction);
        run(true, "topic deleted and created again", AdminTests::recreate);
        run(false, "many partitions described page by page", AdminTests::manyPartitions);
    }

    private static void topics() throws Exception {
        try (Admin a = admin()) {
            String topic = topic("admin");
            a.createTopics(List.of(new NewTopic(topic, 3, Check.REPLICAS)), new CreateTopicsOptions().validateOnly(true)).all().get();
            that(!a.listTopics().names().get().contains(topic), "validation made the topic");
            var created = a.createTopics(List.of(new NewTopic(topic, 3, Check.REPLICAS).configs(Map.of("retention.ms", "777"))));
            same(created.numPartitions(topic).get(), 3, "partitions");
            same(created.config(topic).get().get("retention.ms").value(), "777", "retention.ms");
            Uuid id = created.topicId(topic).get();
            that(!id.equals(Uuid.ZERO_UUID), "a topic id of zeros");
            eventually("listed", () -> a.listTopics().names().get().contains(topic));
            var d = a.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            same(d.partitions().size() + " " + d.topicId() + " " + d.isInternal(), 3 + " " + id + " false", "description");
            same(a.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id).name(), topic, "described by id");
            raises(UnknownTopicOrPartitionException.class, () -> a.describeTopics(List.of(topic + "-none")).allTopicNames().get(), "describe an unknown topic");
            var defaults = a.createTopics(List.of(new NewTopic(topic + "-d", Optional.empty(), Optional.empty())));
            same(defaults.numPartitions(topic + "-d").get() + " " + defaults.replicationFactor(topic + "-d").get(), "1 " + Check.REPLICAS, "default counts");
            a.deleteTopics(List.of(topic + "-d")).all().get();
            a.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            eventually("gone", () -> !a.listTopics().names().get().contains(topic));
            raises(UnknownTopicIdException.class, () -> a.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get(), "delete a stale id");
            raises(UnknownTopicOrPartitionException.class, () -> a.deleteTopics(List.of(topic)).all().get(), "delete twice");
        }
    }

    private static void createErrors() throws Exception {
        String topic = create("errors", 1, Map.of());
        try (Admin a = admin()) {
            Map<NewTopic, Class<? extends Exception>> wrong = new LinkedHashMap<>();
            wrong.put(new NewTopic(topic, 1, Check.REPLICAS), TopicExistsException.class);
            for (String name : List.of("a/b", "..", "", "x".repeat(250))) wrong.put(new NewTopic(name, 1, Check.REPLICAS), InvalidTopicException.class);
            wrong.put(new NewTopic(topic + "p", 0, Check.REPLICAS), InvalidPartitionsException.class);
            wrong.put(new NewTopic(topic + "q", -5, Check.REPLICAS), InvalidPartitionsException.class);
            wrong.put(new NewTopic(topic + "r", 1, (short) (Check.REPLICAS + 1)), InvalidReplicationFactorException.class);
            wrong.put(new NewTopic(topic + "c", 1, Check.REPLICAS).configs(Map.of("no.such.config", "1")), InvalidConfigurationException.class);
            wrong.put(new NewTopic(topic + "d", 1, Check.REPLICAS).configs(Map.of("retention.ms", "soon")), InvalidConfigurationException.class);
            for (var w : wrong.entrySet()) raises(w.getValue(), () -> a.createTopics(List.of(w.getKey())).all().get(), w.getKey().toString());
            String dotted = topic.replace("-", ".");
            a.createTopics(List.of(new NewTopic(dotted, 1, Check.REPLICAS))).all().get();
            raises(InvalidTopicException.class, () -> a.createTopics(List.of(new NewTopic(dotted.replace(".", "_"), 1, Check.REPLICAS))).all().get(), "names that clash by . and _");
        }
    }

    private static void partitions() throws Exception {
        String topic = create("partitions", 1, Map.of());
        try (Admin a = admin()) {
            a.createPartitions(Map.of(topic, NewPartitions.increaseTo(9)), new CreatePartitionsOptions().validateOnly(true)).all().get();
            a.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            eventually("three partitions", () -> a.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 3);
            for (int n : new int[] {3, 2, 0}) raises(InvalidPartitionsException.class, () -> a.createPartitions(Map.of(topic, NewPartitions.increaseTo(n))).all().get(), "to " + n);
            raises(UnknownTopicOrPartitionException.class, () -> a.createPartitions(Map.of(topic + "x", NewPartitions.increaseTo(3))).all().get(), "unknown topic");
        }
        try (var p = producer()) { send(p, List.of(record(topic, 2, null, new byte[1]))); }
    }

    private static void configs() throws Exception {
        String topic = create("configs", 1, Map.of("retention.ms", "1234567"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin a = admin()) {
            Config c = a.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(resource);
            same(c.get("retention.ms").value() + " " + c.get("retention.ms").source() + " " + c.get("retention.ms").type(), "1234567 DYNAMIC_TOPIC_CONFIG LONG", "retention.ms");
            same(c.get("retention.ms").synonyms().get(0).name(), "retention.ms", "first synonym");
            same(c.get("cleanup.policy").value() + " " + c.get("cleanup.policy").source() + " " + c.get("cleanup.policy").type(), "delete DEFAULT_CONFIG LIST", "cleanup.policy");
            for (String key : List.of("compression.type", "flush.messages", "flush.ms", "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
                "message.timestamp.type", "min.insync.replicas", "preallocate", "retention.bytes", "segment.bytes", "segment.ms")) that(c.get(key) != null, "no config " + key);
            alter(a, resource, new ConfigEntry("max.message.bytes", "2000000"), AlterConfigOp.OpType.SET);
            eventually("altered", () -> value(a, resource, "max.message.bytes").equals("2000000"));
            ConfigEntry compact = new ConfigEntry("cleanup.policy", "compact");
            alter(a, resource, compact, AlterConfigOp.OpType.APPEND);
            eventually("appended", () -> value(a, resource, "cleanup.policy").equals("delete,compact"));
            alter(a, resource, compact, AlterConfigOp.OpType.SUBTRACT);
            alter(a, resource, new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE);
            eventually("default again", () -> value(a, resource, "retention.ms").equals("604800000") && value(a, resource, "cleanup.policy").equals("delete"));
            raises(InvalidConfigurationException.class, () -> alter(a, resource, new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET), "a bad value");
            raises(InvalidConfigurationException.class, () -> alter(a, resource, new ConfigEntry("no.such", "1"), AlterConfigOp.OpType.SET), "an unknown config");
            raises(UnknownTopicOrPartitionException.class, () -> alter(a, new ConfigResource(ConfigResource.Type.TOPIC, topic + "x"), new ConfigEntry("flush.ms", "1"), AlterConfigOp.OpType.SET), "an unknown topic");
            that(a.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all().get().contains(resource), "listed resources");
        }
    }

    private static void alter(Admin a, ConfigResource resource, ConfigEntry entry, AlterConfigOp.OpType op) throws Exception {
        a.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(entry, op)))).all().get();
    }

    private static String value(Admin a, ConfigResource resource, String key) throws Exception { return a.describeConfigs(List.of(resource)).all().get().get(resource).get(key).value(); }

    private static void brokerConfigs() throws Exception {
        try (Admin a = admin()) {
            String id = a.describeCluster().nodes().get().iterator().next().idString();
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, id);
            Config c = a.describeConfigs(List.of(broker)).all().get().get(broker);
            for (String key : List.of("num.partitions", "auto.create.topics.enable", "message.max.bytes", "log.retention.ms", "socket.request.max.bytes", "max.connections")) that(c.get(key) != null, "no config " + key);
        }
    }

    private static void compaction() throws Exception {
        String topic = create("compacted", 1, Map.of("cleanup.policy", "compact", "segment.bytes", "1048576", "min.cleanable.dirty.ratio", "0.01", "segment.ms", "500", "max.compaction.lag.ms", "500",
            "delete.retention.ms", "0"));
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (int i = 0; i < 20_000; i++) sent.add(record(topic, 0, ("key-" + i % 100).getBytes(), ("value-" + i).getBytes()));
        sent.add(record(topic, 0, "key-7".getBytes(), null)); // a tombstone
        try (var p = producer()) {
            send(p, sent);
            Thread.sleep(1000); // longer than segment.ms
            send(p, List.of(record(topic, 0, "last".getBytes(), "one".getBytes()))); // starts a segment: an open segment is never compacted
        }
        Map<String, Long> want = new TreeMap<>();
        for (int i = 19_900; i < 20_000; i++) if (i % 100 != 7) want.put("key-" + i % 100, (long) i);
        List<Integer> counts = new ArrayList<>();
        eventually("compacted", () -> {
            Map<String, Long> found = new TreeMap<>();
            int count = 0;
            try (var c = consumer(topic, Map.of(0, 0L))) {
                for (long next = 0; next < 20_002; next = c.position(new org.apache.kafka.common.TopicPartition(topic, 0))) {
                    for (var r : c.poll(java.time.Duration.ofSeconds(1))) {
                        count++;
                        String key = new String(r.key());
                        if (key.equals("last") || r.value() == null) continue;
                        same(new String(r.value()), "value-" + r.offset(), "value at its offset");
                        found.put(key, r.offset());
                    }
                }
            }
            counts.add(count);
            that(found.entrySet().containsAll(want.entrySet()), "the last record of a key is gone");
            return count <= 101 && found.keySet().equals(want.keySet());
        });
    }

    private static void offsets() throws Exception {
        String topic = create("offsets", 2, Map.of());
        TopicPartition p0 = new TopicPartition(topic, 0), p1 = new TopicPartition(topic, 1);
        long base = 1_700_000_000_000L;
        try (var p = producer(); Admin a = admin(); var c = consumer(topic, Map.of(0, 0L))) {
            for (long d : new long[] {100, 900, 500}) send(p, List.of(new ProducerRecord<>(topic, 0, base + d, null, new byte[1])));
            Map<OffsetSpec, String> want = new LinkedHashMap<>();
            want.put(OffsetSpec.earliest(), "0 -1");
            want.put(OffsetSpec.latest(), "3 -1");
            want.put(OffsetSpec.maxTimestamp(), "1 " + (base + 900));
            want.put(OffsetSpec.forTimestamp(base + 400), "1 " + (base + 900));
            want.put(OffsetSpec.earliestLocal(), "0 -1");
            want.put(OffsetSpec.latestTiered(), "-1 -1");
            for (var w : want.entrySet()) {
                var got = a.listOffsets(Map.of(p0, w.getKey())).partitionResult(p0).get();
                same(got.offset() + " " + got.timestamp(), w.getValue(), w.getKey().getClass().getSimpleName());
            }
            same(a.listOffsets(Map.of(p1, OffsetSpec.maxTimestamp())).partitionResult(p1).get().offset(), -1L, "maximum timestamp of an empty partition");
            same(c.beginningOffsets(List.of(p0, p1)), Map.of(p0, 0L, p1, 0L), "beginning");
            same(c.endOffsets(List.of(p0, p1)), Map.of(p0, 3L, p1, 0L), "end");
            var found = c.offsetsForTimes(Map.of(p0, base + 101, p1, base));
            same(found.get(p0).offset() + " " + found.get(p0).timestamp(), "1 " + (base + 900), "offset for a time");
            same(found.get(p1), null, "offset for a time in the empty partition");
            same(c.offsetsForTimes(Map.of(p0, base + 901)).get(p0), null, "offset after the last time");
        }
    }

    private static void deleteRecords() throws Exception {
        String topic = create("delete-records", 1, Map.of());
        TopicPartition tp = new TopicPartition(topic, 0);
        try (var p = producer(); Admin a = admin()) {
            for (int i = 0; i < 10; i++) send(p, List.of(record(topic, "" + i)));
            same(a.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(tp).get().lowWatermark(), 4L, "low watermark");
            same(read(topic, 6, Map.of(0, 0L), "auto.offset.reset", "earliest").get(0).offset(), 4L, "first offset");
            raises(OffsetOutOfRangeException.class, () -> a.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(11))).all().get(), "beyond the end");
            same(a.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(tp).get().lowWatermark(), 10L, "all");
        }
    }

    private static void seek() throws Exception {
        String topic = create("seek", 1, Map.of());
        TopicPartition tp = new TopicPartition(topic, 0);
        try (var p = producer("compression.type", "lz4", "linger.ms", "50")) {
            List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
            for (int i = 0; i < 100; i++) records.add(record(topic, "" + i));
            send(p, records);
        }
        try (var c = consumer(topic, Map.of(0, 90L))) {
            for (int at : new int[] {90, 37, 0, 99}) {
                c.seek(tp, at);
                same(readOn(c, 100 - at).get(0).offset(), (long) at, "first offset");
            }
            c.seekToBeginning(List.of(tp));
            same(readOn(c, 100).get(0).offset(), 0L, "beginning");
            c.seekToEnd(List.of(tp));
            same(c.position(tp), 100L, "end");
            c.seek(tp, 1000);
            raises(org.apache.kafka.clients.consumer.OffsetOutOfRangeException.class, () -> readOn(c, 1), "beyond the end without a reset");
        }
        same(read(topic, 100, Map.of(0, 1000L), "auto.offset.reset", "earliest").get(0).offset(), 0L, "reset to earliest");
    }

    private static void cluster() throws Exception {
        String topic = create("cluster", 2, Map.of());
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Admin a = admin(); var p = producer("compression.type", "none")) {
            send(p, List.of(record(topic, 0, null, payload(1, 10_000)), record(topic, 0, null, payload(2, 10_000))));
            var cluster = a.describeCluster();
            same(cluster.nodes().get().size(), (int) Check.REPLICAS, "nodes");
            that(!cluster.clusterId().get().isEmpty(), "no cluster id");
            var nodes = cluster.nodes().get().stream().map(node -> node.id()).collect(Collectors.toList());
            that(nodes.contains(cluster.controller().get().id()), "the controller is no node");
            // A majority has the acknowledged records; the third replica has them a moment later.
            for (int id : nodes) eventually("size on disk of node " + id, () -> {
                long size = 0;
                for (var dir : a.describeLogDirs(List.of(id)).allDescriptions().get().get(id).values()) {
                    same(dir.error(), null, "log dir");
                    that(dir.totalBytes().getAsLong() > 0 && dir.usableBytes().getAsLong() >= 0, "bytes of the volume");
                    if (dir.replicaInfos().containsKey(tp)) size += dir.replicaInfos().get(tp).size();
                }
                that(size < 40_000, "size on disk " + size);
                return size > 20_000;
            });
            var producers = a.describeProducers(List.of(tp)).all().get().get(tp).activeProducers();
            same(producers.stream().map(x -> x.producerEpoch() + " " + x.lastSequence() + " " + x.currentTransactionStartOffset()).collect(Collectors.toList()), List.of("0 1 OptionalLong.empty"), "producers");
            same(a.describeFeatures().featureMetadata().get().finalizedFeatures().isEmpty() && false, false, "features answer");
        }
    }

    private static void recreate() throws Exception {
        String topic = create("recreate", 1, Map.of());
        try (Admin a = admin(); var p = producer(); var c = consumer(topic, Map.of(0, 0L), "metadata.max.age.ms", "500")) {
            send(p, List.of(record(topic, "old")));
            same(values(readOn(c, 1), 0), List.of("old"), "values");
            a.deleteTopics(List.of(topic)).all().get();
            eventually("created again", () -> {
                try {
                    a.createTopics(List.of(new NewTopic(topic, 1, Check.REPLICAS))).all().get();
                    return true;
                } catch (java.util.concurrent.ExecutionException e) {
                    return false;
                }
            });
            // The producer knows the old topic id. It must learn the new one and continue.
            same(send(p, List.of(record(topic, "new"))).get(0).offset(), 0L, "first offset of the new topic");
        }
        same(values(read(topic, 1, Map.of(0, 0L)), 0), List.of("new"), "values");
    }

    private static void manyPartitions() throws Exception {
        String topic = create("many", 100, Map.of());
        try (Admin a = admin()) {
            var d = a.describeTopics(TopicCollection.ofTopicNames(List.of(topic)), new DescribeTopicsOptions().partitionSizeLimitPerResponse(7)).allTopicNames().get().get(topic);
            same(d.partitions().stream().map(TopicPartitionInfo::partition).toList(), java.util.stream.IntStream.range(0, 100).boxed().toList(), "partitions");
        }
    }
}
