"""What no client sends: every API at every version, and bad input. Run by interop/run.sh.

Each request is made from the message definitions inside the kafka-clients jar and each answer must decode to
its last byte. The expected error codes are those that a Kafka 4.3.1 broker gives (observed, not derived).
"""
import os, re, struct, sys, time, traceback
import gzip as gzip_
from glob import glob
from kproto import Closed, Conn, Schema, batch, batches, inr, message_set, record, varint

BOOTSTRAP, SMOKE = os.environ["BOOTSTRAP"], os.environ.get("INTEROP_MODE") == "smoke"
# Kafka acknowledges a creation before the partitions have their leaders. tailrace must not need this
# patience.
LEADERS_LATE = os.environ.get("INTEROP_TARGET") == "kafka"
ONLY = re.compile(os.environ.get("ONLY", ""))
SCHEMA = Schema(glob(os.environ["KAFKA_LIBS"] + "/kafka-clients-*.jar")[0])
NAMES = {v: k for k, v in SCHEMA.keys.items()}
NOW = int(time.time() * 1000)
failed = 0


def conn(seconds=15):
    return Conn(SCHEMA, BOOTSTRAP, seconds)


def call(name, version, body=None):
    c = conn()
    try:
        return c.call(name, version, body)
    finally:
        c.close()


def run(name, action, *args):
    global failed
    if not ONLY.search(name):
        return
    try:
        action(*args)
        print(f"PASS raw: {name}", flush=True)
    except Exception as error:
        failed += 1
        print(f"FAIL raw: {name}: {error!r}"[:500], flush=True)
        traceback.print_exc(file=sys.stderr)


