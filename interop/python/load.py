"""Load on a cluster of nodes, and a check of the final records: for tests with nodes of their own."""
import threading, time
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from harness import check, eventually, same
from nodes import bootstrap, tailrace

WAIT_S = 30
CLOSE_S = 30
CLIENT = {"log_level": 2, "reconnect.backoff.max.ms": 300, "topic.metadata.refresh.interval.ms": 2000}


def create(cluster, name, partitions=1, replicas=3, **config):
    admin = AdminClient({"bootstrap.servers": bootstrap(cluster), **CLIENT})
    admin.create_topics([NewTopic(name, partitions, replicas, config={k.replace("__", "."): v for k, v in config.items()})])[name].result(WAIT_S)


def close(consumer, servers, group):
    """Closes the only member of a group. librdkafka (seen with 2.16.1) may never return if all brokers went
    away just before: three of its threads then wait for its own locks. The server's part is that the group is
    empty, at the latest when the session has ended."""
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(CLOSE_S)
    if closing.is_alive():
        print("  the client does not close: its group has to be empty when its session has ended", flush=True)
    eventually(lambda: "Empty" in tailrace("group", "describe", group, "-b", servers, status=None), f"{group} is empty", 60)


class Partition:
    """What the cluster says about a group."""

    def __init__(self, node, topic, partition=0):
        admin = AdminClient({"bootstrap.servers": node.kafka, **CLIENT})
        found = admin.list_topics(topic, 10).topics[topic].partitions[partition]
        self.leader, self.replicas, self.in_sync = found.leader, found.replicas, sorted(found.isrs)


class Load:
    """Sends numbers to all partitions of a topic until it is stopped, and keeps what was acknowledged."""

    def __init__(self, servers, topic, partitions=1, pause=0.01, **config):
        self.topic, self.partitions, self.pause = topic, partitions, pause
        self.sent, self.acknowledged, self.failures = 0, [], []
        self.stopping = threading.Event()
        self.producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": 300_000, **CLIENT, **config})
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def done(self, error, message):
        if error:
            self.failures.append(str(error))
        else:
            self.acknowledged.append((message.partition(), message.offset(), int(message.value())))

    def run(self):
        while not self.stopping.wait(self.pause):
            for p in range(self.partitions):
                self.producer.produce(self.topic, b"%d" % self.sent, partition=p, on_delivery=self.done)
                self.sent += 1
            self.producer.poll(0)

    def moves(self, seconds=WAIT_S, count=50):
        """Waits until this many more are acknowledged. Returns how long that took."""
        began, before = time.monotonic(), len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) >= before + count, f"{count} more records are acknowledged ({self.failures[:2]})", seconds)
        return time.monotonic() - began

    def stop(self):
        self.stopping.set()
        self.thread.join()
        check(self.producer.flush(60) == 0, f"{len(self.producer)} records are not acknowledged")
        same(self.failures, [], "failures")
        same(len(self.acknowledged), self.sent, "acknowledged records")


def read_all(servers, topic, partitions=1, **config):
    """[(partition, offset, value)] from the beginning to the end."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True, **CLIENT, **config})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    out, ended, end = [], set(), time.monotonic() + 60
    while len(ended) < partitions:
        check(time.monotonic() < end, f"{topic} could not be read to its end")
        m = consumer.poll(1)
        if m is None:
            continue
        if m.error():
            check(m.error().name() == "_PARTITION_EOF", f"{m.error()}")
            ended.add(m.partition())
        else:
            out.append((m.partition(), m.offset(), int(m.value())))
    consumer.close()
    return out


def judge(load, servers):
    """Acknowledged records exist at their acknowledged offsets, once and in order. There are no others."""
    found = read_all(servers, load.topic, load.partitions)
    for p in range(load.partitions):
        got, want = sorted(r for r in found if r[0] == p), sorted(r for r in load.acknowledged if r[0] == p)
        same([v for _, _, v in got], [v for _, _, v in want], f"values of partition {p}")
        same([o for _, o, _ in got], [o for _, o, _ in want], f"offsets of partition {p}")
        check(all(a[2] < b[2] for a, b in zip(got, got[1:])), f"order of partition {p}")
