"""Bytes that are small and grow, or are dear to look at; made by hand, because no library makes them."""
import struct, time, uuid, zlib
from functools import lru_cache
from wire import MIB, kproto

GZIP, LZ4, ZSTD = 1, 3, 4


def batch(value):
    return kproto.batch([(None, value)], ts=int(time.time() * 1000))


def compressed(codec, packed):
    """A batch of one record whose compressed form is given."""
    return kproto.batch([(None, None)], body=packed, attributes=codec, ts=int(time.time() * 1000))


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
    return compressed(ZSTD, frame)


def gzip_bomb(inflated=30 * MIB):
    before, behind = around(inflated)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(before + b"v" * inflated + behind) + packer.flush()
    return compressed(GZIP, packed)


def lz4_bomb(packed=31 * 1024):
    """A frame of independent blocks of at most 4 MiB: a literal, a match of it at distance 1, 255 bytes for one, and six literals, for a block
    must end with five."""
    longest = 4 * MIB // 255 - 64
    runs = [longest] * (packed // longest) + [packed % longest]
    before, behind = around(sum(1 + 19 + 255 * run + 6 for run in runs) - 1)
    blocks = b""
    for number, run in enumerate(runs):
        literals = (before if number == 0 else b"") + b"v"
        ending = b"v" * 5 + (behind if number == len(runs) - 1 else b"v")
        assert len(literals) < 15
        block = bytes([len(literals) << 4 | 15]) + literals + struct.pack("<H", 1) + b"\xff" * run + b"\0" + bytes([len(ending) << 4]) + ending
        blocks += struct.pack("<I", len(block)) + block
    head = bytes([0x60, 0x70])  # version 1, independent blocks; at most 4 MiB each
    return compressed(LZ4, struct.pack("<I", 0x184D2204) + head + bytes([xxh32(head) >> 8 & 255]) + blocks + bytes(4))


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
