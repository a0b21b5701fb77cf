"""librdkafka's part of the load: librdkafka.py BOOTSTRAP TOPIC GROUP, run by the orchestrator in this folder.

Lines of the input are records to send: partition, sequence, value. The end of the input ends everything.
Lines of the output: ack PARTITION SEQUENCE OFFSET (-1: librdkafka concluded it from the answer to a later
batch), unknown PARTITION SEQUENCE ERROR, processed PARTITION OFFSET, committed PARTITION OFFSET, read
PARTITION OFFSET :VALUE, note TEXT.
"""
import sys, threading
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition, OFFSET_BEGINNING

BOOTSTRAP, TOPIC, GROUP = sys.argv[1:4]
PARTITIONS = 6
NAMES = {"bootstrap.servers": BOOTSTRAP, "log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1000, "socket.timeout.ms": 15000}
READ = {**NAMES, "enable.auto.commit": False, "auto.offset.reset": "earliest", "check.crcs": True}
stop, lock = threading.Event(), threading.Lock()


def say(*words):
    with lock:
        print(*words, flush=True)


def member():
    c = Consumer({**READ, "group.id": GROUP, "partition.assignment.strategy": "range", "session.timeout.ms": 8000, "heartbeat.interval.ms": 500})
    c.subscribe([TOPIC])
    while not stop.is_set():
        last = {}
        for m in c.consume(500, 0.2):
            if m.error():
                say("note", "member:", m.error().str())
                continue
            say("processed", m.partition(), m.offset())
            last[m.partition()] = m.offset() + 1
        try:
            for t in c.commit(offsets=[TopicPartition(TOPIC, p, o) for p, o in last.items()], asynchronous=False) if last else []:
                if t.error:
                    say("note", "commit:", t.error.str())
                else:
                    say("committed", t.partition, t.offset)
        except KafkaException as e:
            say("note", "commit:", e.args[0].str())
    c.close()


def reader():
    c = Consumer({**READ, "group.id": "unused"})
    c.assign([TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    while not stop.is_set():
        m = c.poll(0.2)  # consume(), of many at once, loses some when leaders change
        if m and m.error():
            say("note", "reader:", m.error().str())
        elif m:
            say("read", m.partition(), m.offset(), ":" + m.value().split(b"~")[0].decode())
    c.close()


def main():
    p = Producer({**NAMES, "acks": "all", "enable.idempotence": True, "linger.ms": 2, "compression.type": "lz4", "message.timeout.ms": 600000,
                  "error_cb": lambda e: say("anomaly" if e.code() == KafkaError._FATAL else "note", e.str())})

    def done(sequence):
        return lambda error, m: say("unknown", m.partition(), sequence, error.str()) if error else say("ack", m.partition(), sequence, -1 if m.offset() is None else m.offset())

    def serve():
        while not stop.is_set():
            p.poll(0.05)
    threads = [threading.Thread(target=f) for f in (member, reader, serve)]
    for t in threads:
        t.start()
    for line in sys.stdin:
        partition, sequence, value = line.split()
        while True:
            try:
                p.produce(TOPIC, value + "~" * (len(line) * 7 % 150), partition=int(partition), on_delivery=done(sequence))
                break
            except BufferError:
                stop.wait(0.05)
    stop.set()
    for t in threads:
        t.join()


if __name__ == "__main__":
    main()
