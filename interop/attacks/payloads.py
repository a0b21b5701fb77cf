"""Bytes that are small and grow, or are dear to look at; made by hand, because no library makes them."""
import struct, time, uuid, zlib
from functools import lru_cache
from wire import MIB, kproto

GZIP, LZ4, ZSTD = 1, 3, 4


def fast_crc32c(data):
    """kproto's takes a second for a MiB; the same, eight bytes at a time."""
    tables = _tables()
    c, at, whole = 0xFFFFFFFF, 0, len(data) & ~7
    t0, t1, t2, t3, t4, t5, t6, t7 = tables
    for low, high in struct.iter_unpack("<II", data[:whole]):
        low ^= c
        c = (t7[low & 255] ^ t6[low >> 8 & 255] ^ t5[low >> 16 & 255] ^ t4[low >> 24]
             ^ t3[high & 255] ^ t2[high >> 8 & 255] ^ t1[high >> 16 & 255] ^ t0[high >> 24])
    for byte in data[whole:]:
        c = t0[(c ^ byte) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF


@lru_cache
def _tables():
    tables = [kproto._T]
    for _ in range(7):
        before = tables[-1]
        tables.append([(one >> 8) ^ kproto._T[one & 255] for one in before])
    return tables


def batch_of(body, attributes=0, count=1):
    """A batch of record batch v2 around a body that may be compressed."""
    now = int(time.time() * 1000)
    tail = struct.pack(">hiqqqhii", attributes, count - 1, now, now, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, fast_crc32c(tail)) + tail


def batch(value):
    return batch_of(kproto.record(0, None, value))


def around(length):
    """What comes before and behind a value of so many bytes, so that both and it are a record without key and headers."""
    inner = b"\0\0\0" + kproto.varint(-1) + kproto.varint(length)
    return kproto.varint(len(inner) + length + 1) + inner, b"\0"


def zstd_bomb(inflated=64 * MIB - 64 * 1024):
    """A frame of blocks that repeat one byte (RFC 8878, 3.1.1.2: RLE), four bytes for 128 KiB."""
    block = 128 * 1024
    count = inflated // block
    before, behind = around(count * block)

    def header(size, kind, last=0):
        return struct.pack("<I", size << 3 | kind << 1 | last)[:3]

    frame = struct.pack("<IBB", 0xFD2FB528, 0, 7 << 3)  # no sizes, a window of 128 KiB
    frame += header(len(before), 0) + before + (header(block, 1) + b"v") * count + header(len(behind), 0, 1) + behind
    return batch_of(frame, ZSTD)


def gzip_bomb(inflated=30 * MIB):
    before, behind = around(inflated)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(before + b"v" * inflated + behind) + packer.flush()
    return batch_of(packed, GZIP)


def lz4_bomb(packed=31 * 1024):
    """A frame of independent blocks of 4 MiB at most, each a byte and a match of it with itself: 255 for one."""
    blocks = []
    per_block = min(packed, 4 * MIB // 255 - 64)
    sizes, left = [], packed
    while left > 64:
        run = min(left, per_block) - 16
        sizes.append(run)
        left -= run + 16
    value = sum(4 + 15 + 255 * run + 1 for run in sizes)
    before, behind = around(value)
    for number, run in enumerate(sizes):
        literals = (before if number == 0 else b"") + b"v"
        # One literal, or the record's head and one; then a match at distance 1.
        block = bytes([min(len(literals), 15) << 4 | 15]) + (bytes([len(literals) - 15]) if len(literals) >= 15 else b"") + literals
        block += struct.pack("<H", 1) + b"\xff" * run + b"\0"
        # The match has 4 + 15 + 255 * run bytes. What is left comes as literals: a block must end with five of them.
        blocks.append((block, 1 + 19 + 255 * run))
    total = sum(size for _, size in blocks)
    before2, behind = around(total + 6 * len(blocks) - 1)
    assert len(before2) == len(before)
    out = b""
    for number, (block, _) in enumerate(blocks):
        block = block.replace(before, before2) if number == 0 else block
        last = number == len(blocks) - 1
        ending = b"v" * 5 + (behind if last else b"v")
        block += bytes([len(ending) << 4]) + ending
        out += struct.pack("<I", len(block)) + block
    flags, size = 0x60, 0x70  # version 1, independent blocks; at most 4 MiB each
    head = bytes([flags, size])
    return batch_of(struct.pack("<I", 0x184D2204) + head + bytes([xxh32(head) >> 8 & 255]) + out + bytes(4), LZ4)


def xxh32(data, seed=0):
    """Of fewer than 16 bytes."""
    prime = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
    rotated = lambda x, r: (x << r | x >> 32 - r) & 0xFFFFFFFF
    h = seed + prime[4] + len(data)
    for byte in data:
        h = rotated(h + byte * prime[4] & 0xFFFFFFFF, 11) * prime[0] & 0xFFFFFFFF
    h = (h ^ h >> 15) * prime[1] & 0xFFFFFFFF
    h = (h ^ h >> 13) * prime[2] & 0xFFFFFFFF
    return h ^ h >> 16


# ---- WebSocket ----

UPGRADE = (b"GET / HTTP/1.1\r\nHost: sweep\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")


def websocket_frame(payload, first=0x82):
    """Masked with zeros, which changes nothing."""
    if len(payload) < 126:
        return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload
    return bytes([first, 0x80 | 126]) + struct.pack(">H", len(payload)) + bytes(4) + payload


@lru_cache
def deflated(inflated=7 * MIB):
    """A compressed message of 7 KB that becomes 7 MiB of PONGs, which mean nothing."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b"PING\r\n" + b"PONG\r\n" * (inflated // 6)) + packer.flush(zlib.Z_SYNC_FLUSH)
    return websocket_frame(packed[:-4], 0xC2)


# ---- expressions and names ----

def member_id(number):
    return str(uuid.UUID(int=number + 1))


def expression(number):
    r"""Sixteen bytes that compile to nearly a MiB, the most that is taken: letters of all scripts in either case, again and again."""
    return r"(?i:\pL){20}" + f"x{number}"
