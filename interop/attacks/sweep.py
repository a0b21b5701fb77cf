"""Every API of Kafka and every verb of NATS with items repeated up to the frame's size.

The requests follow from the definitions: each array of each API is repeated, and its ancestors have one
element. `same` repeats the name of one thing that exists; `other` names another one each time, which does not
exist. Then come things that any frame may have: bytes after the body, and unknown tagged fields. Anything
missing from the table (apis.py) is a failure of its own.
"""
import itertools, re, time, urllib.request
import apis, payloads, wire
from measure import TOPIC, check
from rows import SECONDS, TWO, all_at_once, join
from wire import MIB, Many

SCALARS = set(wire.TYPES.values())
NUMBERS = itertools.count()


def inside(field, version):
    return wire.kproto.inr(version, field["versions"])


def arrays(fields, version, above=()):
    """Yields the paths of all arrays at a version, outermost first."""
    for field in fields:
        if not inside(field, version):
            continue
        path = above + (field["name"],)
        if field["type"].startswith("[]"):
            yield path
        if field.get("fields"):
            yield from arrays(field["fields"], version, path)


class Body:
    """A request's content around one array."""

    def __init__(self, values, version, path):
        self.values, self.version, self.path = values, version, path

    def of(self, fields, above=()):
        return {f["name"]: self.value(f, above + (f["name"],)) for f in fields if inside(f, self.version) and self.wanted(f, above + (f["name"],))}

    def wanted(self, field, path):
        """Tagged fields only on the way to the array; everything else always."""
        return "tag" not in field or self.path[:len(path)] == path

    def value(self, field, path):
        kind = field["type"].removeprefix("[]")
        on_the_way = self.path[:len(path)] == path
        if field["type"].startswith("[]"):
            if path == self.path:
                return Many(self.one(field, kind, path))
            if not on_the_way and isinstance(self.values.get(field["name"]), list):
                return self.values[field["name"]]
            nullable = field["nullableVersions"] != "none" and wire.kproto.inr(self.version, field["nullableVersions"])
            # A repeated item has one of everything, or there would be nothing to look up in it.
            if on_the_way or path[:len(self.path)] == self.path != () and not nullable:
                return [self.one(field, kind, path)]
            return None if nullable else []
        if kind not in SCALARS and not on_the_way and field["nullableVersions"] != "none":
            return None
        return self.one(field, kind, path)

    def one(self, field, kind, path):
        if kind not in SCALARS:
            return self.of(field["fields"], path)
        if field["name"] in self.values:
            value = self.values[field["name"]]
            if fits(kind, value) or value is None and field["nullableVersions"] != "none":
                return value
        if kind == "records":
            return self.values["#records"]
        return wire.Codec({"fields": []}, self.version)._default({**field, "type": kind})


def fits(kind, value):
    if isinstance(value, bool) or kind == "bool":
        return isinstance(value, bool) and kind == "bool"
    if isinstance(value, int):
        bits = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}.get(kind, 0)
        return value < 1 << bits - 1 if bits else False
    return isinstance(value, bytes) and kind == "uuid" or isinstance(value, str) and kind == "string"


# ---- what exists before ----

def member(server, name):
    """A classic group with one member, which sends the request."""
    member_id, generation = join(server, name)
    return {"GroupId": name, "MemberId": member_id, "GenerationId": generation}


def committed(server, name):
    """A group that has only an offset."""
    body = {"GroupId": name, "GenerationIdOrMemberEpoch": -1, "Topics": [{"Name": TOPIC, "Partitions": [{"PartitionIndex": 0}]}]}
    server.call("OffsetCommit", 8, body)
    return {"GroupId": name}


def sharer(server, name, then=()):
    """A share group with one member, which sends the request."""
    member_id = payloads.member_id(next(NUMBERS))
    for epoch in (0, *then):
        answer = server.call("ShareGroupHeartbeat", 1, {"GroupId": name, "MemberId": member_id, "MemberEpoch": epoch, "SubscribedTopicNames": [TOPIC]})
        check(answer["ErrorCode"] == 0, f"a share group: {answer}")
    return {"GroupId": name, "MemberId": member_id}


def shared(server, name):
    """A share group whose member has gone."""
    return {"GroupId": sharer(server, name, then=(-1,))["GroupId"]}


def transaction(server, name):
    """A producer that has not started a transaction yet."""
    answer = server.call("InitProducerId", 4, {"TransactionalId": name, "TransactionTimeoutMs": 10_000, "ProducerId": -1, "ProducerEpoch": -1})
    check(answer["ErrorCode"] == 0, f"a producer: {answer}")
    return {"TransactionalId": name, "V3AndBelowTransactionalId": name, "ProducerId": answer["ProducerId"], "V3AndBelowProducerId": answer["ProducerId"], "GroupId": name}


BEFORE = {one.__name__: one for one in (member, committed, sharer, shared, transaction)}


# ---- bodies ----

