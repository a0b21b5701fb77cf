"""The parts that damage.py and damage_copies.py share: they find and damage files of a partition, and read
what is served of it."""
import json, os, subprocess, sys, time, urllib.request, urllib.error
from pathlib import Path
from confluent_kafka import Producer
from harness import Failure, check

BINARY, STATE, SERVER = os.environ["TAILRACE_BIN"], Path(os.environ["INTEROP_STATE"]), os.environ["INTEROP_SERVER"]
ONLY = os.environ.get("ONLY", "")
TOPIC, BATCH = "damage", 10
WAIT_SECONDS = 30
failed = 0


def server(command, *more):
    subprocess.run([SERVER, command, str(STATE / "server"), *more], check=True, stdout=subprocess.DEVNULL)


def said(name, folder=STATE / "server"):
    return (folder / name).read_text().strip()


def tailrace(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def health(folder=STATE / "server"):
    try:
        with urllib.request.urlopen(f"http://{said('http', folder)}/healthz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


# ---- what is written ----

def key_of(number):
    # The first of each batch is written again by the next one.
    return "again" if number % BATCH == 0 else f"key-{number}"


def value_of(number, words):
    return f"value {number} " * words


def produce(first, upto, words, partitions=(0,)):
    """Produces batches of ten records, the same into each partition. The offset of a record is its number."""
    producer = Producer({"bootstrap.servers": said("addr"), "acks": "all", "enable.idempotence": True, "batch.num.messages": BATCH, "linger.ms": 20})
    failures = []
    for base in range(first, upto, BATCH):
        for partition in partitions:
            for number in range(base, base + BATCH):
                producer.produce(TOPIC, value_of(number, words), key_of(number), partition=partition,
                                 on_delivery=lambda error, _: error and failures.append(str(error)))
            producer.poll(0)
        check(producer.flush(30) == 0, "the load is not taken")
    check(not failures, f"the load: {failures[:3]}")


# ---- the files ----

def files(partition, pattern):
    return sorted(partition.glob(pattern))


def find(partition, what):
    kind = what.split()[-1]
    appended = files(partition, "[0-9]*[0-9].log")
    appended = [path for path in appended if path.name.count(".") == 1]
    if what.startswith("compacted"):
        return files(partition, f"*.1.{kind}")[0]
    if what.startswith("sealed"):
        check(len(appended) > 1, f"segments: {appended}")
        return appended[0].with_suffix(f".{kind}")
    if what.startswith("active"):
        return appended[-1].with_suffix(f".{kind}")
    return files(partition, "*.snapshot")[-1] if what == "snapshot" else partition / what


def damage(path, change, at=None):
    """`at`: the byte to flip, instead of the one in the middle."""
    if change == "missing":
        return path.unlink()
    with open(path, "r+b") as file:
        size = path.stat().st_size
        if change == "flip":
            at = size // 2 if at is None else at
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x10]))
        else:
            file.truncate(0 if change == "empty" else size - 10)


# ---- what is served ----

def consume(*more):
    """Returns the records by partition and offset, whether something was left out, and what was said of it."""
    read = tailrace("consume", TOPIC, "-b", said("addr"), "--skip-damaged", "--timeout", "20s", "-o", "json", *more)
    records = {}
    for line in read.stdout.splitlines():
        record = json.loads(line)
        records.setdefault(record["partition"], {})[record["offset"]] = record["value"]
    return records, read.returncode != 0, read.stderr


def scrub():
    done = tailrace("cluster", "scrub", "--topic", TOPIC, "--rate", 0, "-b", said("addr"), "--http", said("http"))
    check("nothing" not in done.stderr, done.stderr)
    return done


# ---- a line for each cell ----

def passed(name, seconds):
    print(f"PASS {name} ({seconds:.1f} s)", flush=True)


def fail(name, why):
    global failed
    failed += 1
    print(f"FAIL {name}: {why}", flush=True)


def kill():
    subprocess.run([SERVER, "stop", str(STATE / "server"), "KILL"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# Errors with which a cell may fail. Any other error is a fault of the test.
FAILURES = (Failure, OSError, subprocess.SubprocessError, IndexError, ValueError)


def play_on(name, action, *arguments):
    """Plays one cell, after which the servers run on. Returns whether it passed."""
    began = time.monotonic()
    try:
        action(*arguments)
        passed(name, time.monotonic() - began)
        return True
    except FAILURES as error:
        fail(name, error)
        return False


def play(name, action, *arguments):
    if (not ONLY or ONLY in name) and not play_on(name, action, *arguments):
        kill()


def finish():
    sys.exit(1 if failed else 0)
