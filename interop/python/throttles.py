"""Kafka's throttles of replication: new replicas catch up no faster than their nodes may send and receive,
and clients notice nothing."""
import json, os, random, subprocess, time
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from harness import check, eventually, same
from load import CLIENT, WAIT_S, Load, Partition, judge
from nodes import bootstrap, three

RATE = 4_000_000  # bytes per second
VALUE_BYTES, VALUES = 60_000, 400
BYTES = VALUE_BYTES * VALUES  # of each log
# The first message, the part of a message beyond its share, and the clock of the observer are not counted.
SLACK = 0.75


def place(cluster, places):
    """Topics with one partition each, on the given nodes."""
    admin = AdminClient({"bootstrap.servers": bootstrap(cluster), **CLIENT})
    for made in admin.create_topics([NewTopic(name, 1, replica_assignment=[nodes]) for name, nodes in places.items()]).values():
        made.result(WAIT_S)


def filled(cluster, places):
    """Produces the same long log into each topic."""
    place(cluster, places)
    producer = Producer({"bootstrap.servers": bootstrap(cluster), "compression.type": "none", "queue.buffering.max.kbytes": 200_000, **CLIENT})
    for name in places:
        for number in range(VALUES):
            producer.produce(name, random.Random(number).randbytes(VALUE_BYTES), partition=0)
    check(producer.flush(60) == 0, "the logs were not filled")
    for name, nodes in places.items():
        eventually(lambda: Partition(cluster[0], name).in_sync == sorted(nodes), f"{name} is on its nodes")


def reassign(cluster, folder, places, *words):
    """Runs Kafka's own tool. Returns its output."""
    plan = f"{folder}/plan.json"
    with open(plan, "w") as file:
        json.dump({"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": nodes} for name, nodes in places.items()]}, file)
    words = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ['KAFKA_LIBS']}/*", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
             "--bootstrap-server", bootstrap(cluster), "--reassignment-json-file", plan, *words]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    check(done.returncode == 0, done.stdout[-600:])
    return done.stdout


def alter(cluster, resource, **settings):
    admin = AdminClient({"bootstrap.servers": bootstrap(cluster), **CLIENT})
    for key, value in settings.items():
        resource.add_incremental_config(ConfigEntry(key.replace("__", "."), str(value), incremental_operation=AlterConfigOpType.SET))
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(WAIT_S)


def throttles(cluster, topics):
    """The throttle settings in force."""
    admin = AdminClient({"bootstrap.servers": bootstrap(cluster), **CLIENT})
    resources = [ConfigResource(ResourceType.BROKER, str(n.number)) for n in cluster] + [ConfigResource(ResourceType.TOPIC, t) for t in topics]
    # librdkafka asks for one broker at a time.
    found = [(r, described.result(WAIT_S)) for asked in resources for r, described in admin.describe_configs([asked]).items()]
    return {f"{r.name}:{key}": entry.value for r, entries in found for key, entry in entries.items()
            if "replication.throttled" in key and not entry.is_default}


def by_the_leader(folder):
    """Throttles set with Kafka's tool. One of the logs has had several replicas from its start and is copied
    as entries, one is copied as segments, and one is written to."""
    cluster = three(folder)
    filled(cluster, {"entries": [1, 2], "segments": [1]})
    places = {"entries": [1, 2, 3], "segments": [1, 3], "written": [1, 2, 3]}
    place(cluster, {"written": [1, 2]})
    load = Load(bootstrap(cluster), "written")
    load.moves()
    began = time.monotonic()
    said = reassign(cluster, folder, places, "--execute", "--throttle", str(RATE))
    check("Successfully started" in said, said)
    set_now = throttles(cluster, places)
    same({k: v for k, v in set_now.items() if k[0].isdigit()}, {f"{n.number}:{side}.replication.throttled.rate": str(RATE) for n in cluster for side in ("leader", "follower")}, "rates")
    check(set_now["entries:follower.replication.throttled.replicas"] == "0:3", f"{set_now}")
    slowest = 0
    while "is still in progress" in (said := reassign(cluster, folder, places, "--verify")):
        slowest = max(slowest, load.moves())
    took = time.monotonic() - began
    check(took > 2 * BYTES / RATE * SLACK, f"{2 * BYTES} bytes took {took:.1f} s at {RATE} bytes per second")
    check(said.count("is completed") == 3, said)
    same(throttles(cluster, places), {}, "throttles, once the tool has found all to be done")
    sent, taken = cluster[0].metric("tailrace_throttled_sent_bytes_total"), cluster[2].metric("tailrace_throttled_received_bytes_total")
    check(sent > 2 * BYTES and taken > 2 * BYTES, f"{sent} bytes were sent and {taken} taken of {2 * BYTES}")
    check(sent < 2.3 * BYTES, f"{sent} bytes were sent for {2 * BYTES}")
    print(f"  {2 * BYTES / 1e6:.0f} MB at {RATE / 1e6:.0f} MB/s in {took:.1f} s; 50 records of a client that writes took {slowest:.1f} s at most", flush=True)
    load.stop()
    judge(load, bootstrap(cluster))


def by_the_follower(folder):
    """Two leaders send to one node, which takes from both together what it may, until it may take everything."""
    cluster = three(folder)
    places = {"one": [1, 2], "two": [2, 1]}
    filled(cluster, places)
    eventually(lambda: [Partition(cluster[0], t).leader for t in places] == [1, 2], "both of them lead")
    for topic in places:
        alter(cluster, ConfigResource(ResourceType.TOPIC, topic), follower__replication__throttled__replicas="0:3")
    alter(cluster, ConfigResource(ResourceType.BROKER, "3"), follower__replication__throttled__rate=RATE)
    began = time.monotonic()
    reassign(cluster, folder, {name: [*nodes, 3] for name, nodes in places.items()}, "--execute")

    def taken():
        return cluster[2].metric("tailrace_throttled_received_bytes_total")
    eventually(lambda: taken() > BYTES, "half of it is copied", 60)
    took = time.monotonic() - began
    check(took > BYTES / RATE * SLACK, f"{BYTES} bytes took {took:.1f} s at {RATE} bytes per second")
    check(all(3 not in Partition(cluster[0], t).in_sync for t in places), "all is copied already")
    began = time.monotonic()
    alter(cluster, ConfigResource(ResourceType.BROKER, "3"), follower__replication__throttled__rate=1_000_000_000)
    eventually(lambda: all(Partition(cluster[0], t).in_sync == [1, 2, 3] for t in places), "all replicas are in sync", 60)
    rest = time.monotonic() - began
    check(rest < BYTES / RATE * SLACK, f"the other half took {rest:.1f} s without a throttle")
    print(f"  half of {2 * BYTES / 1e6:.0f} MB at {RATE / 1e6:.0f} MB/s in {took:.1f} s, the rest without a throttle in {rest:.1f} s", flush=True)
