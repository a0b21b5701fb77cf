"""Every API of Kafka and every verb of NATS with items repeated up to the frame's size.

The requests are made from the definitions by themselves: each array of each API is repeated, its ancestors have one element. `same` names one
thing that exists again and again, `other` another one each time, which does not. Then what may stand in any frame: bytes behind the body, unknown tagged
fields, a long text. What the table (apis.py) lacks is a failure of its own.
"""
import re
import apis, payloads, wire
from measure import TOPIC, check
from rows import SECONDS, TWO, all_at_once
from wire import MIB, Many

SCALARS = set(wire.TYPES.values())


def inside(field, version):
    return wire.kproto.inr(version, field["versions"])


def arrays(fields, version, above=()):
    """The paths of all arrays at a version, outermost first."""
    for field in fields:
        if not inside(field, version):
            continue
        path = above + (field["name"],)
        if field["type"].startswith("[]"):
            yield path
        if field.get("fields"):
            yield from arrays(field["fields"], version, path)


def texts(definition, version):
    """The first text that has no bound of its own."""
    return next((f["name"] for f in definition["fields"] if f["type"] == "string" and inside(f, version) and "tag" not in f), None)


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
            if on_the_way:
                return [self.one(field, kind, path)]
            return None if field["nullableVersions"] != "none" and wire.kproto.inr(self.version, field["nullableVersions"]) else []
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


def values_of(api, how, server):
    values = dict(apis.VALUES if how == "same" else apis.DISTINCT)
    values |= apis.KAFKA[api].get("values", {})
    values["#records"] = payloads.batch(b"v")
    if how == "same":
        values["TopicId"] = wire.kproto.uuid.UUID(server.topic_id).bytes
    return values


def request(server, api, version, path, how, frame_bytes):
    definition = server.schema.request(api)
    body = Body(values_of(api, how, server), version, path).of(definition["fields"])
    return wire.frame(server.schema, api, version, body, frame_bytes=frame_bytes)


def plain(server, api, version):
    """A body with no items, for what stands around or behind it."""
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
    """Unknown tagged fields without content, as many as fit: their numbers must rise, five bytes each and one for the length."""
    def play(attack):
        count = frame_bytes // 6
        first = 1 << 28
        fields = b"".join([wire.kproto.uvarint(first + number) + b"\0" for number in range(count)])
        server = attack.server
        all_at_once(attack, wire.frame(server.schema, api, version, plain(server, api, version), tags=wire.kproto.uvarint(count) + fields))
    return play


def long_text(api, version, name, frame_bytes):
    def play(attack):
        server = attack.server
        body = plain(server, api, version)
        flexible = wire.Codec(server.schema.request(api), version).flex
        body[name] = "x" * (frame_bytes if flexible else 32_000)
        all_at_once(attack, wire.frame(server.schema, api, version, body))
    return play


def kafka_cells(Cell, frame_bytes, quick):
    schema = wire.Schema()
    for api, entry in apis.KAFKA.items():
        definition = schema.request(api)
        last = wire.kproto.vrange(definition["validVersions"])[1]
        versions = entry.get("versions", (last,))
        for version in versions:
            for number, path in enumerate(arrays(definition["fields"], version)):
                for how in ("same", "other"):
                    name = f"sweep: {api} v{version}, {'.'.join(path)}, {how} each time"
                    # What is quick goes through the outermost array of every API.
                    brief = number == 0 and version == versions[-1] and how == "other"
                    yield Cell(name, repeated(api, version, path, how, frame_bytes), quick=brief, shares=True)
        bare = not any(True for _ in arrays(definition["fields"], last))
        yield Cell(f"sweep: {api} v{versions[-1]}, bytes behind the body", trailing(api, versions[-1], frame_bytes), quick=bare, shares=True)
        if wire.Codec(definition, versions[-1]).flex:
            yield Cell(f"sweep: {api} v{versions[-1]}, unknown tagged fields", tags(api, versions[-1], frame_bytes), shares=True)
        text = texts(definition, versions[-1])
        if text:
            yield Cell(f"sweep: {api} v{versions[-1]}, a long {text}", long_text(api, versions[-1], text, frame_bytes), shares=True)


# ---- NATS ----

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
            attack.until(lambda: all(one.closed or not one.sender.is_alive() and wire.nats_done(one, 0) for one in strangers), SECONDS)
    return play


def nats_cells(Cell, frame_bytes):
    for name, ways in apis.NATS.items():
        for number, (way, what) in enumerate(ways.items()):
            yield Cell(f"sweep: {name}, {way}", verb(what, frame_bytes), quick=number == 0, shares=True)


# ---- the table is whole ----

def all_apis(attack):
    """What ApiVersions names is in the table, and the other way round."""
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


def all_verbs(attack):
    text = (wire.ROOT / "crates/nats-wire/src/client_op.rs").read_text()
    known = set(re.findall(r'\(b"([^"]+)", Self::\w+\)', text))
    check(known, "the parser's table of verbs is not found")
    check(known == apis.NATS.keys(), f"verbs: the parser has {sorted(known)}, apis.py {sorted(apis.NATS)}")
    attack.figures.more = {"verbs": len(known)}


def cells(Cell, frame_mib, quick):
    frame_bytes = frame_mib * MIB
    return [
        Cell("sweep: every API is in the table", all_apis, quick=True, shares=True),
        Cell("sweep: every verb is in the table", all_verbs, quick=True, shares=True),
        *kafka_cells(Cell, frame_bytes, quick),
        *nats_cells(Cell, frame_bytes),
    ]
