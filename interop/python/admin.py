"""Admin calls, client by client, and records that one client writes and another reads."""
from harness import REPLICAS, SMOKE, check, eventually, raises, run, same
from model import Message, payload, topic_name
from scenarios import create, produce, read, same_content
from client_aiokafka import wait


# ---- confluent-kafka ----

def confluent_topics(client):
    from confluent_kafka.admin import NewPartitions, NewTopic
    from confluent_kafka import TopicCollection
    topic = topic_name(client, "admin")
    client.admin.create_topics([NewTopic(topic, 2, REPLICAS)], validate_only=True)[topic].result(30)
    check(topic not in client.admin.list_topics(timeout=10).topics, "validate_only made the topic")
    create(client, topic, 2)
    client.admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    eventually(lambda: client.partitions(topic) == 5, "five partitions")
    raises("INVALID_PARTITIONS", lambda: client.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30), "fewer partitions")
    raises("UNKNOWN_TOPIC", lambda: client.admin.create_partitions([NewPartitions(topic + "x", 3)])[topic + "x"].result(30), "partitions of an unknown topic")
    described = client.admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    same((described.name, len(described.partitions), described.partitions[4].id), (topic, 5, 4), "described topic")
    check(described.topic_id.get_least_significant_bits() or described.topic_id.get_most_significant_bits(), "a topic id of zeros")
    raises("INVALID_REPLICATION_FACTOR", lambda: client.admin.create_topics([NewTopic(topic + "r", 1, REPLICAS + 1)])[topic + "r"].result(30), "a replica too many")
    client.delete(topic)
    eventually(lambda: topic not in client.admin.list_topics(timeout=10).topics, "the topic is gone")


def confluent_configs(client):
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
    topic = topic_name(client, "configs")
    create(client, topic, 1, {"retention.ms": "1234567"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def described():
        return client.admin.describe_configs([resource])[resource].result(30)

    def value(name):
        return described()[name].value
    def visible():
        try:
            return described()
        except Exception:
            return None
    entry = eventually(visible, "the new topic's configs")["retention.ms"]
    same((entry.value, entry.source, entry.is_read_only, entry.is_sensitive), ("1234567", ConfigSource.DYNAMIC_TOPIC_CONFIG.value, False, False), "retention.ms")
    entry = described()["max.message.bytes"]
    same((entry.value, entry.source, entry.is_default), ("1048588", ConfigSource.DEFAULT_CONFIG.value, True), "max.message.bytes")
    missing = {"cleanup.policy", "compression.type", "flush.messages", "flush.ms", "message.timestamp.type", "min.insync.replicas",
               "retention.bytes", "retention.ms", "segment.bytes", "segment.ms", "message.timestamp.before.max.ms"} - set(described())
    same(missing, set(), "configs left out")

    def incremental(name, op, new):
        r = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[ConfigEntry(name, new, incremental_operation=op)])
        return client.admin.incremental_alter_configs([r])[r].result(30)
    incremental("max.message.bytes", AlterConfigOpType.SET, "5000000")
    eventually(lambda: value("max.message.bytes") == "5000000", "the altered value")
    same(value("retention.ms"), "1234567", "the other config")
    produce(client, topic, [Message(payload(1, 3_000_000))], bytes_max=4 << 20)
    incremental("retention.ms", AlterConfigOpType.DELETE, None)
    eventually(lambda: value("retention.ms") == "604800000", "the default again")
    raises("INVALID_CONFIG", lambda: incremental("retention.ms", AlterConfigOpType.SET, "soon"), "a bad value")
    raises("INVALID_CONFIG", lambda: incremental("no.such.config", AlterConfigOpType.SET, "1"), "an unknown config")
    old = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"flush.ms": "77"})
    client.admin.alter_configs([old])[old].result(30)  # replaces everything
    eventually(lambda: (value("flush.ms"), value("max.message.bytes")) == ("77", "1048588"), "the old call replaces all")
    broker = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(client.admin.list_topics(timeout=10).brokers))))
    configs = client.admin.describe_configs([broker])[broker].result(30)
    check("num.partitions" in configs and "auto.create.topics.enable" in configs, f"broker configs: {sorted(configs)[:5]}")


