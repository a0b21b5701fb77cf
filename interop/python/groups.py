"""Consumer groups of every client: members come, leave and are killed under load; static members; restarts of
the server.

Every member is a process of its own (fleet.py); ledger.py says what counts as lost or doubled. Run by
interop/run.sh.
"""
import random, sys, threading, time
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
import harness
from fleet import Member, end_all, in_parallel, until
from harness import BOOTSTRAP, REPLICAS, SMOKE, Failure, check, same, server
from ledger import judge

PARTITIONS = 12
# A killed member is removed after its session: 6 s in a classic group, 10 s by the server's setting with the
# new protocol.
CLASSIC = ["confluent-kafka", "kafka-python", "aiokafka", "franz-go", "sarama", "kafka-clients", "kafkajs"]
MODERN = ["confluent-kafka", "franz-go", "kafka-clients"]
STATIC = ["confluent-kafka", "kafka-python", "aiokafka", "franz-go", "sarama", "kafka-clients"]
STATIC_MODERN = ["confluent-kafka", "franz-go", "kafka-clients"]
# librdkafka's cooperative assignor puts data of its own into assignments. Kafka and tailrace refuse to
# convert such a group.
MIGRATING = ["franz-go", "kafka-clients"]
# kafkajs reports a lost partition only after its successor may have started.
TELLS_LATE = {"kafkajs"}
# aiokafka does not know the error of a fenced instance.
KNOWS_NO_FENCING = {"aiokafka"}
# A returning Java member names what it owned, which is nothing. To Kafka that is a changed subscription, so
# the group rebalances. franz-go 1.22 leaves without its instance id, which Kafka and tailrace refuse. It is
# removed after its session, and comes back as a new member.
REBALANCES_ON_RETURN = {("kafka-clients", "classic"), ("kafka-clients", "consumer"), ("franz-go", "consumer")}
NAMES = {"bootstrap.servers": BOOTSTRAP, "log_level": 2, "reconnect.backoff.max.ms": 300}
admin = AdminClient(NAMES)


def fresh(purpose, partitions=PARTITIONS):
    name = f"{purpose}-{random.randrange(1 << 32):08x}"
    admin.create_topics([NewTopic(name, partitions, REPLICAS)])[name].result(30)
    if harness.LEADERS_LATE:
        time.sleep(0.5)  # by then each node knows the leaders; a node that does not gives errors that are not this suite's subject
    return name


