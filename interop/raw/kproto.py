"""A small Kafka protocol codec, driven by the message definitions inside the kafka-clients jar.

It encodes and decodes any request at any version, so that tests can send what no client would. It does not
know records: those fields are opaque bytes. Missing fields take the schema's defaults.
"""
import json, re, socket, struct, uuid, zipfile


class Schema:
    def __init__(self, jar):
        self.requests, self.responses, self.keys = {}, {}, {}
        with zipfile.ZipFile(jar) as z:
            for name in z.namelist():
                if not re.match(r"common/message/.*\.json$", name):
                    continue
                text = "\n".join(re.sub(r"^\s*//.*$", "", l) for l in z.read(name).decode().splitlines())
                text = re.sub(r"(?m)\s//(?=\s).*$", "", text)
                d = json.loads(text)
                if d["type"] == "request":
                    self.requests[d["apiKey"]] = d
                    self.keys[d["name"].removesuffix("Request")] = d["apiKey"]
                elif d["type"] == "response":
                    self.responses[d["apiKey"]] = d

    def key(self, name):
        return self.keys[name]

    def versions(self, name):
        return vrange(self.requests[self.key(name)]["validVersions"])


def vrange(s):
    if not s or s == "none":
        return (1, 0)
    if s.endswith("+"):
        return (int(s[:-1]), 32767)
    a, _, b = s.partition("-")
    return (int(a), int(b or a))


def inr(v, s):
    a, b = vrange(s)
    return a <= v <= b


FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}


class Codec:
    def __init__(self, d, version):
        self.d, self.v = d, version
        self.flex = inr(version, d.get("flexibleVersions", "none"))
        self.structs = {s["name"]: s["fields"] for s in d.get("commonStructs", [])}

    # ---- writing ----
    def encode(self, value):
        out = bytearray()
        self._wstruct(out, self.d["fields"], value)
        return bytes(out)

    def _fields_of(self, f, t):
        return f.get("fields") or self.structs.get(t)

    def _wstruct(self, out, fields, value):
        known = {f["name"] for f in fields}
        for k in value:
            assert k in known, f"no field {k} in {sorted(known)}"
        tags = []
        for f in fields:
            if not inr(self.v, f["versions"]):
                continue
            val = value[f["name"]] if f["name"] in value else self._default(f)
            if "tag" in f and inr(self.v, f.get("taggedVersions", "none")):
                if f["name"] in value:
                    b = bytearray()
                    self._w(b, f, f["type"], val)
                    tags.append((f["tag"], bytes(b)))
                continue
            self._w(out, f, f["type"], val)
        if self.flex:
            out += uvarint(len(tags))
            for t, b in sorted(tags):
                out += uvarint(t) + uvarint(len(b)) + b

    def _default(self, f):
        t, d = f["type"], f.get("default")
        if d == "null":
            return None
        if t.startswith("[]"):
            return []
        if t == "string":
            return d or ""
        if t in ("bytes", "records"):
            return b""
        if t == "uuid":
            return bytes(16)
        if t == "bool":
            return d in (True, "true")
        if t == "float64":
            return float(d or 0)
        if t in FIXED:
            return int(str(d), 0) if d is not None else 0
        return {}

    def _len(self, out, n, flex, short):
        if flex:
            out += uvarint(0 if n is None else n + 1)
        else:
            out += struct.pack(">h" if short else ">i", -1 if n is None else n)

    def _w(self, out, f, t, val):
        flex = self.flex and not (f.get("flexibleVersions") == "none")
        if t.startswith("[]"):
            self._len(out, None if val is None else len(val), flex, False)
            for e in val or []:
                self._w(out, {**f, "nullableVersions": "none"}, t[2:], e)
        elif t == "string":
            b = None if val is None else (val if isinstance(val, bytes) else val.encode())
            self._len(out, None if b is None else len(b), flex, True)
            out += b or b""
        elif t in ("bytes", "records"):
            self._len(out, None if val is None else len(val), flex, False)
            out += val or b""
        elif t == "uuid":
            out += uuid.UUID(val).bytes if isinstance(val, str) else val
        elif t in FIXED:
            out += struct.pack(">" + FIXED[t], val)
        else:
            nullable = inr(self.v, f.get("nullableVersions", "none"))
            if nullable:
                out += struct.pack(">b", -1 if val is None else 1)
                if val is None:
                    return
            self._wstruct(out, self._fields_of(f, t), val)

    # ---- reading ----
    def decode(self, data):
        r = R(data)
        v = self._rstruct(r, self.d["fields"])
        if r.p != len(data):
            v["__trailing"] = len(data) - r.p
        return v

    def _rstruct(self, r, fields):
        out, tagged = {}, {}
        for f in fields:
            if not inr(self.v, f["versions"]):
                continue
            if "tag" in f and inr(self.v, f.get("taggedVersions", "none")):
                tagged[f["tag"]] = f
                continue
            out[f["name"]] = self._r(r, f, f["type"])
        if self.flex:
            for _ in range(r.uvarint()):
                tag, size = r.uvarint(), r.uvarint()
                end = r.p + size
                if tag in tagged:
                    out[tagged[tag]["name"]] = self._r(r, tagged[tag], tagged[tag]["type"])
                else:
                    out.setdefault("__tags", {})[tag] = r.take(size).hex()
                assert r.p == end
        return out

    def _rlen(self, r, flex, short):
        if flex:
            n = r.uvarint()
            return None if n == 0 else n - 1
        n = r.fixed(">h" if short else ">i")
        return None if n < 0 else n

    def _r(self, r, f, t):
        flex = self.flex and not (f.get("flexibleVersions") == "none")
        if t.startswith("[]"):
            n = self._rlen(r, flex, False)
            f = {**f, "nullableVersions": "none"}
            return None if n is None else [self._r(r, f, t[2:]) for _ in range(n)]
        if t == "string":
            n = self._rlen(r, flex, True)
            return None if n is None else r.take(n).decode()
        if t in ("bytes", "records"):
            n = self._rlen(r, flex, False)
            return None if n is None else r.take(n)
        if t == "uuid":
            return str(uuid.UUID(bytes=r.take(16)))
        if t in FIXED:
            return r.fixed(">" + FIXED[t])
        if inr(self.v, f.get("nullableVersions", "none")) and r.fixed(">b") < 0:
            return None
        return self._rstruct(r, self._fields_of(f, t))


