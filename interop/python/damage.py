"""One server whose files are damaged, file by file: run by interop/damage.sh, which says what is proved.

A folder with a compacted, a sealed and an active segment is made once after a clean stop and once after kill
-9. Each cell takes a copy of it, or a server that runs on one, damages a file, and checks what `log verify`,
the server, its health, a scrub, librdkafka and `tailrace consume` say. Then the folder is repaired from the
copy, and all records must be back.
"""
import os, shutil, time
from confluent_kafka import Consumer, TopicPartition
import damaged
from damaged import BATCH, STATE, TOPIC, WAIT_SECONDS, damage, files, find, finish, health, play, produce, said, scrub, server, tailrace
from harness import check, eventually

RECORDS, WORDS = 1200, 300
DATA = STATE / "server" / "data"
PARTITION = DATA / f"{TOPIC}-0"
# What is served then: all, all but one batch, all but that segment.
ALL, ONE_BATCH, SEGMENT = "all", "all but a batch", "all but a segment"
# File; change; for a stopped server and for a killed one: status of `log verify`, what is served; for a
# running one: what is served.
TABLE = [
    ("compacted log", "flip", (1, ONE_BATCH), (1, ONE_BATCH), ONE_BATCH),
    ("compacted log", "cut", (1, ONE_BATCH), (1, ONE_BATCH), ONE_BATCH),
    ("compacted log", "empty", (1, SEGMENT), (1, SEGMENT), SEGMENT),
    ("compacted log", "missing", (1, SEGMENT), (1, SEGMENT), SEGMENT),
    ("compacted index", "flip", (1, ALL), (1, ALL), ALL),
    ("compacted index", "missing", (0, ALL), (0, ALL), ALL),
    ("compacted header", "flip", (1, ALL), (1, ALL), ALL),
    ("compacted header", "missing", (1, ALL), (1, ALL), ALL),
    ("sealed log", "flip", (1, ONE_BATCH), (1, ONE_BATCH), ONE_BATCH),
    ("sealed log", "cut", (1, ONE_BATCH), (1, ONE_BATCH), ONE_BATCH),
    ("sealed log", "empty", (1, SEGMENT), (1, SEGMENT), SEGMENT),
    ("sealed log", "missing", (1, SEGMENT), (1, SEGMENT), SEGMENT),
    ("sealed index", "flip", (1, ALL), None, ALL),
    ("sealed index", "missing", (0, ALL), (0, ALL), ALL),
    ("sealed header", "missing", (1, ALL), None, ALL),
    ("active log", "flip", (1, ONE_BATCH), (1, ONE_BATCH), ONE_BATCH),
    ("active log", "cut", (1, ONE_BATCH), None, ONE_BATCH),
    ("active log", "empty", (1, SEGMENT), None, SEGMENT),
    ("active log", "missing", (1, SEGMENT), None, SEGMENT),
    ("active index", "missing", (0, ALL), (0, ALL), ALL),
    ("checkpoint", "flip", (1, ALL), (1, ALL), ALL),
    ("checkpoint", "missing", (0, ALL), (0, ALL), ALL),
    ("partition.meta", "flip", (1, ALL), (1, ALL), ALL),
    ("partition.meta", "missing", (0, ALL), (0, ALL), ALL),
    ("snapshot", "flip", (1, ALL), (1, ALL), ALL),
    ("snapshot", "missing", (0, ALL), (0, ALL), ALL),
]


# ---- the folder ----

