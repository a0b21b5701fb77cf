"""Kafka Streams (exactly_once_v2) counts the words of a text while application and server are killed. The
counts must be those of awk.

Run by groups-mainjob.sh, and as a part of streams.py: wordcount.py MEGABYTES SERVER_KILLS APPLICATION_KILLS.
"""
import itertools, os, re, shutil, subprocess, sys, tempfile, threading, time
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from groups import NAMES, committed, fresh
from harness import BOOTSTRAP, check, server

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSPATH = f"{HERE}/../java/target/classes:{os.environ.get('KAFKA_LIBS', '')}/*"
PARTITIONS, LINE_WORDS = 4, 400
HOME = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
SOURCES = [f"{HOME}/registry/src", f"{HERE}/../../crates"]


def make_text(path, megabytes):
    """Yields the words of the Rust sources in the cargo registry in lower case, several to a line, repeated
    until there are enough."""
    root = next(folder for folder in SOURCES if os.path.isdir(folder))
    files = sorted(f"{folder}/{name}" for folder, _, names in os.walk(root) for name in names if name.endswith(".rs"))
    check(files, f"no Rust sources under {root}")
    size, due, words = 0, megabytes * 1_000_000, []
    with open(path, "w") as f:
        for name in itertools.cycle(files):
            if size >= due:
                break
            words += re.findall("[a-z]+", open(name, errors="replace").read().lower())
            while len(words) >= LINE_WORDS:
                size += f.write(" ".join(words[:LINE_WORDS]) + "\n")
                words = words[LINE_WORDS:]


class Application:
    """Kafka Streams in a process of its own, started again after it was killed."""

    def __init__(self, name, source, sink, folder, heap):
        self.name, self.arguments, self.folder, self.heap, self.log = name, (name, source, sink), folder, heap, f"{folder}/application.log"
        self.start()

    def start(self):
        command = ["java", f"-Xmx{self.heap}m", "-XX:+UseSerialGC", "-cp", CLASSPATH, "tailrace.interop.WordCount", *self.arguments, f"{self.folder}/state"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=open(self.log, "ab"), stderr=subprocess.STDOUT)

    def kill_and_lose_state(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(f"{self.folder}/state", ignore_errors=True)
        self.start()

    def stop(self):
        self.process.stdin.close()
        check(self.process.wait(90) == 0, f"the application did not close: {self.tail()}")

    def tail(self):
        return open(self.log, errors="replace").read()[-600:]


def send(path, topic, sent):
    p = Producer({**NAMES, "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 20, "message.timeout.ms": 600_000, "queue.buffering.max.kbytes": 65536})

    def done(error, _):
        check(not error, f"a line was not sent: {error}")
    for n, line in enumerate(open(path, "rb")):
        while True:
            try:
                p.produce(topic, line.rstrip(b"\n"), partition=n % PARTITIONS, on_delivery=done)
                break
            except BufferError:
                p.poll(0.1)
        sent[n % PARTITIONS] += 1
        p.poll(0)
    check(p.flush(600) == 0, "lines are left")


class Tally:
    """The last committed count of every word. The counts of a word must grow."""

    def __init__(self, topic, partitions):
        self.consumer = Consumer({**NAMES, "group.id": "reader", "enable.auto.commit": False, "isolation.level": "read_committed"})
        self.consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        self.counts, self.sum = {}, 0

    def read_on(self):
        while found := self.consumer.consume(10_000, 0.3):
            for m in found:
                if m.error():
                    continue
                key, count = m.key(), int.from_bytes(m.value(), "big")
                before = self.counts.get(key, 0)
                check(before < count, f"{key}: {count} after {before}")
                self.counts[key] = count
                self.sum += count - before


def run(megabytes, server_kills, application_kills):
    folder = tempfile.mkdtemp(prefix="interop-words.")
    text = f"{folder}/text"
    make_text(text, megabytes)
    source, sink = fresh("lines", PARTITIONS), fresh("counts", PARTITIONS)
    with open(text) as f:
        due = sum(line.count(" ") + 1 for line in f)
    tally = Tally(sink, PARTITIONS)
    sent, began = [0] * PARTITIONS, time.monotonic()
    app = Application(f"count-{source}", source, sink, folder, 512 if megabytes < 50 else 1024)
    try:
        sender = threading.Thread(target=send, args=(text, source, sent), daemon=True)
        sender.start()
        lines = sum(1 for _ in open(text, "rb"))
        # Kills are spread over the input as it is processed. The two kinds take turns.
        kills = [(k + 1) / (server_kills + 1) for k in range(server_kills)]
        deaths = [(k + 0.6) / (application_kills + 1) for k in range(application_kills)]
        end, late, note = time.monotonic() + 240 + 6 * megabytes, 0, 0
        while True:
            done = 0
            try:
                done = sum(max(o, 0) for o in committed(app.name, source, PARTITIONS).values())
            except Exception:
                late += 1  # the server is just coming back
            if kills and done >= kills[0] * lines:
                kills.pop(0)
                server("restart", "KILL")
                print(f"  server killed with {done} of {lines} lines committed, after {time.monotonic() - began:.0f} s", flush=True)
            if deaths and done >= deaths[0] * lines:
                deaths.pop(0)
                app.kill_and_lose_state()
                print(f"  application killed and its state deleted with {done} of {lines} lines committed, after {time.monotonic() - began:.0f} s", flush=True)
            tally.read_on()
            if tally.sum == due and done == lines:
                break
            check(tally.sum <= due, f"{tally.sum} words counted, there are {due}")
            if time.monotonic() > note:
                note = time.monotonic() + 30
                print(f"  {time.monotonic() - began:.0f} s: {done} of {lines} lines, {tally.sum} of {due} words", flush=True) if megabytes > 20 else None
            check(app.process.poll() is None, f"the application ended: {app.tail()}")
            check(time.monotonic() < end, f"{done} of {lines} lines, {tally.sum} of {due} words after {time.monotonic() - began:.0f} s: {app.tail()}")
            time.sleep(0.3)
        app.stop()
        seconds = time.monotonic() - began
        tally.read_on()
        tally.consumer.close()
        counts = tally.counts
        with open(f"{folder}/streams", "w") as f:
            f.writelines(sorted(f"{k.decode()} {n}\n" for k, n in counts.items()))
        shell = "awk '{for (i = 1; i <= NF; i++) n[$i]++} END {for (w in n) print w, n[w]}' text | LC_ALL=C sort > shell && cmp shell streams && diff -q shell streams"
        same = subprocess.run(shell, shell=True, cwd=folder, capture_output=True, text=True)
        check(same.returncode == 0, f"the counts differ: {same.stdout}")
        restored = open(app.log, errors="replace").read().count("restored ")
        check(restored > 0 or not application_kills, "no state was restored")
        return f"{os.path.getsize(text)} bytes, {sum(counts.values())} words, {len(counts)} different, {server_kills} kills of the server, {application_kills} of the application, {seconds:.0f} s"
    finally:
        if app.process.poll() is None:
            app.process.kill()
            app.process.wait()
        shutil.rmtree(folder, ignore_errors=True) if not os.environ.get("KEEP") else print(folder)


if __name__ == "__main__":
    megabytes, server_kills, application_kills = map(int, sys.argv[1:4])
    try:
        print(f"PASS words: the counts of Streams are those of awk: {run(megabytes, server_kills, application_kills)}", flush=True)
    except Exception as error:
        print(f"FAIL words: {error!r}", flush=True)
        sys.exit(1)