class R:
    def __init__(self, data):
        self.d, self.p = data, 0

    def take(self, n):
        assert self.p + n <= len(self.d), "short response"
        b = self.d[self.p:self.p + n]
        self.p += n
        return bytes(b)

    def fixed(self, fmt):
        return struct.unpack(fmt, self.take(struct.calcsize(fmt)))[0]

    def uvarint(self):
        n = s = 0
        while True:
            b = self.take(1)[0]
            n |= (b & 127) << s
            s += 7
            if b < 128:
                return n


def uvarint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def varint(n):
    return uvarint((n << 1) ^ (n >> 63) if n >= 0 else ((-n) << 1) - 1)


class Closed(Exception):
    pass


class Conn:
    """One connection. `call` sends a request and waits for its answer. Raises Closed if the server hangs up."""

    def __init__(self, schema, addr, timeout=20):
        host, port = addr.rsplit(":", 1)
        self.schema, self.corr = schema, 0
        self.s = socket.create_connection((host, int(port)), timeout=timeout)

    def frame(self, name, version, body=None, client="raw", raw_body=None):
        key = self.schema.key(name) if isinstance(name, str) else name
        d = self.schema.requests.get(key)
        flex = d is not None and inr(version, d.get("flexibleVersions", "none"))
        self.corr += 1
        h = struct.pack(">hhi", key, version, self.corr)
        c = None if client is None else client.encode()
        h += struct.pack(">h", -1 if c is None else len(c)) + (c or b"")
        if flex:
            h += b"\0"
        b = raw_body if raw_body is not None else Codec(d, version).encode(body or {})
        return struct.pack(">i", len(h + b)) + h + b

    def send(self, *a, **k):
        self.s.sendall(self.frame(*a, **k))

    def read_frame(self):
        n = struct.unpack(">i", self._exact(4))[0]
        return self._exact(n)

    def _exact(self, n):
        b = bytearray()
        while len(b) < n:
            try:
                c = self.s.recv(min(n - len(b), 1 << 20))
            except ConnectionResetError:
                raise Closed("reset")
            if not c:
                raise Closed("eof after %d of %d bytes" % (len(b), n))
            b += c
        return bytes(b)

    def recv(self, name, version):
        f = self.read_frame()
        key = self.schema.key(name)
        d = self.schema.responses[key]
        flex = inr(version, d.get("flexibleVersions", "none")) and key != 18
        off = 4
        if flex:
            assert f[4] == 0
            off = 5
        assert struct.unpack(">i", f[:4])[0] == self.corr, "correlation id"
        return Codec(d, version).decode(f[off:])

    def call(self, name, version, body=None, **k):
        self.send(name, version, body, **k)
        return self.recv(name, version)

    def close(self):
        self.s.close()


