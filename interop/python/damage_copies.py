"""Three nodes, and damage to one, two or three copies of a partition: run by interop/damage.sh, which says
what is proved.

Each cell has a partition of its own with a compacted, a sealed and an active segment. All of them are made
once. The folders of the nodes are kept after a clean stop and after kill -9. For each state the cluster gets
those folders again, all cells do their damage at once, a scrub reads everything, and the time is taken until
the health of all nodes is what the table says. What was damaged only in part must be whole again: every
record served, the copies alike, no replica given up. What no copy has is named by every node, refused to
clients, and given up.
"""
import itertools, json, os, re, shutil, time
from confluent_kafka import Consumer, TopicPartition
import damaged
from damaged import BATCH, FAILURES, ONLY, STATE, TOPIC, consume, damage, fail, find, finish, health, key_of, kill, passed, produce, said, scrub, server
from damaged import tailrace, value_of
from harness import Failure, check, eventually

RECORDS, WORDS, SEGMENT_BYTES = 600, 30, 65536
NODES = [STATE / "server", STATE / "server" / "node2", STATE / "server" / "node3"]
MENDED_SECONDS_MAX = 120
STATES = ("stopped", "killed", "running")
# The damaged copies. Same: the same file, and in it the same batch. Different: another batch of the same
# file; for `each`, another file.
ONE, TWO_SAME, TWO, THREE, THREE_SAME = "one", "two same", "two different", "three different", "three same"
# What is lost for good if all three copies have the damage.
NOTHING, A_BATCH, LAST_BATCH, SEGMENT = "nothing", "that batch", "the last batch", "the segment"
# A running server may have a removed file open. Then the copies are mended from what can still be read, and
# nothing is lost.
UNLESS_OPEN = "the segment, unless a node has it open"
FLIP = (ONE, TWO_SAME, TWO, THREE, THREE_SAME)
WHOLE = (ONE, TWO_SAME, THREE_SAME)
LOGS = ("compacted log", "sealed log", "active log")
# File, change, damaged copies, what is lost if all three are damaged in the same place, states. `each log` is
# another of LOGS on each copy.
TABLE = [
    *((log, "flip", FLIP, A_BATCH, STATES) for log in LOGS),
    *((log, "cut", WHOLE, LAST_BATCH, STATES) for log in LOGS[:2]),
    *((log, "empty", WHOLE, SEGMENT, STATES) for log in LOGS[:2]),
    *((log, "missing", WHOLE, SEGMENT, ("stopped", "killed")) for log in LOGS[:2]),
    *((log, "missing", WHOLE, UNLESS_OPEN, ("running",)) for log in LOGS),
    # After a kill the end of the active log may be beyond what any row says was synced: cut on all copies it
    # is a torn tail (docs/guarantees.md).
    ("active log", "cut", WHOLE, LAST_BATCH, ("stopped", "running")),
    ("active log", "cut", (ONE,), NOTHING, ("killed",)),
    ("active log", "empty", WHOLE, SEGMENT, ("stopped", "running")),
    ("active log", "missing", WHOLE, SEGMENT, ("stopped",)),
    *(("active log", change, (ONE,), NOTHING, ("killed",)) for change in ("empty", "missing")),
    *(("each log", change, (TWO, THREE), NOTHING, ("stopped", "running")) for change in ("cut", "empty", "missing")),
    *((f"{segment} {kind}", change, WHOLE, NOTHING, STATES)
      for segment in ("compacted", "sealed", "active") for kind in ("index", "header") for change in ("flip", "missing")),
    *((name, change, WHOLE, NOTHING, STATES) for name in ("snapshot", "checkpoint", "partition.meta") for change in ("flip", "missing")),
    # A start that misses entries gives the replica up (docs/replication.md): another one takes its place, and
    # more than one of them leaves no majority.
    *(("entries", change, (ONE,), NOTHING, ("stopped", "killed")) for change in ("flip", "missing")),
    *(("entries", change, WHOLE, NOTHING, ("running",)) for change in ("flip", "missing")),
]


