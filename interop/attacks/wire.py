"""Frames that no client sends, of any API, from the messages that `cargo xtask codegen` wrote for the server.

It reads the definitions from the generated Rust (crates/kafka-wire/src/messages), which names every field
with its versions. So it needs only the checkout, and a request has exactly the fields that this server reads.
`Many` stands for an array of many items. They are encoded once and repeated, so that a frame of millions of
them takes no time.
"""
import re, socket, struct, sys, threading, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "interop/raw"))
import kproto  # noqa: E402

MIB = 1 << 20
# Eight of these in an item, as text or in a number, become the item's number; four in a number of four bytes.
MARK = "########"
MARK_INT32, MARK_INT64 = 0x23232323, 0x2323232323232323

# ---- definitions ----

HEAD = re.compile(r"//! `(\w+)`: API key (\d+), versions? (\d+)(?: to (\d+))?, (?:flexible from (\d+)|never flexible)\.")
STRUCT = re.compile(r"pub struct (\w+) \{(.*?)\n\}", re.S)
FIELD = re.compile(r"/// Field `(\w+)`([^\n]*)\.\n(?:\s*#\[[^\n]*\n)*\s*pub (?:r#)?\w+: ([^\n]+),(?:\n|$)")
TYPES = {"String": "string", "bool": "bool", "i8": "int8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64",
         "f64": "float64", "[u8; 16]": "uuid", "Bytes": "bytes", "Records": "records"}


def definition(path):
    """Reads one message, and returns it in the form of Kafka's own definitions, which kproto reads."""
    text = path.read_text()
    name, key, low, high, flexible = HEAD.search(text).groups()
    high = high or low
    structs = {s: body for s, body in STRUCT.findall(text)}

    def fields(struct):
        return [field(*found) for found in FIELD.findall(structs[struct])]

    def field(field_name, facts, rust):
        optional = re.fullmatch(r"Option<(.*)>", rust)
        rust = optional[1] if optional else rust
        inner = re.fullmatch(r"Vec<(.*)>", rust)
        inner = inner[1] if inner else rust
        array = "[]" if inner != rust else ""
        versions = re.search(r"(?<!nullable in )versions? (\d+)(?: to (\d+))?", facts)
        versions = f"{versions[1]}-{versions[2] or versions[1]}" if versions else f"{low}-{high}"
        out = {"name": field_name, "versions": versions, "type": array + TYPES.get(inner, inner), "nullableVersions": "none"}
        nullable = re.search(r"nullable in versions? (\d+)(?: to (\d+))?", facts)
        if nullable:
            out["nullableVersions"] = f"{nullable[1]}-{nullable[2] or nullable[1]}"
        elif optional:
            out["nullableVersions"] = versions
        tag = re.search(r"tag (\d+)", facts)
        if tag:
            out["tag"], out["taggedVersions"] = int(tag[1]), versions
        default = re.search(r"by default (\S+?)(?:,|$)", facts)
        if default:
            out["default"] = default[1]
        elif optional and not array:
            out["default"] = "null"
        if inner not in TYPES:
            out["fields"] = fields(inner)
        return out

    return {"name": name, "apiKey": int(key), "type": "request" if name.endswith("Request") else "response", "validVersions": f"{low}-{high}",
            "flexibleVersions": f"{flexible}+" if flexible else "none", "fields": fields(name)}


class Schema:
    """Every request and response of the server, with the methods that `kproto.Conn` expects of a schema."""

    def __init__(self, folder=ROOT / "crates/kafka-wire/src/messages"):
        self.requests, self.responses, self.keys = {}, {}, {}
        for path in sorted(folder.glob("*_re*.rs")):
            one = definition(path)
            (self.requests if one["type"] == "request" else self.responses)[one["apiKey"]] = one
            if one["type"] == "request":
                self.keys[one["name"].removesuffix("Request")] = one["apiKey"]

    def key(self, name):
        return self.keys[name]

    def request(self, name):
        return self.requests[self.keys[name]]


# ---- bodies ----

class Many:
    """An array of `count` times one item, or of as many as fit the frame. Marks in it are numbered."""

    def __init__(self, item, count=None):
        self.item, self.count = item, count

    def repeated(self, item):
        parts = re.split(rb"(#{8}|#{4})", item)
        if len(parts) == 1:
            return item * self.count
        if len(parts) == 3 and len(parts[1]) == 8:
            template = parts[0].replace(b"%", b"%%") + b"%08x" + parts[2].replace(b"%", b"%%")
            return b"".join([template % number for number in range(self.count)])
        out = []
        for number in range(self.count):
            parts[1::2] = [b"%08x" % number if len(mark) == 8 else struct.pack(">i", number) for mark in parts[1::2]]
            out.append(b"".join(parts))
        return b"".join(out)


