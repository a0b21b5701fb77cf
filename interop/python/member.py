"""One member of a group in a process of its own, so that it can be killed: member.py CLIENT key=value...

Its options and its output are the same for every client in every language (see groups.py, which starts it).
"""
import asyncio, os, sys, threading, time

client, options = sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])
BOOTSTRAP, ROLE, TOPIC, GROUP = (options[name] for name in ("bootstrap", "role", "topic", "group"))
SESSION_MS = int(options.get("session", 6000))
BATCH_MAX = int(options.get("batch", 100))
stop = threading.Event()


def say(*words):
    # One write per line: threads of a client call back at any time.
    os.write(1, (" ".join([f"{time.time():.6f}", *map(str, words)]) + "\n").encode())


def watch_stdin():
    sys.stdin.read()
    stop.set()


def tell_got(records):
    """Prints runs of offsets without a gap: got PARTITION FIRST LAST."""
    runs = []
    for partition, offset in records:
        if runs and runs[-1][0] == partition and runs[-1][2] + 1 == offset:
            runs[-1][2] = offset
        else:
            runs.append([partition, offset, offset])
    for run in runs:
        say("got", *run)


def tell_partitions(event, partitions):
    say(event, *sorted(p.partition for p in partitions))


# ---- confluent-kafka ----

def confluent_consumer(**more):
    from confluent_kafka import Consumer
    config = {"bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 2,
              "reconnect.backoff.max.ms": 300, "client.id": options.get("instance", "member"), **more}
    if options.get("protocol") == "consumer":
        config["group.protocol"] = "consumer"
    else:
        config |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500, "partition.assignment.strategy": "cooperative-sticky"}
    if "instance" in options:
        config["group.instance.id"] = options["instance"]
    c = Consumer(config)
    c.subscribe([TOPIC], on_assign=lambda _, ps: tell_partitions("assigned", ps), on_revoke=lambda _, ps: tell_partitions("revoked", ps),
                on_lost=lambda _, ps: tell_partitions("lost", ps))
    return c


def confluent_poll(c):
    from confluent_kafka import KafkaError
    messages = []
    for m in c.consume(BATCH_MAX, 0.2):
        if not m.error():
            messages.append(m)
        elif m.error().fatal() or m.error().code() == KafkaError.FENCED_INSTANCE_ID:
            say("fatal", m.error().name(), m.error().str())
            sys.exit(4)
        else:
            say("note", m.error().name())
    return messages


def confluent_consume():
    from confluent_kafka import KafkaException, TopicPartition
    c = confluent_consumer()
    while not stop.is_set():
        messages = confluent_poll(c)
        if not messages:
            continue
        tell_got((m.partition(), m.offset()) for m in messages)
        last = {m.partition(): m.offset() + 1 for m in messages}
        try:
            for done in c.commit(offsets=[TopicPartition(TOPIC, p, o) for p, o in last.items()], asynchronous=False):
                say("note", done.error) if done.error else say("committed", done.partition, done.offset)
        except KafkaException as error:
            say("note", error.args[0].name())
            if error.args[0].fatal() or error.args[0].name() == "FENCED_INSTANCE_ID":
                say("fatal", error.args[0].name())
                sys.exit(4)
    c.close()


def confluent_copy():
    from confluent_kafka import Producer, TopicPartition
    # librdkafka issue 5511 (2.16): once every broker was away, a producer that discovers the brokers again
    # sends offsets to a handle that is gone, and waits forever.
    p = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": options["txn"], "transaction.timeout.ms": 10_000, "log_level": 2, "linger.ms": 2,
                  "reconnect.backoff.max.ms": 300, "metadata.recovery.strategy": "none"})
    p.init_transactions(30)
    c = confluent_consumer(**{"isolation.level": "read_committed"})
    say("ready")
    turn = 0
    while not stop.is_set():
        messages = confluent_poll(c)
        if not messages:
            continue
        turn += 1
        if turn % 5 == 0:
            p.begin_transaction()
            for m in messages:
                p.produce(options["out"], b"aborted " + m.value(), partition=m.partition())
            p.flush(30)
            p.abort_transaction(30)
        p.begin_transaction()
        for m in messages:
            p.produce(options["out"], b"copy of " + m.value(), partition=m.partition())
        last = {m.partition(): m.offset() + 1 for m in messages}
        p.send_offsets_to_transaction([TopicPartition(TOPIC, part, o) for part, o in last.items()], c.consumer_group_metadata(), 30)
        p.commit_transaction(30)
        say("copied", len(messages))
    c.close()


