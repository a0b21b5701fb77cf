"""NATS clients and Kafka clients on one log. Run by interop/run.sh, against tailrace only.

From NATS: nats-py publishes, and librdkafka, kafka-python and the Java client read. From Kafka: librdkafka
and kafka-python produce, and nats-py subscribes. nats.go publishes as JetStream clients do.
"""
import asyncio, json, os, random, subprocess, sys
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka import KafkaProducer
from kafka.partitioner.default import murmur2
import nats
import harness
from harness import BOOTSTRAP, REPLICAS, SMOKE, check, flushed, same

STATE, ROOT = os.environ["INTEROP_STATE"], os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
WAIT_S = 30
admin = AdminClient({"bootstrap.servers": BOOTSTRAP})


def test(in_smoke, name, action, *args):
    if in_smoke or not SMOKE:
        harness.run(f"mixed: {name}", lambda: asyncio.run(action(*args)))


async def connect(**options):
    with open(f"{STATE}/nats") as file:
        return await asyncio.wait_for(nats.connect(f"nats://{file.read().strip()}", **options), WAIT_S)


def topic(name, subjects, partitions=1, **config):
    """A topic that captures what is published to these subjects."""
    name = f"{name}-{random.randrange(1 << 32):08x}"
    config = {"tailrace.subjects": subjects.replace("NAME", name), **{key.replace("__", "."): value for key, value in config.items()}}
    admin.create_topics([NewTopic(name, partitions, REPLICAS, config={k: v for k, v in config.items() if v})])[name].result(WAIT_S)
    return name


def read(name, count, partitions=1):
    """All records of a topic as librdkafka sees them. There must be this many, and no more."""
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(name, p, 0) for p in range(partitions)])
    out, ended = [], set()
    while len(out) < count or len(ended) < partitions:
        record = consumer.poll(WAIT_S)
        check(record is not None, f"{len(out)} of {count} records")
        if record.error():
            check(record.error().code() == -191, f"{record.error()}")  # the end of a partition
            ended.add(record.partition())
        else:
            ended.discard(record.partition())
            out.append(record)
    consumer.close()
    same(len(out), count, "records")
    return out


def delivered(producer):
    check(producer.flush(WAIT_S) == 0, "records are left")


async def collect(subscription, count):
    return [await subscription.next_msg(WAIT_S) for _ in range(count)]


# ---- NATS -> Kafka ----

async def captured(count):
    name = topic("captured", "NAME.>")
    nc = await connect()
    sent = [(f"{name}.{i % 7}.new", b"%d" % i) for i in range(count)]
    for subject, payload in sent:
        await nc.publish(subject, payload)
    await nc.publish(f"{name}x.other", b"not for this topic")
    await flushed(nc)
    records = read(name, count)
    same([(r.key().decode(), r.value()) for r in records], sent, "keys and values in order")
    same([r.offset() for r in records], list(range(count)), "offsets")
    same({r.headers() and tuple(r.headers()) for r in records}, {None}, "headers of plain messages")
    # The Java client, from the start.
    out = subprocess.run(["java", "-Xmx256m", "-cp", f"{ROOT}/java/target/classes:{os.environ['KAFKA_LIBS']}/*", "tailrace.interop.NatsMain", "read", name, str(count)],
                         check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    same(out, [f"{subject}\t{payload.decode()}" for subject, payload in sent], "as the Java client reads it")
    await nc.close()


async def captured_partitions(count):
    partitions = 4
    name = topic("spread", "NAME.>", partitions)
    nc = await connect()
    for i in range(count):
        await nc.publish(f"{name}.{i % 20}", b"%d" % i)
    await flushed(nc)
    last = {}
    for r in read(name, count, partitions):
        same(r.partition(), (murmur2(r.key()) & 0x7FFFFFFF) % partitions, f"partition of {r.key()}")
        check(int(r.value()) > last.get(r.key(), -1), f"order of {r.key()}")
        last[r.key()] = int(r.value())
    # A Kafka client with the same key uses the same partition.
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
    for key in last:
        same(producer.send(name, b"kafka", key).get(WAIT_S).partition, (murmur2(key) & 0x7FFFFFFF) % partitions, "partition")
    producer.close()
    await nc.close()


async def captured_headers():
    name = topic("headers", "NAME.*")
    nc = await connect()
    await nc.publish(f"{name}.a", b"1", headers={"One": "1", "lower": "x"})
    await nc.publish(f"{name}.b", b"2", headers={"Kafka-Key": "customer-7"})
    await nc.publish(f"{name}.c", b"")
    await flushed(nc)
    first, second, third = read(name, 3)
    same((first.key().decode(), first.value(), first.headers()), (f"{name}.a", b"1", [("One", b"1"), ("lower", b"x")]), "headers")
    same((second.key(), second.value()), (b"customer-7", b"2"), "a key of its own")
    check(("Nats-Subject", f"{name}.b".encode()) in second.headers(), f"the subject is not kept: {second.headers()}")
    same((third.key().decode(), third.value() or b""), (f"{name}.c", b""), "an empty message")
    await nc.close()


async def bound_later():
    """A topic of Kafka's starts to capture, and stops."""
    name = topic("later", "")
    nc = await connect()

    def alter(subjects):
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[ConfigEntry("tailrace.subjects", subjects, incremental_operation=AlterConfigOpType.SET)])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(WAIT_S)
    await nc.publish(f"{name}.x", b"too early")
    await flushed(nc)
    alter(f"{name}.>")
    await nc.publish(f"{name}.x", b"captured")
    await flushed(nc)
    same([r.value() for r in read(name, 1)], [b"captured"], "records")
    alter("")
    await nc.publish(f"{name}.x", b"too late")
    await flushed(nc)
    same([r.value() for r in read(name, 1)], [b"captured"], "records")
    await nc.close()


