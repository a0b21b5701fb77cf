"""Consume, transform, produce with transactions, for every client that has them, while clients and server are
killed with SIGKILL.

Copiers read a topic as members of a group, write each record to another one and commit their offsets, all in
one transaction. Now and then they write a batch that they abort. A copier that dies is started again under
the same transactional id. At the end a reader of committed records must find every record exactly once and in
order, and nothing that was aborted. Run by interop/run.sh.
"""
import random, sys, threading, time
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
import harness
from fleet import Member, end_all, in_parallel
from groups import NAMES, Load, committed, fresh
from harness import BOOTSTRAP, SMOKE, Failure, check, same, server

PARTITIONS = 4
# Client, protocol of its group, number of copiers. Clients that send offsets without their generation (before
# KIP-447) need a group alone.
COPIERS = [("kafka-clients", "classic", 2), ("kafka-clients", "consumer", 2), ("franz-go", "classic", 2), ("franz-go", "consumer", 2),
           ("confluent-kafka", "classic", 2), ("confluent-kafka", "consumer", 2), ("kafkajs", "classic", 1), ("aiokafka", "classic", 1)]
FENCERS = ["kafka-clients", "franz-go", "confluent-kafka", "kafkajs", "aiokafka"]
LOAD_S = 12 if SMOKE else 40
RESTARTS_MAX = 60


def read(topic, isolation, partitions=PARTITIONS):
    """All values, partition by partition, up to the last stable offset or the log's end."""
    c = Consumer({**NAMES, "group.id": "reader", "enable.auto.commit": False, "isolation.level": isolation, "enable.partition.eof": True})
    out = {p: [] for p in range(partitions)}
    c.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    done, end = set(), time.monotonic() + 60
    while len(done) < partitions:
        check(time.monotonic() < end, f"{topic} could not be read to its end within a minute")
        for m in c.consume(1000, 0.5):
            if not m.error():
                out[m.partition()].append(m.value().decode())
            elif m.error().name() == "_PARTITION_EOF":
                done.add(m.partition())
    c.close()
    return out


class Copying:
    """The copiers of one client, kept alive. Now and then one is killed."""

    def __init__(self, client, protocol, count):
        self.client, self.protocol, self.count = client, protocol, count
        self.topic, self.out = fresh(f"in-{client}", PARTITIONS), fresh(f"out-{client}", PARTITIONS)
        self.group = f"copiers-{self.topic}"
        self.load = Load(self.topic, PARTITIONS, 0.02)
        self.members = [self.start(n) for n in range(count)]
        self.restarts, self.kills, self.failures = 0, 0, []

    def start(self, n):
        m = Member(self.client, "copy", group=self.group, topic=self.topic, protocol=self.protocol, out=self.out, txn=f"{self.group}-{n}")
        m.born = time.monotonic()
        return m

    def tend(self):
        for n, m in enumerate(self.members):
            if not m.alive():
                self.failures += [" ".join(map(str, e[2:])) for e in m.saw("error", "fatal")]
                self.restarts += 1
                check(self.restarts < RESTARTS_MAX, f"copiers ended {self.restarts} times: {self.failures[-3:]}")
                self.members[n] = self.start(n)

    def is_copying(self):
        """Whether a kill would hit a copier at work."""
        return any(e[0] > time.time() - 2 for m in self.members for e in m.saw("copied"))

    def kill_one(self, rng):
        rng.choice(self.members).kill()
        self.kills += 1

    def finish(self):
        ends = self.load.stop()
        end = time.monotonic() + 100
        while (found := committed(self.group, self.topic, PARTITIONS)) != ends:
            self.tend()
            check(time.monotonic() < end, f"committed {found} of {ends} after 100 s; {self.restarts} restarts, {self.failures[-3:]}; {[m.tail()[-200:] for m in self.members]}")
            time.sleep(0.2)
        for m in self.members:
            try:
                m.leave()
            except Failure:
                pass  # only the log counts
        # A killed copier may have left a transaction open that only its timeout ends. Until then no reader
        # gets past it.
        end = time.monotonic() + 60
        while sum(map(len, (seen := read(self.out, "read_committed")).values())) < sum(ends.values()) and time.monotonic() < end:
            time.sleep(1)
        for p, sent in ends.items():
            want = [f"copy of {p}-{i}" for i in range(sent)]
            if seen[p] != want:
                raise Failure(f"partition {p}: {difference(seen[p], want)}; {self.kills} kills, {self.restarts} restarts")
        everything = read(self.out, "read_uncommitted")
        check(any(v.startswith("aborted") for values in everything.values() for v in values), "nothing was ever aborted")
        return sum(ends.values())


