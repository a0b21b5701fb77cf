"""Operations that every client must be able to do with the server. Each scenario takes one client of model's
interface.

Deliberately absent: consumer groups and commits; readers are assigned to partitions by hand.
"""
import threading, time
from harness import LEADERS_LATE, SMOKE, check, eventually, raises, run, same, server
from model import CREATE_TIME, LOG_APPEND_TIME, Message, murmur2_partition, payload, topic_name

READ_SECONDS_MAX = 60


def create(client, topic, partitions=1, config=None):
    client.create(topic, partitions, config)

    def led():
        try:
            return all(client.watermarks(topic, p) for p in range(partitions))
        except Exception:
            return False
    if LEADERS_LATE:
        eventually(led, f"leaders of {topic}")


def produce(client, topic, messages, **options):
    """Sends all, waits, and returns (partition, offset, timestamp) for each. Raises the first error."""
    p = client.producer(**options)
    try:
        for m in messages:
            p.send(topic, m)
        results = p.flush()
    finally:
        p.close()
    for r in results:
        if isinstance(r, Exception):
            raise r
    return results


def read(client, topic, count, positions=None, **options):
    """The first `count` records from the given positions."""
    r = client.reader(topic, positions or {0: 0}, **options)
    try:
        return read_on(r, count)
    finally:
        r.close()


def read_on(reader, count):
    out, end = [], time.monotonic() + READ_SECONDS_MAX
    while len(out) < count:
        check(time.monotonic() < end, f"only {len(out)} of {count} records within {READ_SECONDS_MAX} s")
        out += reader.poll(1)
    return out


def in_order(records, partition=0, first=0):
    same([r.offset for r in records if r.partition == partition], list(range(first, first + sum(r.partition == partition for r in records))), "offsets")


def same_content(records, messages):
    same(len(records), len(messages), "count")
    for r, m in zip(records, messages):
        same((r.key, r.value, [(k, v) for k, v in r.headers]), (m.key, m.value, m.headers), f"record at offset {r.offset}")


# ---- content ----

def codec(client, name):
    topic = topic_name(client, "codec-" + name)
    create(client, topic, 1, {"max.message.bytes": "4000000"})
    sizes = [1, 0, 7, 100, 1000, 5000] * (5 if SMOKE else 50)
    messages = [Message(payload((name, i).__repr__(), n), b"k%d" % i, [("h", b"%d" % i)], 0, 1_700_000_000_000 + i) for i, n in enumerate(sizes)]
    results = produce(client, topic, messages, codec=name)
    same([r[1] for r in results], list(range(len(messages))), "acknowledged offsets")
    records = read(client, topic, len(messages))
    same_content(records, messages)
    in_order(records)
    same([r.timestamp for r in records], [m.timestamp for m in messages], "timestamps")


def recompressed(client, name):
    """The topic asks for another codec than the producer used."""
    topic = topic_name(client, "recompress-" + name)
    create(client, topic, 1, {"compression.type": name})
    messages = [Message(payload(i, 500), None, [("h", b"" if i % 4 == 1 or not client.null_header else None)] if i % 2 else [], 0, 1_700_000_000_000 + i) for i in range(50)]
    for c in ["none", "lz4"]:
        produce(client, topic, messages, codec=c)
    records = read(client, topic, 100)
    same_content(records, messages * 2)
    in_order(records)
    same([r.timestamp for r in records], [m.timestamp for m in messages] * 2, "timestamps")


def sizes(client):
    topic = topic_name(client, "sizes")
    create(client, topic, 1, {"max.message.bytes": "3000000"})
    messages = [Message(payload(n, n)) for n in [1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000, (1 << 20) - 1, 1 << 20]]
    for c in ["none"] if SMOKE else ["none", "zstd"]:
        produce(client, topic, messages, codec=c, bytes_max=2 << 20)
    records = read(client, topic, len(messages) * (1 if SMOKE else 2))
    same_content(records, messages * (1 if SMOKE else 2))


def nulls(client):
    topic = topic_name(client, "nulls")
    create(client, topic)
    pairs = [(b"k", None), (None, b"v"), (b"", b""), (b"", None), (None, b""), (b"k", b"v")] + ([(None, None)] if client.null_key_and_value else [])
    messages = [Message(v, k) for k, v in pairs]
    produce(client, topic, messages)
    same_content(read(client, topic, len(messages)), messages)


def headers(client):
    topic = topic_name(client, "headers")
    create(client, topic)
    lists = [[], [("a", b"1")], [("a", b"1"), ("a", b"2"), ("a", b"1")], [("null", None if client.null_header else b"")], [("empty", b"")], [("", b"no name")],
             [("binary", bytes(range(256)))], [("grüße", "wörld".encode())], [(f"h{i}", payload(i, i * 10)) for i in range(100)]]
    messages = [Message(b"v%d" % i, None, h) for i, h in enumerate(lists)]
    for c in ["none", "gzip"]:
        produce(client, topic, messages, codec=c)
    same_content(read(client, topic, 2 * len(messages)), messages * 2)


