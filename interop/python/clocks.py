"""Three nodes whose clocks are hours apart: no agreement may depend on the time of day."""
import glob, time
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from harness import Failure, check, eventually, same
from load import CLIENT, WAIT_S, Load, Partition, create, judge, read_all
from nodes import Node, bootstrap

# Offsets in seconds. The second node's clock is right.
SHIFTS = [-5 * 3600, 0, 7 * 3600]
PARTITIONS = 6


def clock_makers():
    """The path of libfaketime, if it is installed."""
    return glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") + glob.glob("/usr/lib/faketime/libfaketimeMT.so.1")


def shifted(seconds):
    """The prefix of a command whose wall clock is to be wrong. Monotonic clocks stay: those of the machines
    differ anyway."""
    return ["env", f"LD_PRELOAD={clock_makers()[0]}", f"FAKETIME={seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC=1"]


def stamps_differ(cluster):
    """With LogAppendTime a record has its leader's time. This shows that the clocks are shifted as intended."""
    servers = bootstrap(cluster)
    create(cluster, "stamped", 3, message__timestamp__type="LogAppendTime")
    took, p = {}, Producer({"bootstrap.servers": servers, "acks": "all", **CLIENT})
    for partition in range(3):
        p.produce("stamped", b"1", partition=partition, on_delivery=lambda e, m: took.__setitem__(m.partition(), (e, m.timestamp()[1])))
    check(p.flush(WAIT_S) == 0, "no answer")
    for partition, (error, stamp) in took.items():
        leader = Partition(cluster[0], "stamped", partition).leader
        check(error is None and abs(stamp / 1000 - time.time() - SHIFTS[leader - 1]) < 60, f"partition {partition} of node {leader}: {error} {stamp / 1000 - time.time():.0f} s")
    same(sorted(Partition(cluster[0], "stamped", p).leader for p in range(3)), [1, 2, 3], "leaders")


def transaction(cluster, number, commits, group=None):
    """Three records of a transaction with a transactional id of its own, and perhaps the group's offset."""
    p = Producer({"bootstrap.servers": bootstrap(cluster), "transactional.id": f"t{number}", "transaction.timeout.ms": 60_000, **CLIENT})
    p.init_transactions(WAIT_S)
    p.begin_transaction()
    for partition in range(3):
        p.produce("paid", b"%d" % number, partition=partition)
    if group:
        p.send_offsets_to_transaction([TopicPartition("hours", 0, number)], group.consumer_group_metadata(), WAIT_S)
    p.commit_transaction(WAIT_S) if commits else p.abort_transaction(WAIT_S)


def hours_apart(folder):
    cluster = []
    for number, shift in enumerate(SHIFTS, 1):
        cluster.append(Node(folder, number, [cluster[0].listen] if cluster else [], within=shifted(shift)).start())
    stamps_differ(cluster)
    # By default a leader whose clock is an hour behind that of a producer refuses its records, as Kafka's
    # leaders do.
    anyhow = {"message__timestamp__after__max__ms": str(12 * 3600 * 1000)}
    create(cluster, "hours", PARTITIONS, **anyhow)
    create(cluster, "paid", 3, **anyhow)
    load = Load(bootstrap(cluster), "hours", PARTITIONS)
    load.moves()
    members = [Consumer({"bootstrap.servers": bootstrap(cluster), "group.id": "g", "auto.offset.reset": "earliest", "session.timeout.ms": 10_000, **CLIENT}) for _ in range(2)]
    for m in members:
        m.subscribe(["hours"])
    seen, assigned = set(), lambda: [len(m.assignment()) for m in members]

    def poll():
        for m in members:
            got = m.poll(0.05)
            if got is not None and not got.error():
                seen.add((got.partition(), got.offset()))

    def shared():
        poll()
        return assigned() == [3, 3]
    eventually(shared, f"the two members share the partitions ({assigned()})", 60)
    committed = []
    for turn, node in enumerate(cluster):
        # The new leader and coordinator has another clock than the old one.
        node.kill()
        load.moves(60)
        for number in range(turn * 4, turn * 4 + 4):
            commits = number % 4 != 3
            transaction([n for n in cluster if n is not node], number, commits, members[0] if number % 4 == 1 else None)
            committed += [number] if commits else []
        poll()
        node.start()
        eventually(lambda: all(Partition(n, "hours", p).in_sync == [1, 2, 3] for n in cluster for p in range(PARTITIONS)), "all replicas are in sync", 60)
        eventually(shared, "the members have kept their partitions, or have them again", 60)
        load.moves(60)
    # A transaction that its producer does not end is ended after its timeout, not hours before or after that.
    p = Producer({"bootstrap.servers": bootstrap(cluster), "transactional.id": "left", "transaction.timeout.ms": 5_000, **CLIENT})
    p.init_transactions(WAIT_S)
    p.begin_transaction()
    p.produce("paid", b"999", partition=0)
    check(p.flush(WAIT_S) == 0, "no answer")
    began = time.monotonic()
    consumer = Consumer({"bootstrap.servers": bootstrap(cluster), "group.id": "unused", "isolation.level": "read_committed", **CLIENT})

    def ended():
        """Whether the last stable offset has reached the end."""
        admin_end = Consumer({"bootstrap.servers": bootstrap(cluster), "group.id": "unused", "isolation.level": "read_uncommitted", **CLIENT})
        try:
            at = TopicPartition("paid", 0)
            return consumer.get_watermark_offsets(at, 10)[1] == admin_end.get_watermark_offsets(at, 10)[1]
        except KafkaException as error:
            raise Failure(str(error))
        finally:
            admin_end.close()
    check(not ended(), "the transaction was over at once")
    eventually(ended, "the transaction without an end is aborted", 60)
    took = time.monotonic() - began
    check(took > 3, f"it was aborted after {took:.1f} s, with a timeout of 5 s")
    print(f"  a transaction with a timeout of 5 s was aborted after {took:.1f} s", flush=True)
    for m in members:
        m.close()
    consumer.close()
    load.stop()
    judge(load, bootstrap(cluster))
    found = read_all(bootstrap(cluster), "paid", 3, **{"isolation.level": "read_committed"})
    for partition in range(3):
        same([v for p, _, v in sorted(found) if p == partition], committed, f"committed transactions in partition {partition}")