async def acknowledged(count):
    name = topic("acked", "NAME.>")
    nc = await connect()
    acks = [json.loads((await nc.request(f"{name}.x", b"%d" % i, WAIT_S)).data) for i in range(3)]
    same([(a["stream"], a["seq"]) for a in acks], [(name, 1), (name, 2), (name, 3)], "acknowledgements")
    answers = await asyncio.gather(*[nc.request(f"{name}.{i}", b"", WAIT_S) for i in range(count)])
    same(sorted(json.loads(a.data)["seq"] for a in answers), list(range(4, count + 4)), "sequences of requests at once")
    ack = await nc.jetstream().publish(f"{name}.js", b"JetStream")
    same((ack.stream, ack.seq), (name, count + 4), "JetStream's own publish")
    read(name, count + 4)
    out = subprocess.run([os.environ["GO_NATS_BIN"], "publish", f"{name}.go", "100"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    same(out, [f"{name}/{count + 5 + i}" for i in range(100)], "nats.go's JetStream publish")
    await nc.close()


async def acknowledged_partitions():
    partitions = 3
    name = topic("acked.dots", "NAME.>", partitions)
    nc = await connect()
    for i in range(20):
        subject = f"{name}.{i}"
        ack = json.loads((await nc.request(subject, b"", WAIT_S)).data)
        partition = (murmur2(subject.encode()) & 0x7FFFFFFF) % partitions
        same(ack["stream"], f"{name.replace('.', '_')}-{partition}", "stream of a topic with several partitions")
    await nc.close()


async def services():
    """Requests on captured subjects are answered by a service and not by the server."""
    name = topic("service", "NAME.>", tailrace__subjects__ack="false")
    service, client = await connect(), await connect()

    async def answer(m):
        await m.respond(b"answer to " + m.data)
    await service.subscribe(f"{name}.ask", cb=answer)
    await flushed(service)
    for i in range(50):
        same((await client.request(f"{name}.ask", b"%d" % i, WAIT_S)).data, b"answer to %d" % i, "answer")
    same([r.value() for r in read(name, 50)], [b"%d" % i for i in range(50)], "what was asked")
    await service.close()
    await client.close()


async def live_once():
    """Captured messages reach subscribers once, not once more from the log."""
    name = topic("once", "NAME.>")
    nc, other = await connect(), await connect()
    inbox = await nc.subscribe(f"{name}.>")
    everything = await nc.subscribe(">")
    await flushed(nc)
    for i in range(100):
        await other.publish(f"{name}.{i}", b"%d" % i)
    await flushed(other)
    same([m.data for m in await collect(inbox, 100)], [b"%d" % i for i in range(100)], "messages")
    read(name, 100)
    await other.publish(f"{name}.last", b"last")
    await flushed(other)
    same((await inbox.next_msg(WAIT_S)).data, b"last", "the next message")
    same(len(await collect(everything, 101)), 101, "messages of everything")
    await flushed(nc)
    same((inbox.pending_msgs, everything.pending_msgs), (0, 0), "more than that")
    await nc.close()
    await other.close()


async def refused():
    """Bindings that are refused."""
    first = topic("owner", "NAME.orders.>")
    for subjects, why in [(f"{first}.orders.eu", first), ("$JS.API.>", "$JS"), ("_INBOX.>", "_INBOX"), (">", ""), ("a..b", "")]:
        try:
            topic("second", subjects)
            raise harness.Failure(f"a topic with {subjects} was created")
        except harness.Failure:
            raise
        except Exception as error:
            check(why in str(error), f"{subjects}: the error does not name {why}: {error}")


# ---- Kafka -> NATS ----

async def heard(count):
    name = topic("heard", "NAME.>")
    nc = await connect()
    inbox = await nc.subscribe(f"{name}.>")
    plain = await nc.subscribe(name)
    await flushed(nc)
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5})
    for i in range(count):
        producer.produce(name, b"%d" % i, key=f"{i % 5}")
    producer.produce(name, b"no key")
    producer.produce(name, b"key with blanks", key="a b")
    producer.produce(name, b"subject in a header", key="k", headers=[("Nats-Subject", f"{name}.deep.er")])
    producer.produce(name, b"subject elsewhere", key="k", headers=[("Nats-Subject", "else.where")])
    delivered(producer)
    messages = await collect(inbox, count + 2)
    same([(m.subject, m.data) for m in messages[:count]], [(f"{name}.{i % 5}", b"%d" % i) for i in range(count)], "subjects and payloads in order")
    same([(m.subject, m.data) for m in messages[count:]], [(f"{name}.deep.er", b"subject in a header"), (f"{name}.k", b"subject elsewhere")], "subjects of headers")
    same([m.data for m in await collect(plain, 2)], [b"no key", b"key with blanks"], "records whose key is no subject")
    await nc.close()