def confluent_fence():
    from confluent_kafka import KafkaException, Producer
    config = {"bootstrap.servers": BOOTSTRAP, "transactional.id": options["txn"], "log_level": 0}
    first, second = Producer(config), Producer(config)
    first.init_transactions(30)
    first.begin_transaction()
    first.produce(options["out"], b"of the first", partition=0)
    first.flush(30)
    second.init_transactions(30)
    second.begin_transaction()
    second.produce(options["out"], b"of the second", partition=0)
    second.commit_transaction(30)
    try:
        first.commit_transaction(30)
    except KafkaException as error:
        say("fenced" if error.args[0].fatal() else "error", error.args[0].name())
        return
    say("error", "the first producer committed")


# ---- kafka-python ----

def kafka_python_consume():
    from kafka import KafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            tell_partitions("assigned", assigned)

        def on_partitions_revoked(self, revoked):
            tell_partitions("revoked", revoked)

        def on_partitions_lost(self, lost):
            tell_partitions("lost", lost)
    more = {"group_instance_id": options["instance"]} if "instance" in options else {}
    c = KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest", session_timeout_ms=SESSION_MS,
                      heartbeat_interval_ms=500, max_poll_records=BATCH_MAX, reconnect_backoff_max_ms=300, **more)
    c.subscribe([TOPIC], listener=Listener())
    while not stop.is_set():
        try:
            found = c.poll(200)
            if not found:
                continue
            tell_got((r.partition, r.offset) for records in found.values() for r in records)
            last = {tp: records[-1].offset + 1 for tp, records in found.items()}
            c.commit({tp: OffsetAndMetadata(o, "", -1) for tp, o in last.items()})
            for tp, o in last.items():
                say("committed", tp.partition, o)
        except KafkaError as error:
            fenced = "Fenced" in type(error).__name__
            say("fatal" if fenced else "note", type(error).__name__)
            if fenced:
                sys.exit(4)
    c.close()


# ---- aiokafka ----

async def aio_consumer(**more):
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned):
            tell_partitions("assigned", assigned)

        async def on_partitions_revoked(self, revoked):
            if revoked:
                tell_partitions("revoked", revoked)
    if "instance" in options:
        more["group_instance_id"] = options["instance"]
    c = AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest", session_timeout_ms=SESSION_MS,
                         heartbeat_interval_ms=500, **more)
    c.subscribe([TOPIC], listener=Listener())
    await c.start()
    return c


async def aio_consume():
    from aiokafka.errors import KafkaError
    c = await aio_consumer()
    while not stop.is_set():
        try:
            found = await c.getmany(timeout_ms=200, max_records=BATCH_MAX)
            if not found:
                continue
            tell_got((r.partition, r.offset) for records in found.values() for r in records)
            last = {tp: records[-1].offset + 1 for tp, records in found.items()}
            await c.commit(last)
            for tp, o in last.items():
                say("committed", tp.partition, o)
        except KafkaError as error:
            say("note", type(error).__name__, error)
    await c.stop()


async def aio_copy():
    from aiokafka import AIOKafkaProducer
    p = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=options["txn"], transaction_timeout_ms=10_000)
    await p.start()  # first of all: it ends what an earlier run left open, and this client fetches offsets without asking for stable ones
    c = await aio_consumer(isolation_level="read_committed")
    say("ready")
    turn = 0
    while not stop.is_set():
        found = await c.getmany(timeout_ms=200, max_records=BATCH_MAX)
        if not found:
            continue
        turn += 1
        if turn % 5 == 0:
            await p.begin_transaction()
            for records in found.values():
                for r in records:
                    await p.send(options["out"], b"aborted " + r.value, partition=r.partition)
            await p.flush()
            await p.abort_transaction()
        await p.begin_transaction()
        for records in found.values():
            for r in records:
                await p.send(options["out"], b"copy of " + r.value, partition=r.partition)
        await p.flush()
        await p.send_offsets_to_transaction({tp: records[-1].offset + 1 for tp, records in found.items()}, GROUP)
        await p.commit_transaction()
        say("copied", sum(map(len, found.values())))
    await p.stop()
    await c.stop()


async def aio_fence():
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError
    make = lambda: AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=options["txn"])
    first, second = make(), make()
    await first.start()
    await first.begin_transaction()
    await first.send_and_wait(options["out"], b"of the first", partition=0)
    await second.start()
    await second.begin_transaction()
    await second.send_and_wait(options["out"], b"of the second", partition=0)
    await second.commit_transaction()
    try:
        await first.commit_transaction()
        say("error", "the first producer committed")
    except KafkaError as error:
        say("fenced" if "Fenced" in type(error).__name__ else "error", type(error).__name__, error)
    await second.stop()


def main():
    threading.Thread(target=watch_stdin, daemon=True).start()
    work = globals()[f"{'aio' if client == 'aiokafka' else client.replace('-', '_')}_{ROLE}"]
    try:
        asyncio.run(work()) if client == "aiokafka" else work()
    except Exception as error:
        say("error", repr(error))
        os._exit(3)
    say("left")
    os._exit(0)


main()