def make():
    """Makes the folders `stopped` and `killed`. Returns the records in them."""
    server("start", "tailrace")
    config = ["segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01", "cleanup.policy=compact"]
    made = tailrace("topic", "create", TOPIC, "-p", 1, "-b", said("addr"), *[word for c in config for word in ("-c", c)])
    check(made.returncode == 0, made.stderr)
    produce(0, RECORDS * 2 // 3, WORDS)
    eventually(lambda: files(PARTITION, "*.1.log"), "the first segments are compacted", WAIT_SECONDS)
    # From here on nothing is compacted.
    altered = tailrace("topic", "alter", TOPIC, "-b", said("addr"), "-c", "cleanup.policy=delete")
    check(altered.returncode == 0, altered.stderr)
    time.sleep(2)  # a round that started before ends; nothing reports when
    produce(RECORDS * 2 // 3, RECORDS, WORDS)
    server("stop", "KILL")
    shutil.copytree(DATA, STATE / "killed")
    server("again")
    expected = consume()[0]
    check(len(expected) > RECORDS // 2, f"{len(expected)} records")
    server("stop", "TERM")
    shutil.copytree(DATA, STATE / "stopped")
    return expected


# ---- what is served ----

def consume():
    """The records by offset, and whether something was left out."""
    records, told, _ = damaged.consume()
    return records.get(0, {}), told


def librdkafka(expected):
    """Reads on until there is an error or the end, and continues after damage. Returns the offsets, and
    whether there was an error."""
    consumer = Consumer({"bootstrap.servers": said("addr"), "group.id": "damage", "enable.partition.eof": True, "check.crcs": True, "log_level": 2})
    offsets, errors, at = set(), 0, 0
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        message = consumer.poll(1)
        if message is None:
            continue
        if not message.error():
            offsets.add(message.offset())
            at = message.offset() + 1
        elif message.error().name() == "_PARTITION_EOF":
            break
        else:
            errors += 1
            later = [offset for offset in expected if offset >= at and offset not in offsets]
            check(later, f"librdkafka: {message.error()} behind everything")
            at = later[0] + 1
            # An operator learns from health where the damage ends. The test knows which records are served.
            beyond = [offset for offset in sorted(consume()[0]) if offset >= at]
            if not beyond:
                break
            at = beyond[0]
            consumer.assign([TopicPartition(TOPIC, 0, at)])
    consumer.close()
    return offsets, errors > 0


def judge(expected, served):
    """Checks that the missing records are those of the table, and that the others are right."""
    records, told = consume()
    wrong = [offset for offset, value in records.items() if expected.get(offset) != value]
    check(not wrong, f"records that are not what was written: {wrong[:5]}")
    missing = sorted(set(expected) - set(records))
    check(told == bool(missing), f"consume said {'something' if told else 'nothing'}, {len(missing)} are missing")
    seen, heard = librdkafka(expected)
    check(seen == set(records), f"librdkafka has {len(seen)}, consume {len(records)}")
    check(heard == bool(missing) or served != ALL and max(records) < missing[0], f"librdkafka heard {heard} of {len(missing)}")
    bounds = {ALL: (0, 0), ONE_BATCH: (1, BATCH), SEGMENT: (BATCH + 1, 40 * BATCH)}[served]
    check(bounds[0] <= len(missing) <= bounds[1], f"{len(missing)} records are missing, expected {served}")


def cell(what, change, state, expectation, expected):
    verify_status, served = expectation if state != "running" else (None, expectation)
    shutil.rmtree(DATA)
    shutil.copytree(STATE / ("killed" if state == "killed" else "stopped"), DATA)
    path = find(PARTITION, what)
    if state == "running":
        server("again")
    damage(path, change)
    if state != "running":
        verified = tailrace("log", "verify", PARTITION)
        check(verified.returncode == verify_status, f"verify: {verified.returncode}\n{verified.stdout}{verified.stderr}")
        server("again")
    scrub()
    judge(expected, served)
    status, text = health()
    check((status == 503) == (served != ALL), f"health {status}: {text}")
    check(served == ALL or path.name in text, f"health does not name {path.name}: {text}")
    # The same after a restart, without a scrub.
    server("restart", "TERM")
    judge(expected, served)
    check(health()[0] == status, "health after a restart")
    server("stop", "TERM")
    source = STATE / ("killed" if state == "killed" else "stopped")
    plan = tailrace("log", "repair", PARTITION, "--from", source)
    check(plan.returncode == 0, f"the plan: {plan.stdout}{plan.stderr}")
    done = tailrace("log", "repair", PARTITION, "--from", source, "--execute")
    check(done.returncode == 0, f"the repair: {done.stdout}{done.stderr}")
    verified = tailrace("log", "verify", DATA)
    check(verified.returncode == 0, f"verify after the repair: {verified.stdout}")
    server("again")
    judge(expected, ALL)
    check(health()[0] == 200, f"health after the repair: {health()[1]}")
    server("stop", "TERM")


def put_back(expected):
    """A running server serves bytes again that are put back in their place, and its health says so."""
    shutil.rmtree(DATA)
    shutil.copytree(STATE / "stopped", DATA)
    path = find(PARTITION, "sealed log")
    whole = path.read_bytes()
    server("again")
    damage(path, "flip")
    scrub()
    judge(expected, ONE_BATCH)
    with open(path, "r+b") as file:
        file.write(whole)
    eventually(lambda: health()[0] == 200, "health is green again", 10)
    judge(expected, ALL)
    server("stop", "TERM")


def given_up(expected):
    """What no copy has is given up: health is green, the offsets stay, and the bytes are kept beside."""
    shutil.rmtree(DATA)
    shutil.copytree(STATE / "stopped", DATA)
    damage(find(PARTITION, "sealed log"), "flip")
    refused = tailrace("log", "repair", PARTITION, "--execute")
    check(refused.returncode == 1, "without --from and --give-up nothing is decided")
    done = tailrace("log", "repair", PARTITION, "--give-up", "--execute")
    check(done.returncode == 0 and files(PARTITION, "*.lost-*"), f"{done.stdout}{done.stderr}")
    server("again")
    records, told = consume()
    check(not told and 1 <= len(set(expected) - set(records)) <= BATCH, "one batch is gone")
    check(max(records) == max(expected) and health()[0] == 200, f"health: {health()[1]}")
    server("stop", "TERM")


def fetched_unchecked():
    """The values of all records before the first error that librdkafka takes with its default, which does not
    check the CRC."""
    consumer = Consumer({"bootstrap.servers": said("addr"), "group.id": "damage", "enable.partition.eof": True, "log_level": 2})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values, end = {}, time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        message = consumer.poll(1)
        if message is not None and message.error():
            break
        if message is not None:
            values[message.offset()] = message.value().decode(errors="replace")
    consumer.close()
    return values


def checked_first(expected):
    """Without a scrub, and with a client that does not check: the server checks what it reads the first time
    before it sends it."""
    for after, is_checked in ((-1, False), (3600000, True), (0, True)):
        shutil.rmtree(DATA)
        shutil.copytree(STATE / "stopped", DATA)
        damage(find(PARTITION, "sealed log"), "flip")
        os.environ["TAILRACE_ARGS"] = f"--set tailrace.read.verify.after.ms={after}"
        server("again")
        values = fetched_unchecked()
        # The flipped bit may also be one of a record's offset.
        wrong = [offset for offset, value in values.items() if expected.get(offset) != value]
        check(len(wrong) == (0 if is_checked else 1), f"after.ms={after}: {len(wrong)} wrong records of {len(values)}")
        check((health()[0] == 503) == is_checked, f"after.ms={after}: health {health()}")
        if is_checked:
            judge(expected, ONE_BATCH)
        os.environ.pop("TAILRACE_ARGS")
        server("stop", "TERM")


def main():
    expected = make()
    for what, change, stopped, killed, running in TABLE:
        for state, expectation in (("stopped", stopped), ("killed", killed), ("running", running)):
            if expectation is not None:
                play(f"{what} {change} {state}", cell, what, change, state, expectation, expected)
    play("put back", put_back, expected)
    play("given up", given_up, expected)
    play("checked first", checked_first, expected)
    finish()


main()