def values_of(api, how, server):
    entry = apis.KAFKA[api]
    values = dict(apis.VALUES if how == "same" else apis.DISTINCT)
    values["#records"] = payloads.batch(b"v")
    if how == "same":
        values["TopicId"] = wire.kproto.uuid.UUID(server.topic_id).bytes
    values |= {name: f"sweep-{next(NUMBERS)}" if value == apis.UNIQUE else value for name, value in entry.get("values", {}).items()}
    if "before" in entry:
        values |= BEFORE[entry["before"]](server, f"sweep-{next(NUMBERS)}")
    return values


def request(server, api, version, path, how, frame_bytes):
    definition = server.schema.request(api)
    body = Body(values_of(api, how, server), version, path).of(definition["fields"])
    return wire.frame(server.schema, api, version, body, frame_bytes=frame_bytes)


def plain(server, api, version):
    """A body without items, for what is around or after it."""
    definition = server.schema.request(api)
    return Body(values_of(api, "same", server), version, ()).of(definition["fields"])


def repeated(api, version, path, how, frame_bytes):
    def play(attack):
        all_at_once(attack, request(attack.server, api, version, path, how, frame_bytes))
    return play


def trailing(api, version, frame_bytes):
    def play(attack):
        server = attack.server
        all_at_once(attack, wire.frame(server.schema, api, version, plain(server, api, version), trailing=bytes(frame_bytes)))
    return play


def tags(api, version, frame_bytes):
    """Unknown tagged fields, as many as fit: their numbers must rise. With four bytes each they stay below
    the limit of decoding, 16 times the frame."""
    def play(attack):
        count, first = frame_bytes // 10, 1 << 28
        fields = b"".join([wire.kproto.uvarint(first + number) + b"\4tags" for number in range(count)])
        server = attack.server
        all_at_once(attack, wire.frame(server.schema, api, version, plain(server, api, version), tags=wire.kproto.uvarint(count) + fields))
    return play


def kafka_cells(Cell, frame_bytes):
    schema = wire.Schema()
    for api, entry in apis.KAFKA.items():
        definition = schema.request(api)
        last = wire.kproto.vrange(definition["validVersions"])[1]
        versions = entry.get("versions", (last,))
        for version in versions:
            for number, path in enumerate(arrays(definition["fields"], version)):
                for how in ("same", "other"):
                    name = f"sweep: {api} v{version}, {'.'.join(path)}, {how} each time"
                    # Quick cells go through the outermost array of every API.
                    brief = number == 0 and version == versions[-1] and how == "other"
                    yield Cell(name, repeated(api, version, path, how, frame_bytes), quick=brief, shares=True)
        bare = not any(True for _ in arrays(definition["fields"], last))
        yield Cell(f"sweep: {api} v{versions[-1]}, bytes behind the body", trailing(api, versions[-1], frame_bytes), quick=bare, shares=True)
        if wire.Codec(definition, versions[-1]).flex:
            yield Cell(f"sweep: {api} v{versions[-1]}, unknown tagged fields", tags(api, versions[-1], frame_bytes), shares=True)


# ---- NATS ----

def quiet(stranger):
    """Waits until everything is sent, the last PING has its PONG, and nothing more comes."""
    if stranger.sender.is_alive() or not wire.nats_done(stranger, 0):
        return False
    before = stranger.received
    time.sleep(0.05)
    return stranger.received == before