def timestamps(client):
    topic = topic_name(client, "timestamps")
    create(client, topic)
    times = ([0] if client.timestamp_zero else []) + [1, 1_000_000_000_000, 1_700_000_000_123, 1_600_000_000_000, int(time.time() * 1000)]
    produce(client, topic, [Message(b"v", timestamp=t) for t in times])
    records = read(client, topic, len(times))
    same([(r.timestamp, r.timestamp_type) for r in records], [(t, CREATE_TIME) for t in times], "timestamps")


def log_append_time(client):
    topic = topic_name(client, "append-time")
    create(client, topic, 1, {"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    for c in ["none", "lz4"]:
        produce(client, topic, [Message(payload(i, 100), timestamp=1_500_000_000_000 + i) for i in range(10)], codec=c)
    after = int(time.time() * 1000)
    for r in read(client, topic, 20):
        same(r.timestamp_type, LOG_APPEND_TIME, "timestamp type")
        check(before - 1 <= r.timestamp <= after + 1, f"{r.timestamp} is not within {before}..{after}")


# ---- guarantees ----

def acks(client, level):
    topic = topic_name(client, f"acks-{level}")
    create(client, topic)
    messages = [Message(b"%d" % i) for i in range(300)]
    results = produce(client, topic, messages, acks=level)
    if level != 0:
        same([r[1] for r in results], list(range(300)), "acknowledged offsets")
    same_content(read(client, topic, 300), messages)


def idempotent(client):
    topic = topic_name(client, "idempotent")
    create(client, topic, 3)
    messages = [Message(b"%d" % i, partition=i % 3) for i in range(300 if SMOKE else 3000)]
    p = client.producer(idempotent=True)
    for chunk in range(0, len(messages), 100):
        for m in messages[chunk:chunk + 100]:
            p.send(topic, m)
        for r in p.flush():
            check(not isinstance(r, Exception), f"{r!r}")
    p.close()
    records = read(client, topic, len(messages), {0: 0, 1: 0, 2: 0})
    for n in range(3):
        in_order(records, n)
        same([r.value for r in records if r.partition == n], [m.value for m in messages if m.partition == n], f"partition {n}")


def keys(client):
    topic = topic_name(client, "keys")
    create(client, topic, 5)
    messages = [Message(b"%d" % i, b"key-%d" % (i % 40), partition=None) for i in range(200)]
    results = produce(client, topic, messages)
    want = [murmur2_partition(m.key, 5) for m in messages]
    same([r[0] for r in results], want, "partitions")
    records = read(client, topic, 200, {n: 0 for n in range(5)})
    for n in range(5):
        same([r.value for r in records if r.partition == n], [m.value for m, p in zip(messages, want) if p == n], f"partition {n}")


# ---- offsets ----

def offsets(client):
    topic = topic_name(client, "offsets")
    create(client, topic, 2)
    same(client.watermarks(topic, 0), (0, 0), "watermarks of an empty partition")
    base = 1_700_000_000_000
    for i in range(10):  # one batch each
        produce(client, topic, [Message(b"a", timestamp=base + i * 100), Message(b"b", timestamp=base + i * 100 + 50)])
    same(client.watermarks(topic, 0), (0, 20), "watermarks")
    same(client.watermarks(topic, 1), (0, 0), "watermarks of the idle partition")
    for at, want in [(0, 0), (base, 0), (base + 1, 1), (base + 50, 1), (base + 51, 2), (base + 500, 10), (base + 950, 19), (base + 951, None)]:
        same(client.offset_for_time(topic, 0, at), want, f"offset for time base+{at - base}")
    same(client.offset_for_time(topic, 1, 0), None, "offset for time in an empty partition")


def delete_records(client):
    topic = topic_name(client, "delete-records")
    create(client, topic)
    messages = [Message(b"%d" % i) for i in range(20)]
    produce(client, topic, messages)
    same(client.delete_records(topic, 0, 7), 7, "low watermark")
    same(client.watermarks(topic, 0), (7, 20), "watermarks")
    records = read(client, topic, 13, {0: 7})
    same([r.offset for r in records], list(range(7, 20)), "offsets")
    records = read(client, topic, 13, {0: 0}, reset="earliest")
    same(records[0].offset, 7, "first offset after the reset")
    same(client.delete_records(topic, 0, -1), 20, "low watermark after deleting all")
    same(client.watermarks(topic, 0), (20, 20), "watermarks")
    same(produce(client, topic, messages[:1])[0][1], 20, "next offset")


def seek(client):
    topic = topic_name(client, "seek")
    create(client, topic)
    produce(client, topic, [Message(b"%d" % i) for i in range(100)], codec="gzip")
    r = client.reader(topic, {0: 90})
    same([x.value for x in read_on(r, 10)], [b"%d" % i for i in range(90, 100)], "the tail")
    for start in (0, 37, 99):
        r.seek(0, start)
        got = read_on(r, 100 - start)
        same([x.offset for x in got], list(range(start, 100)), f"after seek to {start}")
    r.close()


def out_of_range(client):
    topic = topic_name(client, "out-of-range")
    create(client, topic)
    produce(client, topic, [Message(b"%d" % i) for i in range(10)])
    same(read(client, topic, 10, {0: 1_000_000}, reset="earliest")[0].offset, 0, "reset to earliest")


def read_committed(client):
    topic = topic_name(client, "read-committed")
    create(client, topic)
    messages = [Message(b"%d" % i) for i in range(50)]
    produce(client, topic, messages)
    same_content(read(client, topic, 50, read_committed=True), messages)


# ---- errors ----

def too_large(client):
    topic = topic_name(client, "too-large")
    create(client, topic, 1, {"max.message.bytes": "10000"})
    raises("TOO_LARGE" if client.name == "confluent-kafka" else "TooLarge", lambda: produce(client, topic, [Message(payload(1, 20_000))], bytes_max=1 << 20),
           "a record above max.message.bytes")
    produce(client, topic, [Message(b"x" * 9000)])
    same(len(read(client, topic, 1)), 1, "records")


def unknown_partition(client):
    topic = topic_name(client, "unknown-partition")
    create(client, topic, 2)
    error = raises(Exception, lambda: produce(client, topic, [Message(b"v", partition=7)], give_up_ms=5000), "a partition that is not there")
    check("timed out after" not in str(error), f"{error!r}")
    same(client.watermarks(topic, 0), (0, 0), "watermarks")


def auto_creation(client):
    topic = topic_name(client, "auto")
    messages = [Message(b"%d" % i) for i in range(10)]
    produce(client, topic, messages)
    same(client.partitions(topic), 1, "partitions of the created topic")
    same_content(read(client, topic, 10), messages)


def admin_errors(client):
    topic = topic_name(client, "admin-errors")
    create(client, topic, 2)
    rdkafka = client.name == "confluent-kafka"
    for kind, action, what in [
        ("TOPIC_ALREADY_EXISTS|TopicAlreadyExists", lambda: client.create(topic), "create twice"),
        ("INVALID_PARTITIONS|InvalidPartitions", lambda: client.create(topic + "-0", 0), "no partitions"),
        ("TOPIC_EXCEPTION|InvalidTopic", lambda: client.create("a/b"), "a slash in the name"),
        ("TOPIC_EXCEPTION|InvalidTopic", lambda: client.create("x" * 250), "a name of 250 characters"),
        ("TOPIC_EXCEPTION|InvalidTopic", lambda: client.create(".."), "the name .."),
        ("INVALID_CONFIG|InvalidConfig", lambda: client.create(topic + "-c", 1, {"no.such.config": "1"}), "an unknown config"),
        ("INVALID_CONFIG|InvalidConfig", lambda: client.create(topic + "-c", 1, {"retention.ms": "abc"}), "a bad value"),
        ("UNKNOWN_TOPIC|UnknownTopic", lambda: client.delete(topic + "-none"), "delete of an unknown topic"),
    ]:
        ours, theirs = kind.split("|")
        try:
            raises(ours if rdkafka else theirs, action, what)
        except Exception as error:
            # librdkafka refuses some of these itself.
            if not (rdkafka and "_INVALID_ARG" in repr(error)):
                raise


# ---- time ----

def long_poll(client):
    """A reader that waits at the end gets a record long before its maximum wait."""
    topic = topic_name(client, "long-poll")
    create(client, topic)
    produce(client, topic, [Message(b"first")])
    wait_ms = 30_000
    r = client.reader(topic, {0: 0}, wait_ms=wait_ms)
    read_on(r, 1)
    events = []

    def waiting():
        events.append("waits")
        while not (got := r.poll(5)):
            pass
        events.append(got[0].value)
    thread = threading.Thread(target=waiting)
    thread.start()
    time.sleep(1)
    events.append("sends")
    sent = time.monotonic()
    produce(client, topic, [Message(b"second")])
    thread.join(wait_ms / 1000)
    took = time.monotonic() - sent
    same(events, ["waits", "sends", b"second"], "order of events")
    check(took < wait_ms / 2000, f"the record came after {took:.1f} s: only at the end of the maximum wait?")
    r.close()


def sessions(client):
    """Several partitions, some idle: an incremental fetch session must not lose any."""
    topic = topic_name(client, "sessions")
    create(client, topic, 8)
    r = client.reader(topic, {n: 0 for n in range(8)}, wait_ms=200)
    p = client.producer()
    got, want = [], []
    for turn, active in enumerate([[0, 3], [3], [], [5, 0], [7, 7, 7], [0, 1, 2, 3, 4, 5, 6, 7], [], [6]]):
        for n in active:
            p.send(topic, Message(b"%d/%d/%d" % (turn, n, len(want)), partition=n))
            want.append((n, b"%d/%d/%d" % (turn, n, len(want))))
        for x in p.flush():
            check(not isinstance(x, Exception), f"{x!r}")
        if active:
            got += read_on(r, len(want) - len(got))
        else:
            same(r.poll(1), [], "records without a send")
    for n in range(8):
        same([x.value for x in got if x.partition == n], [v for q, v in want if q == n], f"partition {n}")
    p.close()
    r.close()


def read_while_writing(client):
    topic = topic_name(client, "writing")
    create(client, topic, 2)
    count = 2000 if SMOKE else 10_000
    errors = []

    def write():
        p = client.producer(acks=1)
        for i in range(count):
            p.send(topic, Message(b"%d" % i, partition=i % 2))
            if i % 500 == 499:
                errors.extend(x for x in p.flush() if isinstance(x, Exception))
        errors.extend(x for x in p.flush() if isinstance(x, Exception))
        p.close()
    writer = threading.Thread(target=write)
    writer.start()
    records = read(client, topic, count, {0: 0, 1: 0})
    writer.join()
    same(errors, [], "errors while writing")
    for n in range(2):
        in_order(records, n)
        same([int(r.value) for r in records if r.partition == n], list(range(n, count, 2)), f"partition {n}")


def restart(client):
    """The server stops and starts on the same port, and the same producer and reader continue."""
    topic = topic_name(client, "restart")
    create(client, topic)
    p = client.producer(idempotent=True, give_up_ms=90_000)
    r = client.reader(topic, {0: 0})
    got = []
    for turn in range(1 if SMOKE else 2):
        for i in range(200):
            p.send(topic, Message(b"%d/%d" % (turn, i)))
        for x in p.flush():
            check(not isinstance(x, Exception), f"{x!r}")
        got += read_on(r, (turn + 1) * 200 - len(got))
        server("restart", "TERM")
    for i in range(200):
        p.send(topic, Message(b"end/%d" % i))
    results = p.flush()
    for x in results:
        check(not isinstance(x, Exception), f"{x!r}")
    turns = [b"%d" % t for t in range(1 if SMOKE else 2)] + [b"end"]
    got += read_on(r, 200 * len(turns) - len(got))
    in_order(got)
    same([x.value for x in got], [b"%s/%d" % (t, i) for t in turns for i in range(200)], "values")
    p.close()
    r.close()


def recreate(client):
    topic = topic_name(client, "recreate")
    for turn in range(2):
        create(client, topic, turn + 1)
        messages = [Message(b"%d/%d" % (turn, i)) for i in range(10 + turn)]
        same([x[1] for x in produce(client, topic, messages)], list(range(10 + turn)), "offsets start again")
        same_content(read(client, topic, 10 + turn), messages)
        eventually(lambda: client.partitions(topic) == turn + 1, "partition count")
        client.delete(topic)
        time.sleep(0.5 if turn == 0 else 0)


def all_of(client):
    """(smoke too?, name, action, arguments)"""
    yield from [(True, f"codec {c}", codec, c) for c in client.codecs]
    yield from [(c == "zstd", f"topic recompresses to {c}", recompressed, c) for c in ["uncompressed", "gzip", "snappy", "lz4", "zstd"]]
    for smoke, name, action in [
        (True, "record sizes from 1 B to 1 MiB", sizes), (True, "null and empty keys and values", nulls), (True, "headers", headers),
        (True, "timestamps", timestamps), (True, "LogAppendTime topic", log_append_time)]:
        yield smoke, name, action
    yield from [(n == 0, f"acks {n}", acks, n) for n in (0, 1, "all")]
    for smoke, name, action in [
        (True, "idempotent producer", idempotent), (True, "keys over partitions", keys), (True, "offsets by position and time", offsets),
        (True, "delete records", delete_records), (False, "seek", seek), (False, "offset out of range", out_of_range),
        (False, "read committed", read_committed), (True, "record too large", too_large), (False, "unknown partition", unknown_partition),
        (True, "automatic topic creation", auto_creation), (True, "admin errors", admin_errors), (True, "long poll", long_poll),
        (False, "fetch session with idle partitions", sessions), (True, "read while writing", read_while_writing),
        (False, "topic deleted and created again", recreate), (client.name == "confluent-kafka", "server restarts", restart)]:
        yield smoke, name, action


def run_all(client):
    for smoke, name, action, *args in all_of(client):
        if smoke or not SMOKE:
            run(f"{client.name}: {name}", action, client, *args)
