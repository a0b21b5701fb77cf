"""The attacks that were found by hand, each with the parameters with which it was found."""
import http.client, os, random, resource, socket, struct, time, urllib.request
from itertools import product
import payloads, wire
from measure import BESIDE_MIB, TOPIC, check
from wire import MIB, Many

# Connections that attack at once, if each request has its own: as many as the server's threads, by default
# one per processor.
TWO = 2
# An attack without an end of its own ends after this.
SECONDS = 20


def produce_request(server, topic, batch, partitions, version=9):
    """A batch for each partition of a topic."""
    data = [{"Name": topic, "PartitionData": [{"Index": p, "Records": batch} for p in range(partitions)]}]
    return wire.frame(server.schema, "Produce", version, {"Acks": 1, "TimeoutMs": 30_000, "TopicData": data})


def produce_everywhere(attack, topic, batch, partitions, connections=TWO, version=9):
    """Each connection sends one request with a batch for each partition of a topic."""
    all_at_once(attack, produce_request(attack.server, topic, batch, partitions, version), connections)


def all_at_once(attack, request, connections=TWO, seconds=SECONDS, then=lambda: True):
    """Sends the same request on this many connections, and waits until each has its answer, and `then` holds."""
    strangers = [attack.stranger() for _ in range(connections)]
    with attack.watched():
        for one in strangers:
            attack.send(one, request)
        attack.until(lambda: all(one.answers or one.closed for one in strangers) and then(), seconds)


# ---- 1: batches that inflate; quick: half as many ----

def inflate(batch_of, partitions=40):
    def play(attack):
        batch = batch_of()
        count = partitions // 2 if attack.quick else partitions
        attack.server.create("inflate", count)
        produce_everywhere(attack, "inflate", batch, count)
        attack.figures.more["a batch"] = f"{len(batch):,} B"
    return play


# ---- 2: frames that are announced ----

def announced(attack):
    """Lengths of huge frames on three connections, twelve bytes. Then another client produces 200 KB."""
    server, value = attack.server, random.Random(1).randbytes(200_000)
    body = {"Acks": 1, "TimeoutMs": 30_000, "TopicData": [{"Name": TOPIC, "PartitionData": [{"Index": 0, "Records": payloads.batch(value)}]}]}
    request = wire.frame(server.schema, "Produce", 9, body)
    limit = 5 if attack.quick else 100

    def waited():
        began = time.monotonic()
        one = attack.stranger(seconds=limit)
        one.send(request)
        one.until(lambda s: s.answers, limit)
        return (time.monotonic() - began) * 1000

    before = max(waited() for _ in range(5))
    with attack.watched(left=False):
        for _ in range(3):
            one = attack.stranger()
            attack.send(one, struct.pack(">i", 100 * MIB))
            time.sleep(0.05)
        wait = waited()
    attack.figures.more = {"a produce of 200 KB waited": f"{wait:.0f} ms", "before": f"{before:.0f} ms"}
    check(wait <= (1000 if attack.quick else 50) + before, f"a produce of 200 KB waited {wait:.0f} ms or more")


# ---- 3: what is kept of a frame ----

def kept_slices(api, version, count=20):
    """Frames of 20 MB of which the server needs 100 bytes; their groups live for half an hour."""
    def play(attack):
        server = attack.server
        trailing = bytes(20_000_000)
        if api == "SyncGroup":
            members = [join(server, f"kept-{number}") for number in range(count)]
        with attack.watched():
            for number in range(count):
                body = {"GroupId": f"kept-{number}", "SessionTimeoutMs": 1_800_000, "RebalanceTimeoutMs": 1_800_000, "ProtocolType": "consumer",
                        "Protocols": [{"Name": "range", "Metadata": bytes(100)}]}
                if api == "SyncGroup":
                    member, generation = members[number]
                    body = {"GroupId": f"kept-{number}", "GenerationId": generation, "MemberId": member,
                            "Assignments": [{"MemberId": member, "Assignment": bytes(100)}]}
                one = attack.stranger()
                attack.send(one, wire.frame(server.schema, api, version, body, trailing=trailing))
                one.until(lambda s: s.answers, SECONDS)
    return play


