"""A rolling upgrade between two builds. The second one speaks one level more of the protocol between nodes."""
import json, os, signal, subprocess, time
from confluent_kafka import Consumer
from harness import check, eventually, same
from load import CLIENT, Load, Partition, create, judge
from nodes import bootstrap, three

# The server would take this variable for a setting.
NEXT = os.environ.pop("TAILRACE_NEXT_BIN", None)
LEVEL = "tailrace.cluster.level"
PARTITIONS = 6


def levels(cluster):
    """The level that each node says is in force."""
    return [json.loads(node.page("/clusterz"))["level"] for node in cluster]


def raise_level(cluster, to):
    """Runs Kafka's own tool. Returns its exit status and its output."""
    words = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ['KAFKA_LIBS']}/*", "org.apache.kafka.tools.FeatureCommand",
             "--bootstrap-server", bootstrap(cluster), "upgrade", "--feature", f"{LEVEL}={to}"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.returncode, done.stdout


def whole(cluster, load):
    eventually(lambda: all(Partition(n, "rolling", p).in_sync == [1, 2, 3] for n in cluster for p in range(PARTITIONS)), "all replicas are in sync", 60)
    load.moves(60)


def meets(node, other, level):
    """Checks that since its last start the node first spoke to the other one at this level."""
    lines = [l for l in node.since_start().splitlines() if "connected to another node" in l and f"node={other.number} " in l]
    return bool(lines) and f"level={level}" in lines[-1]


def two_builds(folder):
    check(NEXT, "TAILRACE_NEXT_BIN is not set")
    cluster = three(folder)
    old = cluster[0].binary
    create(cluster, "rolling", PARTITIONS)
    load = Load(bootstrap(cluster), "rolling", PARTITIONS)
    consumer = Consumer({"bootstrap.servers": bootstrap(cluster), "group.id": "rolling", "auto.offset.reset": "earliest", **CLIENT})
    consumer.subscribe(["rolling"])
    eventually(lambda: consumer.poll(0.1), "the group reads")
    same(levels(cluster), [2, 2, 2], "levels in force")

    def replace(node, binary):
        node.stop()
        node.binary = binary
        node.start()
        whole(cluster, load)
    replace(cluster[0], NEXT)
    replace(cluster[1], NEXT)
    # An older link may be from before the start of the node at its other end. Only links made after both were
    # started count.
    eventually(lambda: meets(cluster[1], cluster[0], 3), "the two of the new build speak level 3")
    eventually(lambda: meets(cluster[1], cluster[2], 2) and meets(cluster[0], cluster[2], 2), "with the old build they speak level 2")
    same(levels(cluster), [2, 2, 2], "levels in force")
    status, said = raise_level(cluster, 3)
    check(status != 0 and LEVEL in said, f"the level was raised with an old build there: {said}")
    print(f"  raised too early: {next(l for l in said.splitlines() if LEVEL in l)[-200:]}", flush=True)
    # With mixed builds, kill each of them once, and freeze one.
    for node in cluster:
        node.kill()
        load.moves(60)
        node.start()
        whole(cluster, load)
    leader = cluster[Partition(cluster[0], "rolling").leader - 1]
    leader.signal(signal.SIGSTOP)
    load.moves(60)
    leader.signal(signal.SIGCONT)
    whole(cluster, load)
    # Downgrade, and upgrade again, as long as the level is not raised.
    replace(cluster[1], old)
    replace(cluster[1], NEXT)
    replace(cluster[2], NEXT)
    same(levels(cluster), [2, 2, 2], "levels in force")
    status, said = raise_level(cluster, 3)
    same(status, 0, f"raising the level: {said}")
    eventually(lambda: levels(cluster) == [3, 3, 3], "every node says that level 3 is in force")
    load.moves()
    # From now on the old build is refused.
    cluster[2].stop()
    cluster[2].binary = old
    said = cluster[2].refuses_to_start()
    check("supports levels 1 to 2" in said and "the cluster is at 3" in said, said)
    print(f"  an old build afterwards: {said[-200:]}", flush=True)
    cluster[2].binary = NEXT
    cluster[2].start()
    whole(cluster, load)
    eventually(lambda: consumer.poll(0.1), "the group reads on")
    consumer.close()
    load.stop()
    judge(load, bootstrap(cluster))