class Codec(kproto.Codec):
    # Space that `Many` without a count leaves for the rest of the frame.
    REST_BYTES = 1024

    def __init__(self, definition, version, frame_bytes=MIB):
        super().__init__(definition, version)
        self.frame_bytes = frame_bytes

    def _w(self, out, field, kind, value):
        if not isinstance(value, Many):
            return super()._w(out, field, kind, value)
        one = bytearray()
        super()._w(one, {**field, "nullableVersions": "none"}, kind[2:], value.item)
        # An item without bytes is not legal anywhere.
        if value.count is None:
            value.count = max(1, (self.frame_bytes - self.REST_BYTES) // max(1, len(one)))
        self._len(out, value.count, self.flex and field.get("flexibleVersions") != "none", False)
        out += value.repeated(bytes(one))


def frame(schema, name, version, body=None, *, trailing=b"", tags=b"", frame_bytes=MIB):
    """A request after its length. `tags` replaces the empty list of tagged fields at the body's end."""
    definition = schema.request(name)
    codec = Codec(definition, version, frame_bytes)
    content = codec.encode(body or {})
    if tags:
        assert codec.flex and content.endswith(b"\0"), name
        content = content[:-1] + tags
    head = struct.pack(">hhih", definition["apiKey"], version, 1, -1) + (b"\0" if codec.flex else b"")
    return struct.pack(">i", len(head) + len(content) + len(trailing)) + head + content + trailing


# ---- connections ----

def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


class Stranger:
    """A connection that sends what it is told to. It counts and drops all answers, or does not read at all."""

    def __init__(self, where, reads=True, seconds=30):
        self.socket = socket.create_connection(address(where), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received, self.closed, self.tail = 0, False, b""
        # Counts whole answers, if it is Kafka that answers: the rest of the current one, and the bytes of an
        # incomplete length.
        self.answers, self._left, self._length = 0, 0, b""
        self.sender = None
        self.reader = threading.Thread(target=self._read, daemon=True) if reads else None
        if self.reader:
            self.reader.start()

    def _read(self):
        buffer = bytearray(256 * 1024)
        try:
            while count := self.socket.recv_into(buffer):
                self.received += count
                self._count(buffer, count)
                self.tail = (self.tail + bytes(buffer[max(0, count - 64):count]))[-64:]
        except OSError:
            pass
        self.closed = True

    def _count(self, buffer, count):
        at = 0
        while at < count:
            if not self._left:
                take = min(4 - len(self._length), count - at)
                self._length += buffer[at:at + take]
                at += take
                if len(self._length) < 4:
                    return
                self._left, self._length = struct.unpack(">I", self._length)[0], b""
            step = min(self._left, count - at)
            self._left -= step
            at += step
            self.answers += not self._left

    def send(self, *data):
        """Sends in the background: the server may stop reading."""
        def run():
            try:
                for one in data:
                    self.socket.sendall(one)
            except OSError:
                pass
        self.sender = threading.Thread(target=run, daemon=True)
        self.sender.start()

    def until(self, condition, seconds):
        """Waits until the condition holds, or the connection is closed. Returns whether it holds."""
        end = time.monotonic() + seconds
        while not condition(self):
            if self.closed or time.monotonic() > end:
                return condition(self)
            time.sleep(0.005)
        return True

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


def nats(where, reads=True, connect='{"verbose":false,"headers":true,"protocol":0}', seconds=30):
    """A connection to NATS that has said CONNECT."""
    one = Stranger(where, reads, seconds)
    one.socket.sendall(f"CONNECT {connect}\r\n".encode())
    return one


def nats_done(stranger, seconds):
    """Waits until everything sent before is processed: the last PING has its PONG."""
    return stranger.until(lambda s: s.tail.endswith(b"PONG\r\n"), seconds)


def http_get(where, path="/healthz", seconds=5):
    """The status of one request on a connection of its own, and its duration in seconds. None if there was no
    answer in time."""
    began = time.monotonic()
    try:
        with socket.create_connection(address(where), timeout=seconds) as one:
            one.sendall(f"GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n".encode())
            head = one.recv(4096)
    except OSError:
        head = b""
    status = int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else None
    return status, time.monotonic() - began