def join(server, group):
    """Joins a group that lives for half an hour as its only member. Returns the member id and the generation."""
    body = {"GroupId": group, "SessionTimeoutMs": 1_800_000, "RebalanceTimeoutMs": 1_800_000, "ProtocolType": "consumer",
            "Protocols": [{"Name": "range", "Metadata": bytes(100)}]}
    answer = server.call("JoinGroup", 3, body)
    check(answer["ErrorCode"] == 0, f"join: {answer}")
    return answer["MemberId"], answer["GenerationId"]


# ---- 4 and 5: names repeated ----

def fetch_repeated(frame_mib, connections, what):
    """One partition, named a million times (16 bytes each). It is empty and waited for; or it has a batch of
    108 bytes, which is sent each time; or the prober writes to it."""
    def play(attack):
        topic = TOPIC if what == "written to" else "repeated"
        if topic != TOPIC:
            attack.server.create(topic)
        if what == "one batch":
            data = [{"Name": topic, "PartitionData": [{"Index": 0, "Records": payloads.batch(bytes(38))}]}]
            attack.server.call("Produce", 9, {"Acks": 1, "TimeoutMs": 1000, "TopicData": data})
        body = {"MaxWaitMs": 500, "MinBytes": 1, "MaxBytes": (1 << 31) - 1,
                "Topics": [{"Topic": topic, "Partitions": Many({"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20})}]}
        all_at_once(attack, wire.frame(attack.server.schema, "Fetch", 4, body, frame_bytes=frame_mib * MIB), connections)
    return play


def delete_unknown(count, connections=TWO):
    def play(attack):
        body = {"TopicNames": Many("########", count), "TimeoutMs": 1000}
        all_at_once(attack, wire.frame(attack.server.schema, "DeleteTopics", 5, body, frame_bytes=100 * MIB), connections)
    return play


def list_offsets(how, frame_bytes=45_000_000):
    """One partition again and again, or each time another topic."""
    def play(attack):
        partition = {"PartitionIndex": 0, "Timestamp": -1}
        topics = [{"Name": TOPIC, "Partitions": Many(partition)}] if how == "same" else Many({"Name": "########", "Partitions": [partition]})
        all_at_once(attack, wire.frame(attack.server.schema, "ListOffsets", 1, {"ReplicaId": -1, "Topics": topics}, frame_bytes=frame_bytes), TWO)
    return play


# ---- 6 and 11: subscriptions ----

def wide_subscriptions(words, publishes):
    """Every mixture of `a` and `*` in this many words; then different subjects that fail at the last word."""
    def play(attack):
        lines = []
        for number, choice in enumerate(product("a*", repeat=words)):
            lines.append(f"SUB {'.'.join(choice)}.zz {number}\r\n")
        one = attack.nats()
        attack.send(one, "".join(lines).encode() + b"PING\r\n")
        check(wire.nats_done(one, 60), "the subscriptions are not taken")
        subject = ".".join("a" * words)
        publish(attack, [f"PUB {subject}.{number} 0\r\n\r\n".encode() for number in range(publishes)])
    return play


def shapes_of_many(connections, shapes, publishes):
    """Each connection has other mixtures of `a` and `*` in sixteen words. Together they are more than the
    server has tables for."""
    def play(attack):
        strangers = [attack.nats() for _ in range(connections)]
        for number, one in enumerate(strangers):
            choices = (number * shapes + own for own in range(shapes))
            words = ["*" if choice >> place & 1 else "a" for choice in choices for place in range(16)]
            lines = [f"SUB {'.'.join(words[at:at + 16])}.zz {at}\r\n" for at in range(0, len(words), 16)]
            attack.send(one, "".join(lines).encode() + b"PING\r\n")
        check(attack.until(lambda: all(wire.nats_done(one, 0) for one in strangers), 60), "the subscriptions are not taken")
        subject = ".".join("a" * 16)
        publish(attack, [f"PUB {subject}.{number} 0\r\n\r\n".encode() for number in range(publishes)])
    return play


def fan_out(reads):
    """50,000 subscriptions of one client to one subject, then 800 messages of eight bytes; quick: 40."""
    def play(attack):
        one = attack.nats(reads=reads)
        attack.send(one, "".join(f"SUB x {number}\r\n" for number in range(50_000)).encode())
        one.sender.join(30)
        time.sleep(1)  # by then the server has read what the kernel still held; a client that does not read gets no PONG
        publish(attack, [b"PUB x 8\r\n12345678\r\n"] * (40 if attack.quick else 800))
    return play


def publish(attack, messages):
    """Publishes from two connections, so that no thread of the server is left out, until all messages are
    processed."""
    others = [attack.nats() for _ in range(TWO)]
    with attack.watched():
        for number, other in enumerate(others):
            attack.send(other, b"".join(messages[number::TWO]) + b"PING\r\n")
        done = attack.until(lambda: all(wire.nats_done(other, 0) or other.closed for other in others), SECONDS)
    check(done, f"the messages are not taken care of within {SECONDS} s")


# ---- 7 and 12: expressions ----

def expressions(members):
    """Members of a group, each with a regular expression of its own that is expensive to compile."""
    def play(attack):
        server, took = attack.server, []
        with attack.watched():
            for number in range(members):
                body = {"GroupId": f"expressions-{number // 80}", "MemberId": payloads.member_id(number), "MemberEpoch": 0, "RebalanceTimeoutMs": 60_000,
                        "SubscribedTopicNames": [], "SubscribedTopicRegex": payloads.expression(number), "TopicPartitions": []}
                one = attack.stranger()
                began = time.monotonic()
                attack.send(one, wire.frame(server.schema, "ConsumerGroupHeartbeat", 1, body))
                one.until(lambda s: s.answers, 60)
                took.append(time.monotonic() - began)
        quarter = max(1, min(members, 80) // 4)
        first, last = sum(took[:quarter]) / quarter, sum(took[-quarter:]) / quarter
        attack.figures.more = {"processor time": f"{attack.figures.cpu_seconds:.1f} s", "a heartbeat of the first quarter": f"{first * 1000:.0f} ms",
                               "of the last": f"{last * 1000:.0f} ms"}
        # An expression that others have had compiled is not compiled again.
        check(last <= 3 * first + (1 if attack.quick else 0.05), f"a heartbeat takes {last * 1000:.0f} ms if others have expressions, {first * 1000:.0f} if no member has")
    return play


def patterns(each):
    """ListTransactions with a pattern that is expensive to compile, pipelined on eight connections."""
    def play(attack):
        request = wire.frame(attack.server.schema, "ListTransactions", 2, {"TransactionalIdPattern": payloads.expression(0), "DurationFilter": -1})
        strangers = [attack.stranger() for _ in range(8)]
        with attack.watched():
            for one in strangers:
                attack.send(one, request * each)
            attack.until(lambda: all(one.answers == each or one.closed for one in strangers), SECONDS)
        attack.figures.more = {"processor time": f"{attack.figures.cpu_seconds:.1f} s"}
    return play


# ---- 8: HTTP ----

def silent_http(reconnecting):
    """Silent connections. A probe of /healthz must be answered within a second, on a noisy machine within
    five."""
    def play(attack):
        within = 5 if attack.quick else 1
        count = 200 if reconnecting else 64
        where, late, asked = attack.server.http, 0, 8 if attack.quick else 16
        with attack.watched(left=False):
            silent = []
            for _ in range(count):
                silent.append(attack.stranger(where))
            end = time.monotonic() + (4 if attack.quick else 20)
            slowest, probes = 0, 0
            while time.monotonic() < end and probes < asked:
                if reconnecting:
                    for number, one in enumerate(silent):
                        if one.closed:
                            one.close()
                            silent[number] = attack.stranger(where)
                status, took = wire.http_get(where, seconds=within)
                probes += 1
                late += status != 200
                slowest = max(slowest, took)
        attack.figures.more = {"probes of /healthz": f"{probes}, {late} without an answer within {within} s", "slowest": f"{slowest * 1000:.0f} ms"}
        check(not late, f"{late} of {probes} probes of /healthz had no answer within {within} s")
    return play


# ---- 9: what is logged ----

USERS = """no_auth_user = "guest"
[[users]]
user = "guest"
password = "of no importance"
publish = { allow = ["probe.>"] }
subscribe = { allow = ["probe.>"] }
"""


def users_file():
    path = os.path.join(os.environ["ATTACKS_WORK"], "users.toml")
    with open(path, "w") as file:
        file.write(USERS)
    return [f"tailrace.nats.users.file={path}"]


def refused(line):
    """Lines that the server refuses, sent as fast as possible, with control bytes in them."""
    def play(attack):
        seconds = 1 if attack.quick else 3
        before = attack.server.log.stat().st_size
        one = attack.nats()
        with attack.watched():
            began, sent, chunk = time.monotonic(), 0, line * 500
            one.socket.settimeout(5)
            while time.monotonic() - began < seconds:
                one.socket.sendall(chunk)
                sent += len(chunk)
            one.socket.sendall(b"PING\r\n")
            wire.nats_done(one, SECONDS)
        attack.figures.sent = sent
        with open(attack.server.log, "rb") as file:
            file.seek(before)
            logged = file.read()
        raw = {name: logged.count(byte) for name, byte in (("ESC", b"\x1b"), ("CR", b"\r"), ("other control bytes", b"\x07")) if byte in logged}
        attack.figures.more = {"log": f"{len(logged) / seconds / MIB:.1f} MiB/s for {sent / seconds / MIB:.1f} sent", "raw in the log": raw or "nothing"}
        check(not raw, f"the log has raw {raw}")
    return play


# ---- 10 and 12: what the server holds for clients that do not read, or send little ----

def unread_offsets(connections, each):
    """A group's 200 positions with 4 KB of metadata each, named again and again in a frame of 8 KB. The
    client does not read."""
    def play(attack):
        server, topic, group = attack.server, "o", "g"
        server.create(topic, 200)
        note = "n" * 4000
        for begin in range(0, 200, 50):
            partitions = [{"PartitionIndex": begin + at, "CommittedOffset": 1, "CommittedMetadata": note} for at in range(50)]
            body = {"GroupId": group, "GenerationIdOrMemberEpoch": -1, "Topics": [{"Name": topic, "Partitions": partitions}]}
            server.call("OffsetCommit", 8, body)
        body = {"Groups": Many({"GroupId": group, "Topics": None}), "RequireStable": False}
        request = wire.frame(server.schema, "OffsetFetch", 8, body, frame_bytes=8 * 1024)
        unread_answers(attack, request * each, connections)
    return play


def unread_groups(connections, each):
    """A group whose only member has 500 KB of metadata, described again and again. The client does not read."""
    def play(attack):
        server, group = attack.server, "m"
        protocols = [{"Name": "range", "Metadata": bytes(500_000)}]
        body = {"GroupId": group, "SessionTimeoutMs": 1_800_000, "RebalanceTimeoutMs": 1_800_000, "ProtocolType": "consumer", "Protocols": protocols}
        answer = server.call("JoinGroup", 3, body)
        check(answer["ErrorCode"] == 0, f"join: {answer['ErrorCode']}")
        request = wire.frame(server.schema, "DescribeGroups", 5, {"Groups": Many(group)}, frame_bytes=8 * 1024)
        unread_answers(attack, request * each, connections)
    return play


def unread_answers(attack, requests, connections):
    strangers = [attack.stranger(reads=False) for _ in range(connections)]
    with attack.watched():
        for one in strangers:
            attack.send(one, requests)
        time.sleep(2 if attack.quick else 8)
        held = (attack.server.tell("peek")["resident_now"] - attack.server.baseline) / MIB
    metric = attack.figures.metric
    attack.figures.more = {"held while unread": f"{held:.0f} MiB"}
    check(held - metric < BESIDE_MIB, f"{held:.0f} MiB are held, and the metric says {metric:.0f}")


def unread(attack):
    """20 connections, 50 DescribeConfigs of 16 KB on each. An answer has some tens of MB, and the clients do
    not read."""
    topic = "d"
    attack.server.create(topic)
    body = {"Resources": Many({"ResourceType": 2, "ResourceName": topic, "ConfigurationKeys": None}), "IncludeSynonyms": True, "IncludeDocumentation": True}
    unread_answers(attack, wire.frame(attack.server.schema, "DescribeConfigs", 3, body, frame_bytes=16 * 1024) * 50, 20)


def small_frames(connections):
    """This many connections that each hold nearly 64 KiB of an unfinished frame."""
    def play(attack):
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = min(connections, soft - 500)
        piece = struct.pack(">ihhih", 65_500, 18, 0, 1, -1) + bytes(65_000)
        open_ones = []
        try:
            with attack.watched():
                for _ in range(count):
                    one = socket.create_connection(wire.address(attack.server.kafka), timeout=5)
                    open_ones.append(one)
                    try:
                        one.sendall(piece)
                    except OSError:
                        pass
                    attack.figures.sent += len(piece)
                time.sleep(1)
                for one in open_ones:
                    one.close()
        finally:
            for one in open_ones:
                one.close()
        attack.figures.more = {"connections": count}
    return play


def per_address(which):
    """max.connections.per.ip is 100: of 150 connections from one address, a third is refused."""
    def play(attack):
        where = getattr(attack.server, which)
        served, seconds = 0, 3
        greeting = {"nats": b"PING\r\n", "http": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "kafka": wire.frame(attack.server.schema, "ApiVersions", 0)}[which]
        strangers = []
        with attack.watched(left=False):
            for _ in range(150):
                one = attack.stranger(where)
                strangers.append(one)
                attack.send(one, greeting)
            # A refusal is a few bytes, or a close. INFO of NATS has more.
            least = {"nats": 200, "http": 300, "kafka": 1}[which]
            attack.until(lambda: all(one.received >= least or one.closed for one in strangers), seconds)
            served = sum(one.received >= least and not one.closed for one in strangers)
        attack.figures.more = {"served of 150": served}
        check(served <= 100, f"{served} connections of one address are served; max.connections.per.ip is 100")
    return play


def rebound(attack):
    """A page of a name that was rebound to this address: its origin is its host, and neither is ours."""
    port = attack.server.http.rsplit(":", 1)[1]
    said = {}
    with attack.watched(left=False):
        for host in ("attacker.example", "localhost", "127.0.0.1"):
            one = attack.stranger(attack.server.http)
            attack.send(one, f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
            one.until(lambda s: s.received, 10)
            time.sleep(0.05)
            said[host] = b"INFO" in one.tail or one.received > 200
    attack.figures.more = {"admitted": ", ".join(host for host, admitted in said.items() if admitted) or "nobody"}
    check(not said["attacker.example"], "a page of another name than this server's is admitted, though no origins are listed")
    check(said["localhost"] and said["127.0.0.1"], f"pages of this server are refused: {said}")


# ---- 13: live delivery ----

TOO_LARGE = 'tailrace_nats_live_undeliverable_records_total{reason="too_large"}'


def live(attack):
    """Each batch has a record with millions of headers, which a NATS message would have as lines. A
    subscriber hears of all topics."""
    server, partitions = attack.server, 2 if attack.quick else 16
    batch = payloads.header_bomb()
    server.create("live", partitions)
    listener = attack.nats()
    attack.send(listener, b"SUB > 1\r\n")
    # The prober's messages come on the same connection and would hide a PONG.
    listener.sender.join(30)
    time.sleep(1)  # by then the subscription exists
    came_to = 0

    def all_offered():
        nonlocal came_to
        time.sleep(0.1)
        came_to = max(came_to, metric(server, TOO_LARGE))
        return came_to >= TWO * partitions

    all_at_once(attack, produce_request(server, "live", batch, partitions), then=all_offered)
    attack.figures.more = {"a batch": f"{len(batch):,} B", "found too large": f"{came_to:.0f} of {TWO * partitions}"}
    check(came_to == TWO * partitions, f"{came_to:.0f} of {TWO * partitions} records were offered to the subscriber, and found too large")


def metric(server, name):
    """The value of a metric. 0 if there is none, or no answer."""
    try:
        with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except (OSError, http.client.HTTPException):
        return 0
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


# ---- 14: batches that are recompressed ----

def recompressed(attack, partitions=40):
    """Text to a topic that compresses as well as zstd can. A request on each of two connections, repeated for
    a second."""
    server, batch = attack.server, payloads.text_batch()
    server.create("recompressed", partitions, {"compression.type": "zstd", "compression.zstd.level": "22"})
    request = produce_request(server, "recompressed", batch, partitions)
    asked = {attack.stranger(): 0 for _ in range(TWO)}

    def all_answered():
        for one, count in asked.items():
            if one.answers == count and time.monotonic() < ends:
                attack.send(one, request)
                asked[one] = count + 1
        return time.monotonic() >= ends and all(one.answers == count or one.closed for one, count in asked.items())

    with attack.watched():
        ends = time.monotonic() + 1
        attack.until(all_answered, SECONDS)
    attack.figures.more = {"requests": sum(asked.values()), "a batch": f"{len(batch):,} B"}


def cells(Cell):
    noisy = b"PUB \x1b[31mred\x1b]0;title\x07\rover.##### 0\r\n\r\n"
    return [
        Cell("row 1: zstd, 2 KB to 64 MiB, 40 in each of 2 requests", inflate(payloads.zstd_bomb), quick=True),
        Cell("row 1: gzip, 31 KB to 30 MiB, 40 in each of 2 requests", inflate(payloads.gzip_bomb)),
        Cell("row 1: lz4, 31 KB to 7 MiB, 40 in each of 2 requests", inflate(payloads.lz4_bomb)),
        Cell("row 2: 12 bytes announce three huge frames", announced, quick=True),
        Cell("row 3: 20 JoinGroups of 20 MB with 100 useful bytes", kept_slices("JoinGroup", 3)),
        Cell("row 3: 20 SyncGroups of 20 MB with 100 useful bytes", kept_slices("SyncGroup", 3)),
        Cell("row 4: 4 Fetches of 16 MB, an empty partition a million times", fetch_repeated(16, 4, "empty")),
        Cell("row 4: 4 Fetches of 16 MB, a partition that is written to", fetch_repeated(16, 4, "written to")),
        Cell("row 4: 2 Fetches of 8 MB, a partition of one batch", fetch_repeated(8, 2, "one batch")),
        Cell("row 4: 2 Fetches of 1 MB, a partition of one batch", fetch_repeated(1, 2, "one batch"), quick=True),
        Cell("row 5: 2 DeleteTopics of 2.6 million unknown names, 23 MB", delete_unknown(2_600_000)),
        Cell("row 5: 2 DeleteTopics of 200,000 unknown names, 2 MB", delete_unknown(200_000), quick=True),
        Cell("row 5: 2 ListOffsets of 45 MB, the same partition", list_offsets("same")),
        Cell("row 5: 2 ListOffsets of 45 MB, a topic each time", list_offsets("other")),
        Cell("row 6: 65,536 subscriptions {a,*}^16.zz, 200 publishes", wide_subscriptions(16, 200)),
        Cell("row 6: 262,144 subscriptions {a,*}^18.zz, 60 publishes", wide_subscriptions(18, 60)),
        Cell("row 6: 4,096 subscriptions {a,*}^12.zz, 1,000 publishes", wide_subscriptions(12, 1000), quick=True),
        Cell("row 6: 150 connections with 64 shapes each, 1,000 publishes", shapes_of_many(150, 64, 1000)),
        Cell("row 7: 10 members with a regular expression each", expressions(10), quick=True),
        Cell("row 7: 40 members with a regular expression each", expressions(40)),
        Cell("row 7: 240 members with a regular expression each", expressions(240)),
        Cell("row 8: 64 silent HTTP connections", silent_http(False), quick=True),
        Cell("row 8: 200 silent HTTP connections that reconnect", silent_http(True)),
        Cell("row 9: refused publishes with control bytes", refused(noisy), quick=True, settings=users_file),
        Cell("row 9: refused subscriptions with control bytes", refused(b"SUB \x1b[31mred\x1b]0;title\x07\rover.##### 1\r\n"), settings=users_file),
        Cell("row 10: 20 connections, 50 DescribeConfigs each, unread", unread),
        Cell("row 10: 20 connections, 200 committed offsets requested repeatedly, unread", unread_offsets(20, 50)),
        Cell("row 10: 2 connections, 200 committed offsets requested repeatedly, unread", unread_offsets(2, 2), quick=True),
        Cell("row 10: 20 connections, a group of 500 KB described repeatedly, unread", unread_groups(20, 50)),
        Cell("row 11: 50,000 subscriptions to one subject, 800 messages", fan_out(True), quick=True),
        Cell("row 11: the same, and the subscriber does not read", fan_out(False)),
        Cell("row 12: 10,000 connections with 64 KiB of a frame each", small_frames(10_000)),
        Cell("row 12: NATS connections of one address", per_address("nats"), quick=True, settings=lambda: ["max.connections.per.ip=100"]),
        Cell("row 12: WebSockets of one address", per_address("http"), settings=lambda: ["max.connections.per.ip=100"]),
        Cell("row 12: Kafka connections of one address", per_address("kafka"), settings=lambda: ["max.connections.per.ip=100"]),
        Cell("row 12: 80 ListTransactions with a pattern", patterns(10), quick=True),
        Cell("row 12: 480 ListTransactions with a pattern", patterns(60)),
        Cell("row 12: a page of a rebound name", rebound, quick=True),
        Cell("row 13: a subscriber to >, 2 Produces of 16 zstd batches, 2 KB to 33 million headers", live, quick=True),
        Cell("row 14: text in 40 gzip batches of 16 KB, recompressed by zstd at level 22", recompressed),
    ]