class Cell:
    """One row of the table, on these copies, in this state. The partition is the same in all states."""

    def __init__(self, partition, what, change, copies, lost, state):
        self.partition, self.what, self.change, self.copies, self.state = partition, what, change, copies, state
        self.lost = lost if copies == THREE_SAME else NOTHING
        self.name = f"copies: {what} {change} {copies} {state}"
        self.may_be_given_up = what == "entries" and state != "running"
        # Offsets that no copy has, what was damaged (node, path), and why the cell failed.
        self.gone, self.paths, self.why, self.seconds = [], [], None, 0.0

    def folder(self, node):
        return NODES[node] / "data" / f"{TOPIC}-{self.partition}"

    def nodes(self):
        """Returns the copies to damage. Leaders are hit as well as followers, because each cell starts with
        another node."""
        count = {ONE: 1, TWO_SAME: 2, TWO: 2}.get(self.copies, 3)
        return [(self.partition + turn) % 3 for turn in range(count)]

    def mentioned(self, text):
        return re.search(rf"\b{TOPIC}-{self.partition}\b", text) is not None

    def do_damage(self):
        for turn, node in enumerate(self.nodes()):
            what = LOGS[turn] if self.what == "each log" else self.what
            path = find(self.folder(node), what)
            before = path.read_bytes()
            at, batches = None, []
            if what.endswith("log"):
                batches = list(split(before))
                # At a quarter, a half and three quarters, if copies are damaged in different places.
                share = 2 if self.copies in (ONE, TWO_SAME, THREE_SAME) else turn + 1
                position, size, first, last = batches[len(batches) * share // 4]
                at = position + size // 2
                self.gone = {A_BATCH: [(first, last)], LAST_BATCH: [batches[-1][2:]], SEGMENT: [(batches[0][2], batches[-1][3])],
                             UNLESS_OPEN: [(batches[0][2], batches[-1][3])]}.get(self.lost, [])
            damage(path, self.change, at if self.change == "flip" else None)
            check(not path.exists() if self.change == "missing" else path.read_bytes() != before, f"{path} is not damaged")
            self.paths.append((node, path))

    def lost_offsets(self):
        return [offset for first, last in self.gone for offset in range(first, last + 1)]


def split(log):
    """Position, bytes, first and last offset of each batch."""
    position = 0
    while position < len(log):
        first, size = int.from_bytes(log[position:position + 8], "big"), 12 + int.from_bytes(log[position + 8:position + 12], "big")
        yield position, size, first, first + int.from_bytes(log[position + 23:position + 27], "big")
        position += size


def cells():
    """Cells that differ only in their state share a partition."""
    found, partitions = [], {}
    for what, change, copies, lost, states in TABLE:
        for where, state in itertools.product(copies, states):
            partition = partitions.get((what, change, where), len(partitions))
            cell = Cell(partition, what, change, where, lost, state)
            if not ONLY or ONLY in cell.name:
                partitions[what, change, where] = partition
                found.append(cell)
    return found, len(partitions)


# ---- the cluster ----

def keep(name):
    for number, node in enumerate(NODES):
        shutil.copytree(node / "data", STATE / name / str(number))


def put(name):
    for number, node in enumerate(NODES):
        shutil.rmtree(node / "data")
        shutil.copytree(STATE / name / str(number), node / "data")


def records_of(folder):
    dumped = tailrace("log", "dump", "--records", "-o", "json", folder)
    check(dumped.returncode == 0, f"dump: {dumped.stderr}")
    lines = [json.loads(line) for line in dumped.stdout.splitlines()]
    return {line["offset"]: (line["key"], line["value"]) for line in lines if "offset" in line}


def make(partitions):
    """Makes the folders `stopped` and `killed` of the three nodes. Returns the records of each partition."""
    os.environ["INTEROP_NODES"] = "3"
    server("start", "tailrace")
    settings = [f"internal.segment.bytes={SEGMENT_BYTES}", "min.cleanable.dirty.ratio=0.01", "cleanup.policy=delete"]
    made = tailrace("topic", "create", TOPIC, "-p", partitions, "-r", 3, "-b", said("addr"), *[word for s in settings for word in ("-c", s)])
    check(made.returncode == 0, made.stderr)
    produce(0, RECORDS // 2, WORDS, range(partitions))
    folders = [node / "data" / f"{TOPIC}-{partition}" for node in NODES for partition in range(partitions)]
    # Each replica compacts its own log. All records so far are compacted at once, and so equally on all
    # replicas.
    alter("cleanup.policy=compact")
    eventually(lambda: all(damaged.files(folder, "*.1.log") for folder in folders), "the first segments are compacted", 60)
    alter("cleanup.policy=delete")
    produce(RECORDS // 2, RECORDS, WORDS, range(partitions))
    server("stop", "KILL")
    keep("killed")
    server("again")
    expected, told, _ = consume()
    for partition in range(partitions):
        of_partition = expected[partition]
        wrong = [offset for offset, value in of_partition.items() if value != value_of(offset, WORDS)]
        missing = [offset for offset in range(RECORDS) if offset not in of_partition and key_of(offset) != "again"]
        check(not told and not wrong and not missing, f"before any damage: partition {partition}: wrong {wrong[:3]}, missing {missing[:3]}")
        check(len(of_partition) < RECORDS, "nothing was compacted")
    server("stop", "TERM")
    keep("stopped")
    for state, folder in itertools.product(("stopped", "killed"), range(partitions)):
        logs = [[path.name for path in damaged.files(STATE / state / str(node) / f"{TOPIC}-{folder}", "*.log")] for node in range(3)]
        check(logs[0] == logs[1] == logs[2], f"the copies of {TOPIC}-{folder}, {state}, have other files: {logs}")
    return expected


def alter(setting):
    altered = tailrace("topic", "alter", TOPIC, "-b", said("addr"), "-c", setting)
    check(altered.returncode == 0, altered.stderr)


def status():
    shown = tailrace("cluster", "status", "--http", said("http"), "-o", "json")
    check(shown.returncode == 0, shown.stderr)
    return json.loads(shown.stdout)


# ---- one state, all cells ----

def sound(those):
    """The cells that have not failed: a partition without a leader must not hold up the readers of all
    others."""
    return [cell for cell in those if cell.why is None]


def each(those, action, *arguments):
    """Does it for the cells that have not failed so far."""
    for cell in sound(those):
        try:
            action(cell, *arguments)
        except FAILURES as error:
            cell.why = error


def settled(cell, healths, shown):
    """Whether no node and not the cluster has anything more to report or to do about the damage; for lost
    data: whether all nodes report it."""
    about = [[line for line in lines if cell.mentioned(line)] for lines in healths]
    damages = [f"node {report['node']}: {found}" for report in shown["reports"] for found in report["damaged"] if cell.mentioned(str(found))]
    trouble = [*shown["reassignments"], *shown["partitions"]["leaderless"], *shown["partitions"]["under_replicated"]]
    moving = [line for line in trouble if cell.mentioned(str(line))]
    is_quiet = not any(about) and not damages and not moving
    if cell.lost == UNLESS_OPEN and is_quiet:
        cell.lost, cell.gone = NOTHING, []
    if cell.lost == NOTHING:
        return is_quiet, f"health {about}, damaged {damages}, {moving}"
    named = all(offsets_in("\n".join(lines)) == cell.lost_offsets() for lines in about)
    decided = all(any(f"node {node}" in d for d in damages) for node in (1, 2, 3)) and all("no replica has it" in d for d in damages)
    return named and decided and not moving, f"{cell.gone} are not lost: health {about}, damaged {damages}, {moving}"


def offsets_in(text):
    """All offsets named in it, batch by batch."""
    ranges = re.findall(r"\boffsets (\d+) to (\d+)", text)
    return sorted({offset for first, last in ranges for offset in range(int(first), int(last) + 1)})


def wait_settled(those, began):
    """Polls until each cell is as it should be, and records how long that took."""
    waiting, says = sound(those), {}
    while waiting and time.monotonic() < began + MENDED_SECONDS_MAX:
        healths = []
        for node in NODES:
            body = json.loads(health(node)[1])
            healths.append([*body.get("problems", []), *body.get("warnings", [])])
        shown, left = status(), []
        for cell in waiting:
            done, says[cell] = settled(cell, healths, shown)
            cell.seconds = time.monotonic() - began
            if not done:
                left.append(cell)
        waiting = left
        time.sleep(0.3)
    for cell in waiting:
        cell.why = Failure(f"not settled within {MENDED_SECONDS_MAX} s: {says[cell]}")


def fetched(those, check_crcs):
    """The offsets that librdkafka gets of each partition, and the errors. Continues after lost records."""
    consumer = Consumer({"bootstrap.servers": said("addr"), "group.id": "copies", "enable.partition.eof": True, "check.crcs": check_crcs, "log_level": 2})
    seen, errors, ended = {cell.partition: {} for cell in those}, {}, set()
    of = {cell.partition: cell for cell in those}
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in seen])
    end = time.monotonic() + 60
    while len(ended) < len(seen) and time.monotonic() < end:
        message = consumer.poll(1)
        if message is None:
            continue
        partition = message.partition()
        if not message.error():
            seen[partition][message.offset()] = message.value().decode(errors="replace")
        elif message.error().name() == "_PARTITION_EOF":
            ended.add(partition)
        elif partition in of and partition not in errors:
            errors[partition] = message.error().name()
            gone = of[partition].gone
            beyond = gone[0][1] + 1 if gone else RECORDS
            if beyond < RECORDS:
                consumer.seek(TopicPartition(TOPIC, partition, beyond))
            else:
                ended.add(partition)
    consumer.close()
    return seen, errors


def consumed(those):
    return consume(*[word for cell in sound(those) for word in ("-p", str(cell.partition))])[0] if sound(those) else {}


def served(cell, expected, seen, errors, what):
    """What is not lost is served with its content, and clients get an error for the rest."""
    lost = set(cell.lost_offsets())
    want = {offset: value for offset, value in expected[cell.partition].items() if offset not in lost}
    got = seen.get(cell.partition, {})
    missing, wrong = sorted(set(want) - set(got)), [offset for offset, value in got.items() if want.get(offset) != value]
    check(not missing and not wrong, f"{what}: missing {missing[:5]} of {len(missing)}, wrong {wrong[:5]} of {len(wrong)}")
    if errors is not None:
        check((cell.partition in errors) == bool(lost), f"{what}: error {errors.get(cell.partition)}")


def refused(cell):
    """`tailrace consume` ends with an error, and names exactly what is lost."""
    _, told, said_of_it = consume("-p", str(cell.partition))
    if cell.lost == NOTHING:
        return check(not told, f"consume: {said_of_it}")
    check(told and "CORRUPT_MESSAGE" in said_of_it and offsets_in(said_of_it) == cell.lost_offsets(), f"consume, lost {cell.gone}: {said_of_it}")


def given_up_by_hand(cell):
    done = tailrace("cluster", "repair", "--topic", TOPIC, "-p", cell.partition, "--give-up", "--execute", "-b", said("addr"), "--http", said("http"))
    check(done.returncode == 0, f"give up: {done.returncode}: {done.stdout}{done.stderr}")


def green_at_once(cell):
    for node in NODES:
        check(not cell.mentioned(health(node)[1]), f"health after it was given up: {health(node)[1]}")


def verified(cell, output):
    """For a stopped server, `log verify` knows of the damage to a log."""
    for node, path in cell.paths:
        if path.name.endswith(".log") and not (cell.state == "killed" and cell.what == "active log" and cell.change != "flip"):
            check(re.search(rf"DAMAGED .*{TOPIC}-{cell.partition}/.*", output[node]), f"verify says nothing of {path}")


def named(cell, logs, report):
    """A damaged log was found: the node reported it, or the scrub did."""
    for node, path in cell.paths:
        if path.name.endswith(".log") and not (cell.state == "killed" and cell.what == "active log" and cell.change != "flip"):
            check(str(path) in logs[node] or str(path) in report, f"nothing was said of {path}")


def none_given_up(cell, logs):
    for node, log in enumerate(logs):
        lines = [line for line in log.splitlines() if "is abandoned" in line and cell.mentioned(line)]
        check(cell.may_be_given_up or not lines, f"node {node + 1}: {lines[:1]}")


def alike(cell, expected):
    """The three folders have the same records, which are those that were served."""
    lost = set(cell.lost_offsets())
    want = {offset: (key_of(offset), value) for offset, value in expected[cell.partition].items() if offset not in lost}
    for node in range(3):
        found = records_of(cell.folder(node))
        differ = sorted(offset for offset in set(want) | set(found) if want.get(offset) != found.get(offset))
        check(not differ, f"node {node + 1} has other records: {differ[:5]} of {len(differ)}")


def promises_nothing(those):
    """The health of a node does not say of data that no copy has that it is being repaired."""
    for node, cell in itertools.product(NODES, [cell for cell in sound(those) if cell.lost != NOTHING]):
        body = json.loads(health(node)[1])
        lines = [line for line in [*body.get("problems", []), *body.get("warnings", [])] if cell.mentioned(line)]
        check(lines and not any("being repaired" in line for line in lines), f"{node.name}: {lines}")


def one_state(state, those, expected):
    put("killed" if state == "killed" else "stopped")
    if state == "running":
        server("again")
    logs_begin = [(node / "log").stat().st_size for node in NODES]
    each(those, Cell.do_damage)
    if state != "running":
        each(those, verified, [tailrace("log", "verify", node / "data").stdout for node in NODES])
        server("again")
    began = time.monotonic()
    report = scrub().stdout
    wait_settled(those, began)
    logs = [(node / "log").read_bytes()[begin:].decode(errors="replace") for node, begin in zip(NODES, logs_begin)]
    each(those, named, logs, report)
    each(those, none_given_up, logs)
    each(those, served, expected, consumed(those), None, "consume")
    each(those, refused)
    for check_crcs in (True, False):
        each(those, served, expected, *fetched(sound(those), check_crcs), f"librdkafka, check.crcs {check_crcs}")
    if any(cell.lost != NOTHING for cell in sound(those)):
        damaged.play_on(f"copies: health of what is lost {state}", promises_nothing, those)
    each([cell for cell in those if cell.lost != NOTHING], given_up_by_hand)
    each(those, green_at_once)
    each(those, served, expected, consumed(those), None, "consume after all")
    server("stop", "TERM")
    verify = [tailrace("log", "verify", node / "data").stdout for node in NODES]
    for cell in those:
        damages = [line for text in verify for line in text.splitlines() if "DAMAGED" in line and cell.mentioned(line)]
        if damages and cell.why is None:
            cell.why = Failure(f"verify in the end: {damages}")
    each(those, alike, expected)


def main():
    those, partitions = cells()
    if not those:
        return finish()
    began = time.monotonic()
    expected = make(partitions)
    print(f"{partitions} partitions are made ({time.monotonic() - began:.0f} s)", flush=True)
    for state in STATES:
        of_state, began = [cell for cell in those if cell.state == state], time.monotonic()
        if not of_state:
            continue
        try:
            one_state(state, of_state, expected)
        except FAILURES as error:
            kill()
            for cell in of_state:
                cell.why = cell.why or Failure(f"the round: {error}")
        for cell in of_state:
            fail(cell.name, str(cell.why)[:2000]) if cell.why else passed(cell.name, cell.seconds)
        print(f"copies, {state}: {len(of_state)} cells in {time.monotonic() - began:.0f} s", flush=True)
    finish()


main()
