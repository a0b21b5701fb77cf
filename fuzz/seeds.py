#!/usr/bin/env python3
"""Makes seeds from the data folders of servers that real clients have used: fuzz/seeds.py FOLDER RECORDED

Looks below FOLDER for segments of logs, and writes into RECORDED: batches for record_batch, the logs of
coordinators for coordinator_record, the metadata log for metadata_record.
`KEEP=1 TMPDIR=FOLDER interop/run.sh ...` leaves such folders. Those of Kafka work as well. Afterwards choose
the useful ones with `cargo +nightly fuzz cmin TARGET RECORDED/TARGET`.
"""
import hashlib, pathlib, sys

BYTES_MAX = 4096
HEADER_BYTES = 61
COORDINATORS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
METADATA = "__cluster_metadata"
# A coordinator's record has one byte for its length.
FIELD_BYTES_MAX = 254
# The first byte of record_batch: producers choose the compression and the timestamps, keys are not required.
RULES = b"\0"


def batches(content):
    """Yields the whole batches of format 2."""
    at = 0
    while at + HEADER_BYTES <= len(content):
        length = 12 + int.from_bytes(content[at + 8:at + 12], "big")
        if length < HEADER_BYTES or at + length > len(content) or content[at + 16] != 2:
            return
        yield content[at:at + length]
        at += length


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value >> 1 ^ -(value & 1)

    def field(self):
        length = self.varint()
        return None if length < 0 else self.take(length)


def records(batch):
    """Yields keys and values. Skips compressed batches and markers."""
    attributes = int.from_bytes(batch[21:23], "big")
    if attributes & 7 or attributes & 32:
        return
    cursor = Cursor(batch[HEADER_BYTES:])
    for _ in range(int.from_bytes(batch[57:61], "big")):
        end = cursor.varint()
        end += cursor.at
        cursor.take(1)
        cursor.varint(), cursor.varint()
        yield cursor.field(), cursor.field()
        cursor.at = end


def keep(folder, target, name, content):
    if 0 < len(content) <= BYTES_MAX:
        where = folder / target
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{name}_{hashlib.sha256(content).hexdigest()[:8]}").write_bytes(content)


def coordinator(kind, batch):
    """Encodes a batch the way the fuzz target reads a coordinator's log."""
    log = bytearray([kind])
    for key, value in records(batch):
        if key is None or max(len(key), len(value or b"")) > FIELD_BYTES_MAX:
            continue
        log += bytes([len(key)]) + key
        log += b"\xff" if value is None else bytes([len(value)]) + value
    return bytes(log)


def main(source, recorded):
    for path in sorted(source.rglob("*.log")):
        topic = path.parent.name.rpartition("-")[0]
        log = bytearray()
        for batch in batches(path.read_bytes()) if topic else ():
            attributes = int.from_bytes(batch[21:23], "big")
            keep(recorded, "record_batch", f"attributes{attributes:02}", RULES + batch)
            if topic in COORDINATORS:
                one = coordinator(COORDINATORS.index(topic), batch)
                keep(recorded, "coordinator_record", topic.strip("_"), one)
                log += one[1:]
            elif topic == METADATA:
                for _, value in records(batch):
                    log += (value or b"") + b"\n"
        # The whole sequence reaches more states than each batch by itself.
        if topic in COORDINATORS:
            keep(recorded, "coordinator_record", f"{topic.strip('_')}_log", bytes([COORDINATORS.index(topic)]) + bytes(log[:BYTES_MAX - 1]))
        elif topic == METADATA:
            keep(recorded, "metadata_record", "log", bytes(log[:BYTES_MAX]))


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
