"""Members of groups as processes of their own, for every client: starts, stops and kills them, and keeps what
they print.

A member gets key=value words: role (consume, copy, fence, share), bootstrap, topic, group, and as needed out,
protocol, instance, txn. It prints lines `SECONDS EVENT ...`:

    assigned P...          it now owns these partitions, besides those that it has
    revoked P..., lost P...
    got P FIRST LAST       records of a partition, without a gap between them
    committed P OFFSET     acknowledged by the server
    copied N, fenced, ready, left, note TEXT, fatal TEXT, error TEXT

and leaves its group when its standard input ends.
"""
import os, signal, subprocess, sys, threading, time
from harness import BOOTSTRAP, Failure, check

HERE = os.path.dirname(os.path.abspath(__file__))
JAVA = ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", f"{HERE}/../java/target/classes:{os.environ.get('KAFKA_LIBS', '')}/*",
        "tailrace.interop.Member"]
PYTHON = [sys.executable, f"{HERE}/member.py"]
GO = [os.environ.get("GO_MEMBER_BIN", f"{HERE}/../go/target/member")]
CLIENTS = {
    "confluent-kafka": [*PYTHON, "confluent"], "kafka-python": [*PYTHON, "kafka-python"], "aiokafka": [*PYTHON, "aiokafka"],
    "franz-go": [*GO, "franz-go"], "sarama": [*GO, "sarama"], "kafka-clients": JAVA, "kafkajs": ["node", f"{HERE}/../js/member.js"],
}
everyone = []


class Member:
    def __init__(self, client, role, **options):
        self.client, self.events, self.condition = client, [], threading.Condition()
        words = [f"{k}={v}" for k, v in {"role": role, "bootstrap": BOOTSTRAP, **options}.items()]
        self.process = subprocess.Popen([*CLIENTS[client], *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        everyone.append(self)

    def read(self):
        for line in self.process.stdout:
            at, _, rest = line.decode(errors="replace").rstrip("\n").partition(" ")
            try:
                event = (float(at), *rest.split())
            except ValueError:
                continue  # output of the client itself
            with self.condition:
                if event[1:]:
                    self.events.append(event)
                self.condition.notify_all()

    def saw(self, *names):
        with self.condition:
            return [e for e in self.events if e[1] in names]

    def owned(self):
        """The partitions that it owns now, by its own account."""
        mine = set()
        for _, event, *words in self.saw("assigned", "revoked", "lost", "left"):
            found = set(map(int, words))
            mine = mine | found if event == "assigned" else set() if event == "left" else mine - found
        return mine

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.reader.join(10)
        with self.condition:
            self.events.append((time.time(), "left"))

    def leave(self, seconds=40):
        """Ends it cleanly. Returns its exit status."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure(f"{self.client}: a member did not leave within {seconds} s: {self.tail()}")
        self.reader.join(10)
        return status

    def tail(self):
        with self.condition:
            return "; ".join(" ".join(map(str, e[1:])) for e in self.events[-6:])


def end_all():
    for m in everyone:
        if m.alive():
            m.process.kill()
            m.process.wait()


def until(probe, what, members=(), seconds=60):
    """Waits for `probe`. Fails if a member ends by itself, or the time is up."""
    end = time.monotonic() + seconds
    while not probe():
        for m in members:
            check(m.alive(), f"{what}: a member ended with {m.process.poll()}: {m.tail()}")
        if time.monotonic() > end:
            owned = {i: sorted(m.owned()) for i, m in enumerate(members)}
            raise Failure(f"not within {seconds} s: {what}; owned {owned}; last lines {[m.tail()[-150:] for m in members]}")
        time.sleep(0.05)


def in_parallel(jobs, width):
    """Runs [(name, action)], several at a time, and prints PASS or FAIL for each. Returns the number of
    failures."""
    import harness, traceback
    jobs = [(name, action) for name, action in jobs if harness.ONLY.search(name)]
    lock, failed = threading.Lock(), []

    def work():
        while True:
            with lock:
                if not jobs:
                    return
                name, action = jobs.pop(0)
            began = time.monotonic()
            try:
                action()
                print(f"PASS {name} ({time.monotonic() - began:.1f} s)", flush=True)
            except Exception as error:
                failed.append(name)
                print(f"FAIL {name}: {error if isinstance(error, Failure) else repr(error)}", flush=True)
                if not isinstance(error, Failure):
                    traceback.print_exc(file=sys.stderr)
    threads = [threading.Thread(target=work) for _ in range(width)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    harness.failed += len(failed)
    return len(failed)