async def heard_headers():
    name = topic("heardheaders", "")
    nc = await connect()
    inbox = await nc.subscribe(f"{name}.k")
    await flushed(nc)
    producer = Producer({"bootstrap.servers": BOOTSTRAP})
    producer.produce(name, b"v", key="k", headers=[("One", b"1"), ("Two", b"a: b"), ("Empty", b"")])
    producer.produce(name, b"v", key="k", headers=[("Evil", b"x\r\nMSG y 1 0\r\n"), ("Bytes", bytes(range(256)))])
    producer.produce(name, b"v", key="k", headers=[("After", b"it")])
    delivered(producer)
    first, evil, after = await collect(inbox, 3)
    for key, value in [("One", "1"), ("Two", "a: b"), ("Empty", "")]:
        same(first.headers.get(key), value, f"header {key}")
    check(all("\r" not in v and "\n" not in v for v in (evil.headers or {}).values()), f"raw bytes in a header: {evil.headers}")
    same((after.headers["After"], after.data), ("it", b"v"), "what comes after it")
    await nc.close()


async def heard_compressed():
    """Batches of every codec are decoded for subscribers."""
    name = topic("codecs", "")
    nc = await connect()
    inbox = await nc.subscribe(f"{name}.*")
    await flushed(nc)
    for codec in "none", "gzip", "snappy", "lz4", "zstd":
        producer = Producer({"bootstrap.servers": BOOTSTRAP, "compression.type": codec, "linger.ms": 50})
        for i in range(200):
            producer.produce(name, b"%d " % i * 50, key=codec)
        delivered(producer)
        messages = await collect(inbox, 200)
        same([(m.subject, m.data) for m in messages], [(f"{name}.{codec}", b"%d " % i * 50) for i in range(200)], codec)
    await nc.close()


async def heard_from_three(count):
    """Three Kafka clients, three partitions, one NATS subscriber: order within each key."""
    name = topic("three", "", 3)
    nc = await connect(pending_size=1 << 26)
    inbox = await nc.subscribe(f"{name}.>", pending_msgs_limit=-1, pending_bytes_limit=-1)
    await flushed(nc)

    def send(who):
        producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5, "enable.idempotence": True})
        for i in range(count):
            producer.produce(name, b"%d" % i, key=f"{who}.{i % 10}")
            if i % 1000 == 0:
                producer.poll(0)
        delivered(producer)
    tasks = [asyncio.create_task(asyncio.to_thread(send, who)) for who in range(3)]
    last = {}
    for m in await collect(inbox, 3 * count):
        check(int(m.data) > last.get(m.subject, -1), f"order of {m.subject}")
        last[m.subject] = int(m.data)
    await asyncio.gather(*tasks)
    same(len(last), 30, "subjects")
    await nc.close()


scale = 1 if SMOKE else 10
test(True, "a NATS publisher, and Kafka consumers in C and Java", captured, 1000 * scale)
test(True, "subjects spread over partitions as keys are", captured_partitions, 500 * scale)
test(True, "headers and keys from NATS", captured_headers)
test(False, "a topic that begins and ceases to capture", bound_later)
test(True, "acknowledged publishing", acknowledged, 100 * scale)
test(False, "acknowledged publishing to several partitions", acknowledged_partitions)
test(True, "request and reply on captured subjects", services)
test(True, "captured messages are delivered once", live_once)
test(False, "bindings that are refused", refused)
test(True, "a Kafka producer, and NATS subscribers", heard, 1000 * scale)
test(True, "headers from Kafka", heard_headers)
test(False, "compressed batches", heard_compressed)
test(False, "several producers and partitions", heard_from_three, 2000 * scale)
sys.exit(1 if harness.failed else 0)