def same(got, want, what):
    wanted = want if isinstance(want, (tuple, set, list)) else (want,)
    if got not in wanted:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def topic(name, partitions=1, configs=()):
    answer = call("CreateTopics", 7, {"Topics": [{"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1,
                  "Configs": [{"Name": k, "Value": v} for k, v in configs]}], "timeoutMs": 10_000})["Topics"][0]
    same(answer["ErrorCode"], 0, f"create {name}: {answer['ErrorMessage']}")
    for p in range(partitions if LEADERS_LATE else 0):
        body = {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": [{"PartitionIndex": p, "CurrentLeaderEpoch": -1, "Timestamp": -1}]}]}
        while call("ListOffsets", 5, body)["Topics"][0]["Partitions"][0]["ErrorCode"]:
            time.sleep(0.05)
    return answer["TopicId"]


# ---- every API at every version ----

def one_partition(topic_field, **fields):
    return {topic_field: "versions", "Partitions": [fields]}


def bodies(ids):
    """A sensible request for each API. Fields that a version lacks are left out."""
    return {
        "Produce": {"Acks": -1, "TimeoutMs": 5000, "TopicData": [{"Name": "versions", "TopicId": ids, "PartitionData": [{"Index": 0, "Records": batch(ts=NOW)}]}]},
        "Fetch": {"MaxWaitMs": 10, "MinBytes": 1, "MaxBytes": 1 << 20, "Topics": [{"Topic": "versions", "TopicId": ids, "Partitions": [{"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}]}]},
        "ListOffsets": {"ReplicaId": -1, "Topics": [{"Name": "versions", "Partitions": [{"PartitionIndex": 0, "CurrentLeaderEpoch": -1, "Timestamp": -1}]}]},
        "Metadata": {"Topics": [{"Name": "versions"}], "AllowAutoTopicCreation": False},
        "FindCoordinator": {"Key": "g", "KeyType": 0, "CoordinatorKeys": ["g"]},
        "ApiVersions": {"ClientSoftwareName": "raw", "ClientSoftwareVersion": "1"},
        "CreateTopics": {"Topics": [{"Name": "only-validated", "NumPartitions": 1, "ReplicationFactor": 1}], "timeoutMs": 5000, "validateOnly": True},
        "DeleteTopics": {"Topics": [{"Name": "not-there"}], "TopicNames": ["not-there"], "TimeoutMs": 5000},
        "DeleteRecords": {"Topics": [{"Name": "versions", "Partitions": [{"PartitionIndex": 0, "Offset": 0}]}], "TimeoutMs": 5000},
        "InitProducerId": {"TransactionalId": None, "TransactionTimeoutMs": 60_000},
        "OffsetForLeaderEpoch": {"ReplicaId": -2, "Topics": [{"Topic": "versions", "Partitions": [{"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0}]}]},
        "DescribeConfigs": {"Resources": [{"ResourceType": 2, "ResourceName": "versions", "ConfigurationKeys": None}]},
        "AlterConfigs": {"Resources": [{"ResourceType": 2, "ResourceName": "versions", "Configs": [{"Name": "flush.ms", "Value": "7"}]}], "ValidateOnly": True},
        "IncrementalAlterConfigs": {"Resources": [{"ResourceType": 2, "ResourceName": "versions", "Configs": [{"Name": "flush.ms", "ConfigOperation": 0, "Value": "7"}]}], "ValidateOnly": True},
        "CreatePartitions": {"Topics": [{"Name": "versions", "Count": 5, "Assignments": None}], "TimeoutMs": 5000, "ValidateOnly": True},
        "DescribeCluster": {"EndpointType": 1}, "DescribeLogDirs": {"Topics": None},
        "DescribeProducers": {"Topics": [{"Name": "versions", "PartitionIndexes": [0]}]},
        "DescribeTopicPartitions": {"Topics": [{"Name": "versions"}]},
        "ListConfigResources": {"ResourceTypes": []},
    }


# The error that each answer carries for the request above; others succeed.
EXPECTED = {("DeleteTopics", "ErrorCode"): 3, ("FindCoordinator", "ErrorCode"): (0, 15)}


def trimmed(fields, body, version):
    """Drops what the version does not have."""
    known = {f["name"]: f for f in fields}
    out = {}
    for k, v in body.items():
        f = known[k]
        if not inr(version, f["versions"]):
            continue
        if isinstance(v, list) and v and isinstance(v[0], dict):
            v = [trimmed(f["fields"], e, version) for e in v]
        out[k] = v
    return out


def codes(x):
    if isinstance(x, dict):
        for k, v in x.items():
            if k == "ErrorCode":
                yield v
            else:
                yield from codes(v)
    elif isinstance(x, list):
        for v in x:
            yield from codes(v)


def every_version(name, body, advertised):
    low, high = advertised
    for version in range(low, high + 1):
        if name == "Produce" and version < 3:
            closed(lambda c: c.send(name, version, raw_body=b"\0" * 12), f"{name} v{version}")
            continue
        # The answer to a first InitProducerId may be to try again.
        for _ in range(20):
            answer = call(name, version, trimmed(SCHEMA.requests[SCHEMA.key(name)]["fields"], body, version))
            if not (name == "InitProducerId" and answer["ErrorCode"] == 14):
                break
            time.sleep(0.2)
        if "__trailing" in answer:
            raise AssertionError(f"v{version}: {answer['__trailing']} bytes too many")
        for code in codes(answer):
            same(code, EXPECTED.get((name, "ErrorCode"), 0), f"v{version} error code")
    unknown = high + 1
    if name == "ApiVersions":
        c = conn()
        c.send(name, 99, raw_body=b"\0\0\0")
        same(c.read_frame()[4:].hex(), ("00230000000100120000" + f"{high:04x}", ), "answer to version 99, in the layout of v0")
    else:
        closed(lambda c: c.send(name, unknown, raw_body=b"\0" * 8), f"{name} v{unknown}")


def advertised_versions():
    return {NAMES[k["ApiKey"]]: (k["MinVersion"], k["MaxVersion"]) for k in call("ApiVersions", 3, {"ClientSoftwareName": "raw", "ClientSoftwareVersion": "1"})["ApiKeys"]}


FLOORS = {"Produce": 0, "Fetch": 4, "ListOffsets": 1, "Metadata": 0, "FindCoordinator": 0, "ApiVersions": 0, "CreateTopics": 2, "DeleteTopics": 1, "DeleteRecords": 0,
          "InitProducerId": 0, "OffsetForLeaderEpoch": 2, "DescribeConfigs": 1, "AlterConfigs": 0, "IncrementalAlterConfigs": 0, "CreatePartitions": 0,
          "DescribeCluster": 0, "DescribeLogDirs": 1, "DescribeProducers": 0, "DescribeTopicPartitions": 0}
TOPS = {"Produce": 13, "Fetch": 18, "ListOffsets": 11, "Metadata": 13, "FindCoordinator": 6, "ApiVersions": 4, "CreateTopics": 7, "DeleteTopics": 6, "DeleteRecords": 2,
        "InitProducerId": 5, "OffsetForLeaderEpoch": 4, "DescribeConfigs": 4, "AlterConfigs": 2, "IncrementalAlterConfigs": 1, "CreatePartitions": 3,
        "DescribeCluster": 2, "DescribeLogDirs": 5, "DescribeProducers": 0, "DescribeTopicPartitions": 0}


def versions_listed():
    listed = advertised_versions()
    for name in FLOORS:
        same(listed.get(name), [(FLOORS[name], TOPS[name])], name)
    for key in (71, 72):
        assert NAMES.get(key) not in listed, f"telemetry key {key} is advertised"


# ---- frames ----

def closed(action, what):
    """After the action the server must hang up without an answer."""
    c = conn(8)
    try:
        action(c)
        answer = c.read_frame()
    except (Closed, BrokenPipeError, ConnectionResetError):
        return
    finally:
        c.close()
    raise AssertionError(f"{what}: answered {answer[:40].hex()}")


def frames():
    p = struct.pack
    listed = {
        "a negative length": p(">i", -1), "length 0": p(">i", 0), "length 1": p(">i", 1) + b"\0", "a length above the limit": p(">i", 104857601),
        "length 2^31-1": p(">i", 2**31 - 1), "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an unknown API": p(">ihhih", 10, 999, 0, 1, -1),
        "API -1": p(">ihhih", 10, -1, 0, 1, -1), "a negative version": p(">ihhih", 10, 3, -1, 1, -1), "an array of 2^31-1": p(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
        "a string beyond the frame": p(">ihhihih", 16, 3, 1, 1, -1, 1, 100), "a client id beyond the frame": p(">ihhih", 10, 3, 1, 1, 5000),
        "a varint of six bytes": p(">ihhihB", 18, 3, 12, 1, -1, 0) + b"\xff" * 6 + b"\0", "a header of four bytes": p(">ihh", 4, 3, 0),
    }
    for what, data in listed.items():
        closed(lambda c: c.s.sendall(data), what)
    # Half a frame is not a fault: the rest may come.
    c = conn(2)
    whole = c.frame("ApiVersions", 0)
    c.s.sendall(whole[:7])
    time.sleep(0.5)
    c.s.sendall(whole[7:])
    assert c.recv("ApiVersions", 0)["ErrorCode"] == 0
    # Several requests at once are answered in order.
    c.s.sendall(b"".join(c.frame("ApiVersions", 0) for _ in range(20)))
    for _ in range(20):
        c.read_frame()


# ---- bad batches ----

def produce_codes(name, cases, **options):
    for what, records, want in cases:
        version = options.get("version", 9)
        answer = call("Produce", version, {"Acks": -1, "TimeoutMs": 5000, "TopicData": [{"Name": name, "PartitionData": [{"Index": 0, "Records": records}]}]})
        same(answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"], want, what)


CORRUPT, TOO_LARGE, TIMESTAMP, UNSUPPORTED_CODEC, INVALID, OUT_OF_ORDER, FENCED, UNKNOWN_ERROR = 2, 10, 32, 76, 87, 45, 47, -1


def bad_batches():
    topic("bad-batches")
    good = batch(ts=NOW)
    # Kafka says UNKNOWN_SERVER_ERROR if its decompressor throws. A specific error is better.
    broken = (UNKNOWN_ERROR, CORRUPT, INVALID)
    body = gzip_.compress(record(0, None, b"a" * 100))
    produce_codes("bad-batches", [
        ("good", good, 0), ("empty records", b"", INVALID), ("60 bytes", good[:60], INVALID), ("truncated", good[:-1], INVALID), ("two batches", good + good, INVALID),
        ("wrong CRC", batch(crc=1), CORRUPT), ("length too long", batch(length=len(good) - 2), INVALID), ("length too short", batch(length=len(good) - 13), CORRUPT),
        ("length 0", batch(length=0), CORRUPT), ("length -1", batch(length=-1), CORRUPT), ("length 2^31-1", batch(length=2**31 - 1), (UNKNOWN_ERROR, INVALID, CORRUPT)),
        ("magic 0", message_set(0), INVALID), ("magic 1", message_set(1), INVALID), ("magic 3", batch(magic=3), CORRUPT),
        ("count 2 of 1", batch(count=2), INVALID), ("count 1 of 2", batch([(None, b"a"), (None, b"b")], count=1, last_delta=0), INVALID), ("count 0", batch(count=0), INVALID),
        ("count -1", batch(count=-1), INVALID), ("count 2^31-1", batch(count=2**31 - 1, last_delta=2**31 - 2), INVALID), ("last delta 5 of 1", batch(last_delta=5), INVALID),
        ("no records", batch([], count=0, last_delta=-1), INVALID), ("base offset 77", batch(base=77), INVALID), ("leader epoch 5", batch(epoch=5, ts=NOW), 0),
        ("junk after the records", batch(body=record(0, None, b"a") + b"junk", count=1, last_delta=0), INVALID),
        ("record longer than the batch", batch(body=varint(50) + record(0, None, b"abc")[1:], count=1, last_delta=0), INVALID),
        ("key length -2", batch(body=varint(8) + b"\0\0\0" + varint(-2) + varint(-1) + varint(0) + b"\0\0", count=1, last_delta=0), INVALID),
        ("2^30 headers", batch(body=varint(10) + b"\0\0\0" + varint(-1) + varint(-1) + varint(2**30), count=1, last_delta=0), INVALID),
        ("control batch", batch(attributes=32, pid=1000, pepoch=0, seq=0), INVALID), ("codec 5", batch(attributes=5), broken),
        ("not gzip", batch(attributes=1), broken), ("not snappy", batch(attributes=2), broken), ("not lz4", batch(attributes=3), broken), ("not zstd", batch(attributes=4), broken),
        ("gzip", batch(attributes=1, body=body, count=1, last_delta=0, ts=NOW), 0), ("truncated gzip", batch(attributes=1, body=body[:-10], count=1, last_delta=0, ts=NOW), broken),
        ("gzip with count 2 of 1", batch(attributes=1, body=body, count=2, last_delta=1), INVALID),
        ("an hour and more ahead", batch(ts=NOW + 3_700_000), TIMESTAMP), ("larger than max.message.bytes", batch([(None, b"x" * 1_048_600)], ts=NOW), TOO_LARGE)])
    produce_codes("bad-batches", [("zstd in v3", batch(attributes=4), UNSUPPORTED_CODEC), ("magic 1 in v3", message_set(1), INVALID)], version=3)
    produce_codes("no-such-topic", [("unknown topic", good, 3)])
    answer = call("Produce", 9, {"Acks": 2, "TimeoutMs": 1000, "TopicData": [{"Name": "bad-batches", "PartitionData": [{"Index": 0, "Records": good}]}]})
    same(answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"], 21, "acks 2")


def acks_zero():
    topic("acks-zero")

    def send(c, name, records):
        c.send("Produce", 9, {"Acks": 0, "TimeoutMs": 1000, "TopicData": [{"Name": name, "PartitionData": [{"Index": 0, "Records": records}]}]})
    c = conn()
    send(c, "acks-zero", batch(ts=NOW))
    assert c.call("ApiVersions", 0)["ErrorCode"] == 0, "a good produce with acks=0 has no answer"
    closed(lambda c: send(c, "acks-zero", batch(crc=1)), "a wrong CRC with acks=0")
    closed(lambda c: send(c, "no-such-topic", batch()), "an unknown topic with acks=0")


def max_message_bytes():
    topic("limit", 1, [("max.message.bytes", "1000")])
    for size, want in [(999, 0), (1000, 0), (1001, TOO_LARGE), (2000, TOO_LARGE)]:
        produce_codes("limit", [(f"{size} bytes", next(b for n in range(size) if len(b := batch([(None, b"x" * n)], ts=NOW)) == size), want)])


def stamped_batches():
    """What is stored: the server's own offset and epoch, the producer's bytes, and a correct CRC even if the
    server changed something."""
    ids, late = topic("stamped"), topic("stamped-late", 1, [("message.timestamp.type", "LogAppendTime")])
    produce_codes("stamped", [("first", batch(ts=NOW, epoch=9), 0), ("second", batch([(b"k", b"v")] * 3, ts=NOW), 0)])
    produce_codes("stamped-late", [("old", batch(ts=5), 0)])

    def stored(topic_id):
        answer = call("Fetch", 13, {"MaxWaitMs": 100, "MinBytes": 1, "MaxBytes": 1 << 20, "Topics": [{"TopicId": topic_id, "Partitions": [{"Partition": 0, "PartitionMaxBytes": 1 << 20}]}]})
        return [h for h, _ in batches(answer["Responses"][0]["Partitions"][0]["Records"])]
    first, second = stored(ids)
    same((first["base"], second["base"], second["count"], first["crc_ok"], second["crc_ok"]), [(0, 1, 3, True, True)], "offsets and checksums")
    assert first["epoch"] != 9, "the client's leader epoch is kept"
    old, = stored(late)
    assert old["attributes"] & 8 and old["crc_ok"] and old["max_ts"] >= NOW - 60_000, f"LogAppendTime: {old}"


def idempotence():
    topic("sequences")
    pid = next(a["ProducerId"] for _ in range(50) if (a := call("InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 60_000}))["ErrorCode"] == 0 or time.sleep(0.2))

    def send(sequence, count=1, epoch=0):
        answer = call("Produce", 9, {"Acks": -1, "TimeoutMs": 5000, "TopicData": [{"Name": "sequences", "PartitionData": [
            {"Index": 0, "Records": batch([(None, b"v%d" % i) for i in range(count)], pid=pid, pepoch=epoch, seq=sequence, ts=NOW)}]}]})["Responses"][0]["PartitionResponses"][0]
        return answer["ErrorCode"], answer["BaseOffset"]
    for what, got, want in [
        ("first", send(0, 2), (0, 0)), ("its duplicate", send(0, 2), (0, 0)), ("next", send(2), (0, 2)), ("a gap", send(4), (OUT_OF_ORDER, -1)), ("after the gap", send(3), (0, 3)),
        ("overlap", send(2, 2), (OUT_OF_ORDER, -1)), ("4", send(4), (0, 4)), ("5", send(5), (0, 5)), ("6", send(6), (0, 6)), ("older than five batches", send(0, 2), (OUT_OF_ORDER, -1)),
        ("fifth last", send(2), (0, 2)), ("next epoch", send(0, 1, 1), (0, 7)), ("old epoch", send(7, 1, 0), (FENCED, -1)), ("epoch that does not begin at 0", send(3, 1, 2), (OUT_OF_ORDER, -1))]:
        same(got, [want], what)


# ---- fetch ----

def fetch_sessions():
    ids = topic("fetch-sessions", 2)
    c = conn()

    def fetch(session, epoch, partitions=(), wait=200, version=16):
        t = [{"TopicId": ids, "Partitions": [{"Partition": p, "FetchOffset": at, "PartitionMaxBytes": 1 << 20} for p, at in partitions]}] if partitions else []
        a = c.call("Fetch", version, {"MaxWaitMs": wait, "MinBytes": 1, "MaxBytes": 1 << 20, "SessionId": session, "SessionEpoch": epoch, "Topics": t})
        return a["ErrorCode"], a["SessionId"], sorted((p["PartitionIndex"], p["ErrorCode"], len(p["Records"]) > 0) for x in a["Responses"] for p in x["Partitions"])
    code, session, got = fetch(0, 0, [(0, 0), (1, 0)])
    assert code == 0 and session != 0 and got == [(0, 0, False), (1, 0, False)], (code, session, got)
    same(fetch(session, 1), [(0, session, [])], "nothing new")
    same(fetch(session, 1)[0], 71, "an epoch twice")
    produce_codes("fetch-sessions", [("good", batch(ts=NOW), 0)])
    same(fetch(session, 2, wait=5000), [(0, session, [(0, 0, True)])], "only the changed partition")
    same(fetch(session, 3), [(0, session, [(0, 0, True)])], "again, as the position did not move")
    same(fetch(session, 4, [(0, 1)]), [(0, session, [])], "moved on")
    same(fetch(session + 1, 1)[0], 70, "an unknown session")
    same(fetch(session, -1), [(0, 0, [])], "closed")
    same(fetch(session, 5)[0], 70, "after closing")
    same(fetch(0, -1, [(0, 99)])[2], [[(0, 1, False)]], "offset out of range")
    same(fetch(0, -1, [(7, 0)])[2], [[(7, 3, False)]], "unknown partition")
    began = time.monotonic()
    fetch(0, -1, [(1, 0)], wait=1000)
    assert 0.9 < time.monotonic() - began < 10, "the maximum wait"


def stale_ids():
    old = topic("stale")
    same(call("DeleteTopics", 6, {"Topics": [{"Name": None, "TopicId": old}], "TimeoutMs": 5000})["Responses"][0]["ErrorCode"], 0, "delete by id")
    for _ in range(50):
        try:
            new = topic("stale")
            break
        except AssertionError:
            time.sleep(0.1)
    assert new != old
    same(call("Produce", 13, {"Acks": -1, "TimeoutMs": 5000, "TopicData": [{"TopicId": old, "PartitionData": [{"Index": 0, "Records": batch(ts=NOW)}]}]})["Responses"][0]["PartitionResponses"][0]["ErrorCode"], 100, "produce")
    same(call("Fetch", 16, {"MaxWaitMs": 10, "MinBytes": 1, "MaxBytes": 1000, "Topics": [{"TopicId": old, "Partitions": [{"Partition": 0, "PartitionMaxBytes": 1000}]}]})["Responses"][0]["Partitions"][0]["ErrorCode"], 100, "fetch")
    same(call("Metadata", 12, {"Topics": [{"Name": None, "TopicId": old}]})["Topics"][0]["ErrorCode"], 100, "metadata")
    same(call("DeleteTopics", 6, {"Topics": [{"Name": None, "TopicId": old}], "TimeoutMs": 5000})["Responses"][0]["ErrorCode"], 100, "delete")


def list_offsets_specials():
    topic("specials")
    produce_codes("specials", [("good", batch(ts=NOW), 0)])

    def at(timestamp, version):
        p = call("ListOffsets", version, {"ReplicaId": -1, "Topics": [{"Name": "specials", "Partitions": [{"PartitionIndex": 0, "CurrentLeaderEpoch": -1, "Timestamp": timestamp}]}]})["Topics"][0]["Partitions"][0]
        return p["ErrorCode"], p["Offset"]
    for timestamp, version, want in [(-1, 1, (0, 1)), (-2, 1, (0, 0)), (-3, 7, (0, 0)), (-3, 6, (35, -1)), (-4, 8, (0, 0)), (-4, 7, (35, -1)), (-5, 9, (0, -1)), (-5, 8, (35, -1)), (-6, 11, (0, -1)),
                                     (-6, 10, (35, -1)), (-99, 11, (35, -1)), (NOW, 5, (0, 0)), (NOW + 1, 5, (0, -1))]:
        same(at(timestamp, version), [want], f"{timestamp} in v{version}")


def create_topics():
    def code(**t):
        body = {"Name": "validated", "NumPartitions": 1, "ReplicationFactor": 1, **t}
        return call("CreateTopics", 7, {"Topics": [body], "timeoutMs": 5000, "validateOnly": True})["Topics"][0]["ErrorCode"]
    for name in ("a/b", "..", ".", "", "x" * 250, "ü", "a b", "a\0b", "c:d", "a\\b"):
        same(code(Name=name), 17, f"name {name[:10]!r}")
    same(code(Name="x" * 249), 0, "249 characters")
    for n, want in [(0, 37), (-5, 37), (-1, 0), (1_000_000, (44, 37))]:
        same(code(NumPartitions=n), want, f"{n} partitions")
    for n, want in [(0, 38), (2, 38), (-1, 0)]:
        same(code(ReplicationFactor=n), want, f"{n} replicas")
    for k, v in [("no.such", "1"), ("retention.ms", "soon"), ("retention.ms", None), ("segment.bytes", "13"), ("compression.type", "bar"), ("flush.messages", "0"), ("max.message.bytes", "-1")]:
        same(code(Configs=[{"Name": k, "Value": v}]), 40, f"{k}={v}")
    both = [{"Name": "twice", "NumPartitions": 1, "ReplicationFactor": 1}] * 2
    same([t["ErrorCode"] for t in call("CreateTopics", 7, {"Topics": both, "timeoutMs": 5000, "validateOnly": True})["Topics"]], [[42]], "a name twice")
    own = call("Metadata", 12, {"Topics": []})["Brokers"][0]["NodeId"]

    def assigned(*rows, **counts):
        return code(**{"NumPartitions": -1, "ReplicationFactor": -1, **counts}, Assignments=[{"PartitionIndex": p, "BrokerIds": b} for p, b in rows])
    for what, got, want in [("itself", assigned((0, [own]), (1, [own])), 0), ("another node", assigned((0, [own + 7])), 39), ("a node twice", assigned((0, [own, own])), 39),
                            ("no node", assigned((0, [])), 39), ("not from 0", assigned((1, [own])), 39), ("a partition twice", assigned((0, [own]), (0, [own])), 39),
                            ("and a count", assigned((0, [own]), NumPartitions=1), 42), ("and a factor", assigned((0, [own]), ReplicationFactor=1), 42)]:
        same(got, want, f"manual assignment, {what}")


def slow_client():
    """A client that sends a byte now and then, and one that never reads, do not disturb the others."""
    slow, deaf = conn(), conn()
    whole = slow.frame("ApiVersions", 0)
    topic("slow")
    for i in range(20):
        produce_codes("slow", [("good", batch([(None, b"x" * 100_000)], ts=NOW), 0)])
    for i in range(200):
        deaf.send("Fetch", 12, {"MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 50 << 20, "Topics": [{"Topic": "slow", "Partitions": [{"Partition": 0, "PartitionMaxBytes": 50 << 20}]}]})
    for byte in whole[:-1]:
        slow.s.sendall(bytes([byte]))
        same(call("ApiVersions", 0)["ErrorCode"], 0, "another client")
    produce_codes("slow", [("good", batch(ts=NOW), 0)])
    slow.s.sendall(whole[-1:])
    same(slow.recv("ApiVersions", 0)["ErrorCode"], 0, "the slow client at last")


run("advertised versions", versions_listed)
listed, ids = advertised_versions(), topic("versions", 3)
for name, body in bodies(ids).items():
    if name in listed:
        run(f"{name} at every version", every_version, name, body, listed[name])
for name, action in [("frames", frames), ("bad batches", bad_batches), ("acks=0", acks_zero), ("max.message.bytes", max_message_bytes), ("stamped batches", stamped_batches),
                     ("idempotence", idempotence), ("fetch sessions", fetch_sessions), ("stale topic ids", stale_ids), ("ListOffsets specials", list_offsets_specials),
                     ("CreateTopics refusals", create_topics), ("slow and deaf clients", slow_client)]:
    run(name, action)
sys.exit(1 if failed else 0)