def confluent_offsets(client):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec
    topic = topic_name(client, "list-offsets")
    create(client, topic, 2)
    base = 1_700_000_000_000
    for t in (100, 900, 500):
        produce(client, topic, [Message(b"v", timestamp=base + t)])

    def listed(spec, partition=0):
        tp = TopicPartition(topic, partition)
        got = client.admin.list_offsets({tp: spec})[tp].result(30)
        return got.offset, got.timestamp
    same(listed(OffsetSpec.earliest())[0], 0, "earliest")
    same(listed(OffsetSpec.latest())[0], 3, "latest")
    same(listed(OffsetSpec.max_timestamp()), (1, base + 900), "maximum timestamp")
    same(listed(OffsetSpec.for_timestamp(base + 400)), (1, base + 900), "for a timestamp")
    same(listed(OffsetSpec.max_timestamp(), 1)[0], -1, "maximum timestamp of an empty partition")


def confluent_cluster(client):
    described = client.admin.describe_cluster().result(30)
    same(len(described.nodes), REPLICAS, "nodes")
    check(described.cluster_id, "no cluster id")
    check(described.controller.id in [n.id for n in described.nodes], "the controller is no node")
    metadata = client.admin.list_topics(timeout=10)
    same((metadata.cluster_id, len(metadata.brokers)), (described.cluster_id, REPLICAS), "metadata")


# ---- kafka-python ----

def kafka_python_admin(client):
    topic = topic_name(client, "admin")
    a = client.admin
    client.create(topic, 3)
    check(topic in a.list_topics(), "the topic is not listed")
    a.create_partitions({topic: 4})
    eventually(lambda: client.partitions(topic) == 4, "four partitions")
    check(topic in str(a.describe_topic_partitions([topic])), "describe_topic_partitions")
    check(a.describe_cluster()["brokers"], "describe_cluster")
    check(topic in str(a.describe_log_dirs()), "describe_log_dirs")
    produce(client, topic, [Message(b"v%d" % i) for i in range(5)], idempotent=True)
    from kafka import TopicPartition
    tp = TopicPartition(topic, 0)
    check("producer" in str(a.describe_producers([tp])).lower(), "describe_producers")
    from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
    same(a.list_partition_offsets({tp: OffsetSpec.LATEST})[tp].offset, 5, "latest")
    check("max.message.bytes" in str(a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")), "describe_configs")
    a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "54321"})])
    eventually(lambda: "54321" in str(a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")), "the altered value")
    refused = str(a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "x"})]))
    check("retention.ms" in refused and "x" in refused, f"a bad value: {refused}")
    client.delete(topic)
    eventually(lambda: topic not in a.list_topics(), "the topic is gone")


# ---- aiokafka ----

def aiokafka_admin(client):
    from aiokafka.admin import NewPartitions
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    topic = topic_name(client, "admin")
    client.create(topic, 2, validate_only=True)
    check(topic not in wait(client.admin.list_topics()), "validate_only made the topic")
    create(client, topic, 2)
    wait(client.admin.create_partitions({topic: NewPartitions(3)}))
    eventually(lambda: client.partitions(topic) == 3, "three partitions")
    check(wait(client.admin.describe_cluster())["brokers"], "describe_cluster")
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    check("max.message.bytes" in str(wait(client.admin.describe_configs([resource]))), "describe_configs")
    wait(client.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "54321"})]))
    eventually(lambda: "54321" in str(wait(client.admin.describe_configs([resource]))), "the altered value")
    client.delete(topic)
    eventually(lambda: topic not in wait(client.admin.list_topics()), "the topic is gone")


def crossed(writer, reader, codec):
    topic = topic_name(writer, f"to-{reader.name}-{codec}")
    create(writer, topic, 1, {"max.message.bytes": "3000000"})
    messages = [Message(payload(f"{codec} {n}", n), b"key-%d" % n, [("h", payload(n, 20))], 0, 1_700_000_000_000 + n) for n in (0, 1, 50, 999, 70_000)]
    produce(writer, topic, messages, codec=codec, bytes_max=1 << 20)
    records = read(reader, topic, len(messages))
    same_content(records, messages)
    same([r.timestamp for r in records], [m.timestamp for m in messages], "timestamps")


def run_all(confluent, kafka_python, aio):
    for name, action, client in [("topics and partitions", confluent_topics, confluent), ("configs", confluent_configs, confluent),
                                 ("list offsets", confluent_offsets, confluent), ("cluster", confluent_cluster, confluent),
                                 ("admin calls", kafka_python_admin, kafka_python), ("admin calls", aiokafka_admin, aio)]:
        run(f"{client.name}: {name}", action, client)
    clients = [confluent, kafka_python, aio]
    for w in clients:
        for r in clients:
            for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
                if w is not r and (not SMOKE or codec == "lz4"):
                    run(f"{codec} from {w.name} to {r.name}", crossed, w, r, codec)
