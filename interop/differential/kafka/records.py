"""Records from a Fetch answer: what a consumer would see, and where."""
import struct
from side import kproto

CONTROL, TRANSACTIONAL, TIMESTAMP_TYPE, CODEC = 0x20, 0x10, 0x08, 0x07


def varint(data, at):
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at


def sized(data, at):
    length, at = varint(data, at)
    return (None, at) if length < 0 else (bytes(data[at:at + length]), at + length)


def records(header, data):
    """(offset, key, value) of each record of an uncompressed batch."""
    at = 61
    for _ in range(header["count"]):
        _, at = varint(data, at)
        at += 1
        _, at = varint(data, at)
        delta, at = varint(data, at)
        key, at = sized(data, at)
        value, at = sized(data, at)
        count, at = varint(data, at)
        for _ in range(count):
            _, at = sized(data, at)
            _, at = sized(data, at)
        yield header["base"] + delta, key, value


def seen(data, since):
    """What a fetch at `since` returns: a record or a marker a line, with the attributes of its batch."""
    lines = []
    for header, bytes_ in kproto.batches(data or b""):
        attributes = header["attributes"]
        if attributes & CODEC:
            lines.append([header["base"], header["last_delta"], "compressed", attributes])
            continue
        for offset, key, value in records(header, bytes_):
            if offset < since:
                continue
            if attributes & CONTROL:
                kind = struct.unpack(">h", key[2:4])[0]
                lines.append([offset, "commit" if kind == 1 else "abort", attributes])
            else:
                text = None if value is None else value.decode(errors="replace")[:24]
                lines.append([offset, text, attributes])
    return lines
