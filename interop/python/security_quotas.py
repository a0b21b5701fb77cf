"""Clients that are throttled, against the server of interop/security.sh, whose tools made the quotas.

`slow` may produce and consume QUOTA_BYTES per second, each. The client id `busy` has a thousandth of a second in
ten. Rates are measured over the first ten seconds. The client offers or asks for twice its limit, so it is held
up from half of them on. What passes then depends on the server's times, not on how fast the machine is.
"""
import logging, os, sys, threading, time

import confluent_kafka as ck

import harness
from harness import BOOTSTRAP, Failure, check, eventually, run, same

logging.disable()
QUOTA_BYTES = int(os.environ["QUOTA_BYTES"])
VALUE = b"v" * 4000
SECONDS = 10
# The share of the quota that a client gets.
LEAST, MOST = 0.7, 1.15
PAUSE = len(VALUE) / (2 * QUOTA_BYTES)
WRITTEN, READ = "slow-written", "slow-read"


def settings(user, throttled=None, **more):
    told = {} if throttled is None else {"throttle_cb": lambda event: throttled.append(event.throttle_time)}
    return {"bootstrap.servers": BOOTSTRAP, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512" if user == "admin" else "SCRAM-SHA-256",
            "sasl.username": user, "sasl.password": f"{user}-secret", "log_level": 0, **told, **more}


def judge(count, began, throttled, what):
    elapsed = time.monotonic() - began
    share = count * len(VALUE) / elapsed / QUOTA_BYTES
    print(f"  {what}: {share:.2f} of the quota in {elapsed:.1f} s, throttled {len(throttled)} times, at most {max(throttled, default=0):.2f} s", flush=True)
    check(throttled and max(throttled) > 0, "the client was not told that it is throttled")
    check(LEAST <= share <= MOST, f"{share:.2f} of the quota passed")


def delivered(producer, topic):
    outcome = []
    producer.produce(topic, VALUE, on_delivery=lambda error, _: outcome.append(error))
    same(producer.flush(60), 0, "records that were not delivered")
    same(outcome, [None], "outcome")


def produces():
    throttled, count = [], 0
    producer = ck.Producer(settings("slow", throttled, **{"client.id": "writer", "linger.ms": 0}))
    began = time.monotonic()
    while (now := time.monotonic()) < began + SECONDS:
        delivered(producer, WRITTEN)
        count += 1
        time.sleep(max(0, now + PAUSE - time.monotonic()))
    judge(count, began, throttled, "producer")


def consumes():
    """Fetches one record at a time, because librdkafka fetches only when it has nothing left."""
    throttled, count = [], 0
    consumer = ck.Consumer(settings("slow", throttled, **{"client.id": "reader", "group.id": "slow-", "enable.auto.commit": False,
                                                          "fetch.message.max.bytes": len(VALUE) + 500, "queued.min.messages": 1, "fetch.queue.backoff.ms": 1}))
    consumer.assign([ck.TopicPartition(READ, 0, 0)])
    try:
        began = time.monotonic()
        while (now := time.monotonic()) < began + SECONDS:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                raise Failure(message.error().name())
            count += 1
            time.sleep(max(0, now + PAUSE - time.monotonic()))
        judge(count, began, throttled, "consumer")
    finally:
        consumer.close()


def busy():
    """Also what was not limited by bytes: a client with too little time of threads."""
    throttled = []
    producer = ck.Producer(settings("admin", throttled, **{"client.id": "busy", "linger.ms": 0}))

    def is_told():
        delivered(producer, READ)
        producer.poll(0)
        return throttled and max(throttled) > 0
    eventually(is_told, "a client that has used its time is told so", 30)
    check(max(throttled) <= 1, f"held up for {max(throttled)} s, more than a second")


def unlimited():
    """Another user is not held up, though the client id is the same as that of the throttled one."""
    throttled = []
    producer = ck.Producer(settings("admin", throttled, **{"client.id": "writer", "linger.ms": 0}))
    # Enough to read at twice the limit, and more than a window of it.
    for _ in range(2 * SECONDS * QUOTA_BYTES // len(VALUE) + 50):
        delivered(producer, READ)
    same([one for one in throttled if one > 0], [], "times of throttling")


def main():
    run("who has no quota is not throttled", unlimited)
    # At the same time: each waits for the server.
    failures = []

    def reads():
        try:
            consumes()
        except Exception as error:
            failures.append(error)
    reader = threading.Thread(target=reads)
    reader.start()
    run("confluent-kafka produces within its quota and is told how long to wait", produces)

    def joined():
        reader.join()
        if failures:
            raise failures[0]
    run("confluent-kafka consumes within its quota and is told how long to wait", joined)
    run("a client with too little time of threads is told how long to wait", busy)
    return 1 if harness.failed else 0


if __name__ == "__main__":
    sys.exit(main())
