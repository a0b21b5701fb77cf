"""Sends lines from stdin through confluent-kafka (librdkafka): lines.py TOPIC. Exit status 0 means that all
are acknowledged."""
import os, sys
from confluent_kafka import Producer

failures = []
p = Producer({"bootstrap.servers": os.environ["BOOTSTRAP"], "log_level": 2, "acks": "all", "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 20,
              "message.max.bytes": 20_000_000, "message.timeout.ms": 300_000, "reconnect.backoff.max.ms": 500,
              "queue.buffering.max.messages": 200_000, "topic.metadata.propagation.max.ms": 1000})


def done(error, _message):
    if error:
        failures.append(error)


count = 0
for line in sys.stdin.buffer:
    while True:
        try:
            p.produce(sys.argv[1], line.removesuffix(b"\n"), partition=0, on_delivery=done)
            break
        except BufferError:
            p.poll(0.1)
    count += 1
    if count % 1000 == 0:
        p.poll(0)
left = p.flush(300)
print(f"{count} lines, {len(failures)} failed, {left} left", file=sys.stderr)
sys.exit(1 if failures or left else 0)