# ---- record batches ----
_T = []
for _i in range(256):
    _c = _i
    for _ in range(8):
        _c = (_c >> 1) ^ (0x82F63B78 if _c & 1 else 0)
    _T.append(_c)


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = _T[(c ^ b) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF


def record(delta, key, value, headers=(), ts=0, attributes=0):
    def vb(b):
        return varint(-1) if b is None else varint(len(b)) + b
    body = struct.pack(">b", attributes) + varint(ts) + varint(delta) + vb(key) + vb(value) + varint(len(headers))
    for k, v in headers:
        body += varint(len(k)) + k + vb(v)
    return varint(len(body)) + body


def batch(records=((None, b"v"),), base=0, epoch=-1, magic=2, attributes=0, ts=1_700_000_000_000, pid=-1, pepoch=-1, seq=-1,
          count=None, last_delta=None, body=None, length=None, crc=None, max_ts=None):
    """One batch v2. Any field can be made wrong."""
    if body is None:
        body = b"".join(record(i, r[0], r[1], *(r[2:])) for i, r in enumerate(records))
    n = len(records)
    tail = struct.pack(">hiqqqhii", attributes, n - 1 if last_delta is None else last_delta, ts, ts if max_ts is None else max_ts,
                       pid, pepoch, seq, n if count is None else count) + body
    c = crc32c(tail) if crc is None else crc
    return struct.pack(">qiibI", base, len(tail) + 9 if length is None else length, epoch, magic, c) + tail


def message_set(magic, messages=((None, b"v"),), attributes=0, ts=1_700_000_000_000):
    """An old message set, magic 0 or 1."""
    import zlib
    out = b""
    for i, (k, v) in enumerate(messages):
        m = struct.pack(">bb", magic, attributes) + (struct.pack(">q", ts) if magic == 1 else b"")
        for b in (k, v):
            m += struct.pack(">i", -1) if b is None else struct.pack(">i", len(b)) + b
        m = struct.pack(">I", zlib.crc32(m)) + m
        out += struct.pack(">qi", i, len(m)) + m
    return out


def batches(data):
    """Returns (header dict, bytes) of each batch v2 in `data`."""
    p = 0
    while p + 61 <= len(data):
        base, length, epoch, magic, crc, attr, ld, bt, mt, pid, pe, bs, n = struct.unpack(">qiibIhiqqqhii", data[p:p + 61])
        if p + 12 + length > len(data):
            return
        yield dict(base=base, epoch=epoch, magic=magic, crc=crc, attributes=attr, last_delta=ld, base_ts=bt, max_ts=mt, pid=pid,
                   pepoch=pe, seq=bs, count=n, crc_ok=crc32c(data[p + 21:p + 12 + length]) == crc), data[p:p + 12 + length]
        p += 12 + length
