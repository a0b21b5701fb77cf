"""Producers at full speed while the server is killed: run by interop/killtest.sh, which says what is proved.

Each producer is a process of its own (librdkafka, acks=all, idempotent). It numbers its records and remembers
for each the offset of its acknowledgement. At the end every record is read back and compared with what was
sent, byte for byte.
"""
import array, multiprocessing, os, random, struct, subprocess, sys, tempfile, time
import zlib
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ["BOOTSTRAP"]
TOPIC, PARTITIONS, PRODUCERS = "kill", 4, 3
HEAD = struct.Struct(">IQI")  # producer, sequence, CRC-32 of the body
NOISE = random.Random(7).randbytes(1 << 16)
UNKNOWN = -1
# Bounds the disk and the time to verify: about 300 bytes a record.
RECORDS_MAX = int(os.environ.get("RECORDS_MAX", 2_000_000))
NAMES = {"bootstrap.servers": BOOTSTRAP, "log_level": 2, "reconnect.backoff.max.ms": 300, "reconnect.backoff.ms": 50}


def value(producer, sequence):
    size = 20 + (sequence * 131 + producer) % 500
    at = (sequence * 7919 + producer * 31) % (len(NOISE) - 600)
    body = NOISE[at:at + size]
    return HEAD.pack(producer, sequence, zlib.crc32(body)) + body


def produce(producer, stop, acknowledged, folder):
    p = Producer({**NAMES, "acks": "all", "enable.idempotence": True, "linger.ms": 2, "compression.type": ["none", "lz4", "zstd"][producer % 3],
                  "queue.buffering.max.messages": 20_000, "message.timeout.ms": 300_000})
    offsets, failures = array.array("q"), []

    def done(error, message):
        if error:
            failures.append(str(error))
            return
        sequence = int.from_bytes(message.value()[4:12], "big")
        offsets[sequence] = message.offset()
        acknowledged[producer] += 1
    sequence = 0
    while not stop.is_set() and sequence < RECORDS_MAX and not failures:
        try:
            offsets.append(UNKNOWN)
            p.produce(TOPIC, value(producer, sequence), partition=sequence % PARTITIONS, on_delivery=done)
            sequence += 1
        except BufferError:
            offsets.pop()
            p.poll(0.05)
        if sequence % 100 == 0:
            p.poll(0)
    left = p.flush(300)
    with open(f"{folder}/{producer}", "wb") as f:
        offsets.tofile(f)
    if failures or left:
        print(f"producer {producer}: {len(failures)} failed ({failures[:3]}), {left} left", flush=True)
        sys.exit(1)


def server(*command):
    subprocess.run([os.environ["INTEROP_SERVER"], command[0], os.environ["INTEROP_STATE"], *command[1:]], check=True, stdout=subprocess.DEVNULL)


def kill_and_restart(rng, rounds, acknowledged):
    for turn in range(1, rounds + 1):
        alive = rng.uniform(0.05, 3)
        time.sleep(alive)
        before = sum(acknowledged)
        server("stop", "KILL")
        time.sleep(rng.choice([0, 0, 0.2, 1]))
        began = time.monotonic()
        server("again")
        print(f"round {turn}: killed after {alive:.2f} s with {before} acknowledged, ready again in {time.monotonic() - began:.2f} s", flush=True)


def verify(sent):
    """Every record in the log was sent, exists once and in order. Every acknowledged one is at its
    acknowledged offset."""
    c = Consumer({**NAMES, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error", "check.crcs": True,
                  "queued.max.messages.kbytes": 65536})
    errors, found = [], 0
    for partition in range(PARTITIONS):
        low, high = c.get_watermark_offsets(TopicPartition(TOPIC, partition), 60)
        if low != 0:
            errors.append(f"partition {partition} begins at {low}")
        c.assign([TopicPartition(TOPIC, partition, 0)])
        due = [partition] * PRODUCERS
        offset = 0
        end = time.monotonic() + 600
        while offset < high and len(errors) < 20:
            if time.monotonic() > end:
                errors.append(f"partition {partition}: read only up to {offset} of {high}")
                break
            for m in c.consume(1000, 1):
                if m.error():
                    errors.append(str(m.error()))
                    break
                data = m.value()
                producer, sequence, _ = HEAD.unpack_from(data)
                if m.offset() != offset:
                    errors.append(f"partition {partition}: offset {m.offset()} follows {offset - 1}")
                if producer >= PRODUCERS or data != value(producer, sequence):
                    errors.append(f"partition {partition}, offset {offset}: damaged")
                elif sequence != due[producer]:
                    errors.append(f"partition {partition}, offset {offset}: producer {producer} has {sequence} where {due[producer]} is due")
                    due[producer] = sequence
                elif sent[producer][sequence] not in (offset, UNKNOWN):
                    errors.append(f"producer {producer}, record {sequence}: acknowledged at {sent[producer][sequence]}, found at {offset}")
                if producer < PRODUCERS:
                    due[producer] += PARTITIONS
                offset = m.offset() + 1
                found += 1
        for producer in range(PRODUCERS):
            lost = [s for s in range(due[producer], len(sent[producer]), PARTITIONS) if sent[producer][s] != UNKNOWN]
            if lost:
                errors.append(f"partition {partition}: {len(lost)} acknowledged records of producer {producer} are lost, from {lost[0]} on")
    c.close()
    return found, errors


def main():
    rounds, seed = int(sys.argv[1]), int(sys.argv[2])
    print(f"seed {seed}, {rounds} rounds, {PRODUCERS} producers, {PARTITIONS} partitions", flush=True)
    admin = AdminClient(NAMES)  # must outlive the call
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    stop, acknowledged = multiprocessing.Event(), multiprocessing.Array("q", PRODUCERS)
    with tempfile.TemporaryDirectory() as folder:
        workers = [multiprocessing.Process(target=produce, args=(n, stop, acknowledged, folder)) for n in range(PRODUCERS)]
        for w in workers:
            w.start()
        kill_and_restart(random.Random(seed), rounds, acknowledged)
        time.sleep(1)
        stop.set()
        for w in workers:
            w.join()
        sent = [array.array("q") for _ in workers]
        for n, offsets in enumerate(sent):
            offsets.frombytes(open(f"{folder}/{n}", "rb").read())
    found, errors = verify(sent)
    errors += [f"producer {n} ended with {w.exitcode}" for n, w in enumerate(workers) if w.exitcode]
    total = sum(sum(o != UNKNOWN for o in offsets) for offsets in sent)
    for e in errors:
        print("  " + e)
    verdict = "FAIL" if errors else "PASS"
    print(f"{verdict} killtest: {total} acknowledged, {found} found, {rounds} kills, seed {seed}", flush=True)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