def difference(got, want):
    doubled, unwanted = len(got) - len(set(got)), [v for v in got if v.startswith("aborted")]
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    return f"{len(got)} records, not {len(want)}; {doubled} doubled, {len(set(want) - set(got))} lost, {len(unwanted)} aborted ones; first at {at}: {got[at:at + 2]}, not {want[at:at + 2]}"


def copying(seed):
    rng = random.Random(seed)
    # One client after the other would need many times as many restarts of the server. All at once is too much
    # for two cores.
    wanted = [c for c in COPIERS if harness.ONLY.search(f"{c[0]} {c[1]}: copying")]
    if SMOKE:
        wanted = [c for c in wanted if c[:2] in (("kafka-clients", "consumer"), ("franz-go", "classic"), ("confluent-kafka", "classic"), ("kafkajs", "classic"))]
    for at in range(0, len(wanted), 4):
        crews, errors = {}, {}
        for c in wanted[at:at + 4]:
            crews[c] = Copying(*c)
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end and not all(crew.members[0].saw("copied") for crew in crews.values()):
                time.sleep(0.1)
            began = next_kill = time.monotonic()
            server_kills = [began + LOAD_S * f for f in ((0.5,) if SMOKE else (0.3, 0.55, 0.8))]
            while time.monotonic() < began + LOAD_S:
                for c, crew in crews.items():
                    if c not in errors:
                        attempt(errors, c, crew.tend)
                if time.monotonic() > next_kill:
                    next_kill = time.monotonic() + rng.uniform(2, 4)
                    for c, crew in crews.items():
                        if c not in errors and rng.random() < 0.7 and crew.is_copying():
                            crew.kill_one(rng)
                if server_kills and time.monotonic() > server_kills[0]:
                    server_kills.pop(0)
                    server("restart", "KILL")
                time.sleep(0.05)

            def finish(c):
                raise_if(errors.get(c))
                count = crews[c].finish()
                print(f"  {c[0]} {c[1]}: {count} records, {crews[c].kills} kills, {crews[c].restarts} restarts {sorted(set(f[:60] for f in crews[c].failures))[:3]}", flush=True)
            in_parallel([(f"{c[0]} {c[1]}: copying in transactions while clients and server are killed", lambda c=c: finish(c)) for c in crews], 4)
        finally:
            for crew in crews.values():
                crew.load.stopping.set()
            end_all()


def attempt(errors, key, action):
    try:
        action()
    except Failure as error:
        errors[key] = error


def raise_if(error):
    if error:
        raise error


def fencing(client):
    """Of two producers with one transactional id the second wins, and the first one's records are never seen."""
    out = fresh(f"fence-{client}", 1)
    m = Member(client, "fence", group="none", topic=out, out=out, txn=f"txn-{out}")
    status = m.leave(90)
    check(m.saw("fenced") and status == 0, f"exit {status}: {m.tail()}")
    same(read(out, "read_committed", 1)[0], ["of the second"], "committed")
    same(read(out, "read_uncommitted", 1)[0], ["of the first", "of the second"], "written")


def main():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    try:
        in_parallel([(f"{c}: a second producer with the same transactional id fences the first", lambda c=c: fencing(c)) for c in (FENCERS[:4] if SMOKE else FENCERS)], 3)
        copying(seed)
    finally:
        end_all()
    sys.exit(1 if harness.failed else 0)


if __name__ == "__main__":
    main()
