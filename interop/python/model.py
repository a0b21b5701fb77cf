"""Common parts of the three clients: records, and an interface that hides how each of them is driven."""
import random
from dataclasses import dataclass, field
from typing import Optional

CREATE_TIME, LOG_APPEND_TIME = 0, 1


@dataclass
class Message:
    value: Optional[bytes] = None
    key: Optional[bytes] = None
    headers: list = field(default_factory=list)
    partition: Optional[int] = 0
    timestamp: Optional[int] = None


@dataclass
class Record:
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Optional[bytes]
    value: Optional[bytes]
    headers: list


@dataclass
class ProducerOptions:
    acks: object = "all"
    codec: str = "none"
    idempotent: bool = False
    bytes_max: int = 1 << 20
    auto_create: bool = True
    give_up_ms: int = 60_000


@dataclass
class ReaderOptions:
    wait_ms: int = 500
    read_committed: bool = False
    reset: str = "error"  # what to do with an offset out of range


def topic_name(client, purpose):
    return f"{client.name}-{purpose}-{random.randrange(1 << 32):08x}".replace(" ", "-")


def payload(seed, size):
    """Bytes that compress somewhat: half words, half noise."""
    rng = random.Random(seed)
    words = b"stream flume weir sluice river "
    out = bytearray()
    while len(out) < size:
        out += words[: rng.randrange(1, len(words))] if rng.random() < 0.5 else rng.randbytes(min(size - len(out), rng.randrange(1, 64)))
    return bytes(out[:size])


def murmur2_partition(key, partitions):
    """The partition that the Java client chooses for a key."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    for i in range(0, len(key) - 3, 4):
        k = int.from_bytes(key[i:i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    tail = key[len(key) & ~3:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return ((h ^ h >> 15) & 0x7FFFFFFF) % partitions
