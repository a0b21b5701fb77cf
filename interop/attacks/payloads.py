"""Bytes that are small and inflate, or are expensive to check; made by hand, because no library makes them."""
import random, struct, time, uuid, zlib
from functools import lru_cache
from wire import MIB, kproto

GZIP, LZ4, ZSTD = 1, 3, 4
# The largest content of a zstd block.
ZSTD_BLOCK = 128 * 1024


def batch(value):
    return kproto.batch([(None, value)], ts=int(time.time() * 1000))


def compressed(codec, packed):
    """A batch of one record with the given compressed bytes."""
    return kproto.batch([(None, None)], body=packed, attributes=codec, ts=int(time.time() * 1000))


def around(length):
    """What comes before and after a value of this many bytes, so that together they are a record without key
    and headers."""
    inner = b"\0\0\0" + kproto.varint(-1) + kproto.varint(length)
    return kproto.varint(len(inner) + length + 1) + inner, b"\0"


def zstd_frame(before, byte, count, behind=b""):
    """A frame of blocks that repeat one byte (RFC 8878, 3.1.1.2: RLE), four bytes for 128 KiB, and the bytes
    around them."""
    def header(size, kind, last=0):
        return struct.pack("<I", size << 3 | kind << 1 | last)[:3]

    frame = struct.pack("<IBB", 0xFD2FB528, 0, 7 << 3)  # no sizes, a window of 128 KiB
    return frame + header(len(before), 0) + before + (header(ZSTD_BLOCK, 1) + byte) * count + header(len(behind), 0, 1) + behind


def zstd_bomb(inflated=64 * MIB - 64 * 1024):
    count = inflated // ZSTD_BLOCK
    before, behind = around(count * ZSTD_BLOCK)
    return compressed(ZSTD, zstd_frame(before, b"v", count, behind))


def header_bomb(inflated=64 * MIB - 64 * 1024):
    """A batch of 2 KB: one record with as many headers without name and value as fit, two bytes each. NATS
    needs a line of 24 bytes for each of them."""
    count = inflated // ZSTD_BLOCK
    size = count * ZSTD_BLOCK
    inner = b"\0\0\0" + kproto.varint(-1) + kproto.varint(-1) + kproto.varint(size // 2)
    return compressed(ZSTD, zstd_frame(kproto.varint(len(inner) + size) + inner, b"\0", count))


def gzip_batch(value):
    before, behind = around(len(value))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return compressed(GZIP, packer.compress(before + value + behind) + packer.flush())


def gzip_bomb(inflated=30 * MIB):
    return gzip_batch(b"v" * inflated)


@lru_cache
def text_batch(inflated=250 * 1024):
    """A batch of 16 KB that becomes this much text, which takes long to compress well (170 ms at zstd's level
    22): a few words of two letters, so that much looks alike everywhere."""
    chance = random.Random(1)
    words = ["".join(chance.choices("ab", k=24)) for _ in range(30)]
    return gzip_batch("".join(chance.choices(words, k=inflated // 24)).encode())


def lz4_bomb(packed=31 * 1024):
    """A frame of independent blocks of at most 4 MiB: a literal, a match of it at distance 1, 255 bytes for
    one, and six literals, because a block must end with five."""
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
    """A frame masked with zeros, which changes nothing."""
    if len(payload) < 126:
        return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload
    return bytes([first, 0x80 | 126]) + struct.pack(">H", len(payload)) + bytes(4) + payload


@lru_cache
def deflated(inflated=7 * MIB):
    """A compressed message of 7 KB that becomes 7 MiB of PONGs, which have no effect."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b"PING\r\n" + b"PONG\r\n" * (inflated // 6)) + packer.flush(zlib.Z_SYNC_FLUSH)
    return websocket_frame(packed[:-4], 0xC2)


def canonical(lengths):
    """The Huffman code of each symbol, as deflate has it (RFC 1951, 3.2.2), from the lengths of the codes; as
    text of bits."""
    codes, code, before = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items()):
        code <<= length - before
        codes[symbol] = format(code, f"0{length}b")
        code, before = code + 1, length
    return codes


def blocks_of_nothing(count=3000):
    """A compressed message of this many empty blocks of deflate, 21 bytes each, each with codes of its own
    (RFC 1951, 3.2.7). The inflater makes two tables for each, as large as its first tables, and nothing comes
    out."""
    def number(value, bits):
        return format(value, f"0{bits}b")[::-1]

    # Codes of the symbols 246 to 256, of which the last, the end of the block, has the shortest; and of ten
    # distances.
    literals = [2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 1]
    distances = [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    # Codes of the lengths themselves; 18 stands for 11 to 138 symbols without a code.
    lengths = {**dict.fromkeys((1, 2, 3, 4, 9), 3), **dict.fromkeys((5, 6, 7, 8, 10, 18), 4)}
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
    codes = canonical(lengths)
    block = number(0, 1) + number(2, 2) + number(0, 5) + number(len(distances) - 1, 5) + number(len(order) - 4, 4)
    block += "".join(number(lengths.get(symbol, 0), 3) for symbol in order)
    block += codes[18] + number(138 - 11, 7) + codes[18] + number(246 - 138 - 11, 7)
    block += "".join(codes[length] for length in literals + distances) + "0"
    eight = block * 8
    packed = bytes(int(eight[at:at + 8][::-1], 2) for at in range(0, len(eight), 8))
    # It ends with the start of a stored block, of which the sender leaves out the rest (RFC 7692, 7.2.1).
    return websocket_frame(packed * (count // 8) + b"\0", 0xC2)


# ---- expressions and names ----

def member_id(number):
    return str(uuid.UUID(int=number + 1))


def expression(number):
    r"""Sixteen bytes that compile to nearly a MiB, the most that the server takes: letters of all scripts in
    either case, repeated."""
    return r"(?i:\pL){20}" + f"x{number}"