class Load:
    """Sends to all partitions of a topic at a steady pace until it is stopped."""

    def __init__(self, topic, partitions=PARTITIONS, pause=0.05):
        self.topic, self.partitions, self.pause, self.sent = topic, partitions, pause, [0] * partitions
        self.producer = Producer({**NAMES, "enable.idempotence": True, "message.timeout.ms": 300_000})
        self.failures, self.stopping = [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def done(self, error, _):
        if error:
            self.failures.append(str(error))

    def burst(self):
        for p in range(self.partitions):
            self.producer.produce(self.topic, f"{p}-{self.sent[p]}".encode(), partition=p, on_delivery=self.done)
            self.sent[p] += 1
        self.producer.poll(0)

    def run(self):
        while not self.stopping.wait(self.pause):
            self.burst()

    def stop(self):
        self.stopping.set()
        self.thread.join()
        check(self.producer.flush(120) == 0 and not self.failures, f"the load was not sent: {self.failures[:2]}")
        return dict(enumerate(self.sent))


def committed(group, topic, partitions=PARTITIONS):
    c = Consumer({**NAMES, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"})
    try:
        return {tp.partition: tp.offset for tp in c.committed([TopicPartition(topic, p) for p in range(partitions)], 30)}
    finally:
        c.close()


def shares(members):
    """Whether they have all partitions among them, each member at least one, and no partition twice."""
    owned = [m.owned() for m in members]
    return all(owned) and sorted(p for o in owned for p in o) == list(range(PARTITIONS))


def progress(members):
    """Whether every member got records since it was assigned its present partitions."""
    return all(m.saw("got") and m.saw("got")[-1][0] > m.saw("assigned")[-1][0] for m in members)


def seen_to(members, topic, ends):
    def probe():
        found = dict.fromkeys(ends, 0)
        for m in members:
            for _, _, p, offset in m.saw("committed"):
                found[int(p)] = max(found[int(p)], int(offset))
        return found == ends
    # sarama does not report its commits.
    return probe if any(m.client != "sarama" for m in members) else lambda: committed(members[0].group, topic) == ends


def member(client, protocol, group, topic, **more):
    m = Member(client, "consume", group=group, topic=topic, protocol=protocol, **more)
    m.group = group
    return m


def end(load, members):
    """Ends everything, whatever happened."""
    load.stopping.set()
    for m in members:
        if m.alive():
            m.process.kill()


def scale(client, protocol):
    """1 -> 5 -> 4 (one killed) -> 2 members under load."""
    topic = fresh(f"scale-{client}")
    group = f"group-{topic}-{protocol}"
    load, members = Load(topic), []
    try:
        members.append(member(client, protocol, group, topic))
        until(lambda: shares(members) and progress(members), "one member has all partitions", members)
        members += [member(client, protocol, group, topic) for _ in range(4)]
        until(lambda: shares(members) and progress(members), "five members share the partitions", members, 90)
        victim, *rest = members
        victim.kill()
        until(lambda: shares(rest) and progress(rest), "four are left after a kill", rest, 90)
        statuses = [m.leave() for m in rest[:2]]
        same(statuses, [0, 0], "exit of two that left")
        last = rest[2:]
        until(lambda: shares(last) and progress(last), "two are left", last, 90)
        ends = load.stop()
        until(seen_to(members, topic, ends), "everything is committed", last)
        same([m.leave() for m in last], [0, 0], "exit of the last two")
    finally:
        end(load, members)
    judge(members, ends, exclusive=client not in TELLS_LATE)
    same(committed(group, topic), ends, "commits in the end")
    KNOWN[client, protocol] = (group, topic, ends)


KNOWN = {}


def static(client, protocol):
    """
    A static member that goes away and comes back within its session gets its partitions back, and nobody
    else notices. A classic one is killed; the new protocol only takes the instance over from one that said
    that it goes for a while, as `close` does (KIP-848).
    """
    topic = fresh(f"static-{client}")
    group = f"group-{topic}-{protocol}"
    load, everyone = Load(topic), []

    def start(n):
        everyone.append(member(client, protocol, group, topic, instance=f"i{n}", session=20_000))  # starting a JVM takes seconds
        return everyone[-1]
    try:
        now = [start(n) for n in range(3)]
        until(lambda: shares(now) and progress(now), "three static members share the partitions", now)
        time.sleep(2)  # a cooperative assignment may need another round
        until(lambda: shares(now) and progress(now), "three static members share the partitions", now)
        before = [m.owned() for m in now]
        now[0].kill() if protocol == "classic" else now[0].leave()
        now[0] = start(0)
        until(lambda: shares(now) and progress(now), "the static member is back", now)
        if (client, protocol) not in REBALANCES_ON_RETURN:
            same([m.owned() for m in now], before, "partitions after the return")
        if client not in KNOWS_NO_FENCING:
            older, newer = now[0], start(0)
            if protocol == "classic":
                until(lambda: older.saw("fatal") or not older.alive(), "the older of two with one instance id is fenced", [newer])
                now[0] = newer
            else:
                until(lambda: newer.saw("fatal", "error", "note") or not newer.alive(), "the newer of two with one instance id is refused", [older])
                newer.kill()
            until(lambda: shares(now) and progress(now), "the others go on", now)
        ends = load.stop()
        until(seen_to(everyone, topic, ends), "everything is committed", now)
    finally:
        end(load, everyone)
    judge(everyone, ends, exclusive=False)
    same(committed(group, topic), ends, "commits in the end")


def kind_of(group):
    """classic or consumer, as the server lists it."""
    listed = admin.list_consumer_groups(request_timeout=30).result().valid
    return next(g.type.name for g in listed if g.group_id == group)


def migrate(client):
    """A group of three under load moves to the new protocol and back, one member after the other (KIP-848)."""
    topic = fresh(f"migrate-{client}")
    group = f"group-{topic}"
    load, everyone = Load(topic), []

    def start(protocol):
        everyone.append(member(client, protocol, group, topic))
        return everyone[-1]
    try:
        now = [start("classic") for _ in range(3)]
        until(lambda: shares(now) and progress(now), "three classic members share the partitions", now, 90)
        for protocol, kind in (("consumer", "CONSUMER"), ("classic", "CLASSIC")):
            for n in range(3):
                same(now[n].leave(), 0, "exit of a member that is replaced")
                now[n] = start(protocol)
                until(lambda: shares(now) and progress(now), f"{n + 1} of three members are {protocol} ones", now, 90)
            same(kind_of(group), kind, "type of the group once all have moved")
        ends = load.stop()
        until(seen_to(everyone, topic, ends), "everything is committed", now)
    finally:
        end(load, everyone)
    judge(everyone, ends, exclusive=client not in TELLS_LATE)
    same(committed(group, topic), ends, "commits in the end")


def restart(pairs):
    """Members survive kills of the server, and offsets committed before exist afterwards. One kill for
    all clients."""
    for (client, protocol), (group, topic, ends) in KNOWN.items():
        same(committed(group, topic), ends, f"commits of {client} {protocol} before the restart")
    lives = {}
    for client, protocol in pairs:
        topic = fresh(f"restart-{client}")
        lives[client, protocol] = (Load(topic, pause=0.2), [member(client, protocol, f"group-{topic}", topic)])
    errors = {}

    def each(what, action, seconds=90):
        for pair, (load, members) in lives.items():
            if pair in errors:
                continue
            try:
                action(load, members, what, seconds)
            except Failure as error:
                errors[pair] = error

    each("a member has all partitions", lambda _, ms, what, s: until(lambda: shares(ms) and progress(ms), what, ms, s))
    for _ in range(1 if SMOKE else 2):
        server("restart", "KILL")
        mark = time.time()
        each("records after the restart", lambda _, ms, what, s: until(lambda: ms[0].saw("got") and ms[0].saw("got")[-1][0] > mark + 1, what, ms, s))

    def finish(load, members, what, seconds):
        ends = load.stop()
        until(seen_to(members, load.topic, ends), what, members, seconds)
        same(members[0].leave(), 0, "exit")
        judge(members, ends)
        same(committed(members[0].group, load.topic), ends, "commits in the end")
    each("everything is committed", finish)
    jobs = [(f"{client} {protocol}: a member lives on through a kill of the server", lambda pair=(client, protocol): raise_if(errors.get(pair))) for client, protocol in pairs]

    def kept():
        for (client, protocol), (group, topic, ends) in KNOWN.items():
            same(committed(group, topic), ends, f"commits of {client} {protocol} after the restart")
    in_parallel([*jobs, (f"commits of {len(KNOWN)} groups survive a kill of the server", kept)], 1)


def raise_if(error):
    if error:
        raise error


def main():
    modern = [(c, "consumer") for c in MODERN]
    classic = [(c, "classic") for c in CLASSIC]
    if SMOKE:
        classic = [p for p in classic if p[0] not in ("kafka-python", "kafka-clients")]
    jobs = [(f"{c} {p}: one member, five, one killed, two", lambda c=c, p=p: scale(c, p)) for c, p in modern + classic]
    jobs += [(f"{c} {p}: static members", lambda c=c, p=p: static(c, p)) for c, p in
             ([("franz-go", "classic"), ("confluent-kafka", "consumer")] if SMOKE else [(c, "classic") for c in STATIC] + [(c, "consumer") for c in STATIC_MODERN])]
    jobs += [(f"{c}: to the new protocol and back", lambda c=c: migrate(c)) for c in (MIGRATING[:1] if SMOKE else MIGRATING)]
    try:
        in_parallel(jobs, 3)
        if harness.ONLY.search("restart"):
            restart(modern + classic)
    finally:
        end_all()
    sys.exit(1 if harness.failed else 0)


if __name__ == "__main__":
    main()