def verb(what, total, connections=TWO):
    def play(attack):
        before, item = what if isinstance(what, tuple) else (b"", what)
        data = Many(None, max(1, total // len(item))).repeated(item)
        strangers = [attack.nats() for _ in range(connections)]
        for one in strangers:
            one.socket.sendall(before)
        with attack.watched():
            for one in strangers:
                attack.send(one, data, b"PING\r\n")
            attack.until(lambda: all(one.closed or quiet(one) for one in strangers), SECONDS)
    return play


def nats_cells(Cell, frame_bytes):
    for name, ways in apis.NATS.items():
        for number, (way, what) in enumerate(ways.items()):
            yield Cell(f"sweep: {name}, {way}", verb(what, frame_bytes), quick=number == 0, shares=True)


# ---- WebSocket ----

def websocket(what, total, connections=TWO):
    def play(attack):
        item = what() if callable(what) else what
        strangers = []
        for _ in range(connections):
            one = attack.stranger(attack.server.http)
            one.socket.sendall(payloads.UPGRADE)
            check(one.until(lambda s: s.received, 5) and not one.closed, "no WebSocket")
            strangers.append(one)
        # Items that inflate are bounded by their inflated size.
        data = item * max(1, min(total // len(item), 64 if callable(what) else total))
        with attack.watched():
            for one in strangers:
                attack.send(one, data, payloads.websocket_frame(b"PING\r\n"))
            attack.until(lambda: all(one.closed or quiet(one) for one in strangers), SECONDS)
    return play


def websocket_cells(Cell, frame_bytes):
    for number, (way, what) in enumerate(apis.WEBSOCKET.items()):
        yield Cell(f"sweep: WebSocket, {way}", websocket(what, frame_bytes), quick=number == 0, shares=True)


# ---- HTTP ----

def page(path):
    """Requests each page a hundred times on each of two connections, while one client has 20,000
    subscriptions."""
    def play(attack):
        other = attack.nats()
        other.send("".join(f"SUB page.{number}.* {number}\r\n" for number in range(20_000)).encode() + b"PING\r\n")
        check(wire.nats_done(other, 20), "the subscriptions are not taken")
        strangers = [attack.stranger(attack.server.http) for _ in range(TWO)]
        with attack.watched():
            for one in strangers:
                attack.send(one, f"GET {path} HTTP/1.1\r\nHost: sweep\r\n\r\n".encode() * 99 + f"GET {path} HTTP/1.1\r\nHost: sweep\r\nConnection: close\r\n\r\n".encode())
            attack.until(lambda: all(one.closed for one in strangers), SECONDS)
    return play


def http_cells(Cell):
    for path, ways in apis.HTTP.items():
        for number, way in enumerate(ways):
            yield Cell(f"sweep: HTTP {path}{way}", page(path + way), quick=number == 0 and path == "/metrics", shares=True)


def all_pages(attack):
    server = attack.server
    with urllib.request.urlopen(f"http://{server.http}/", timeout=10) as answer:
        listed = set(re.findall(r'href="([^"?]+)', answer.read().decode()))
    check(listed == apis.HTTP.keys(), f"pages: the server lists {sorted(listed)}, apis.py {sorted(apis.HTTP)}")
    attack.figures.more = {"pages": len(listed)}


# ---- the table is whole ----

def all_apis(attack):
    """Checks that the table has everything that ApiVersions names, and the other way round."""
    server = attack.server
    answer = server.call("ApiVersions", 3, {"ClientSoftwareName": "sweep", "ClientSoftwareVersion": "1"})
    named = {key: api for api, key in server.schema.keys.items()}
    served = {named.get(one["ApiKey"], f"key {one['ApiKey']}"): (one["MinVersion"], one["MaxVersion"]) for one in answer["ApiKeys"]}
    missing, gone = sorted(served.keys() - apis.KAFKA.keys()), sorted(apis.KAFKA.keys() - served.keys())
    check(not missing, f"ApiVersions names {', '.join(missing)}: to be entered in apis.py")
    check(not gone, f"ApiVersions does not name {', '.join(gone)}: to be taken out of apis.py")
    late = [f"{api} v{version}" for api, entry in apis.KAFKA.items() for version in entry.get("versions", ()) if not served[api][0] <= version <= served[api][1]]
    check(not late, f"versions that are not served: {', '.join(late)}")
    attack.figures.more = {"APIs": len(served)}


def all_requests(attack):
    """Checks that the server understands each request with a few items: the requests below may then be
    refused for their size only, and not for a fault of the sweep."""
    server, count, closed = attack.server, 0, []
    for api, entry in apis.KAFKA.items():
        definition = server.schema.request(api)
        for version in entry.get("versions", wire.kproto.vrange(definition["validVersions"])[1:]):
            for path in (*arrays(definition["fields"], version), ()):
                for how in ("same", "other"):
                    conn = wire.kproto.Conn(server.schema, server.kafka, 10)
                    conn.corr = 1
                    try:
                        conn.s.sendall(request(server, api, version, path, how, 1024 + 150))
                        conn.recv(api, version)
                    except (wire.kproto.Closed, TimeoutError) as error:
                        closed.append(f"{api} v{version} {'.'.join(path)} {how}: {error}")
                    finally:
                        conn.close()
                    count += 1
    attack.figures.more = {"requests": count}
    check(not closed, f"no answer to {closed}")


def all_verbs(attack):
    text = (wire.ROOT / "crates/nats-wire/src/client_op.rs").read_text()
    known = set(re.findall(r'\(b"([^"]+)", Self::\w+\)', text))
    check(known, "the parser's table of verbs is not found")
    check(known == apis.NATS.keys(), f"verbs: the parser has {sorted(known)}, apis.py {sorted(apis.NATS)}")
    attack.figures.more = {"verbs": len(known)}


def cells(Cell, frame_mib):
    frame_bytes = int(frame_mib * MIB)
    return [
        Cell("sweep: every API is in the table", all_apis, quick=True, shares=True),
        Cell("sweep: every request is understood", all_requests, quick=True),
        Cell("sweep: every verb is in the table", all_verbs, quick=True, shares=True),
        Cell("sweep: every page is in the table", all_pages, quick=True, shares=True),
        *kafka_cells(Cell, frame_bytes),
        *nats_cells(Cell, frame_bytes),
        *websocket_cells(Cell, frame_bytes),
        *http_cells(Cell),
    ]
