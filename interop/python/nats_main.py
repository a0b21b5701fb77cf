"""nats-py against the NATS front. Run by interop/run.sh; the same tests pass against nats-server."""
import asyncio, os, ssl, subprocess, sys
import nats
from nats.errors import Error, MaxPayloadError, NoRespondersError
from nats.js.api import ConsumerConfig
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError, NotFoundError
import harness
from harness import SMOKE, check, flushed, raises, same

STATE, SERVER, TARGET = os.environ["INTEROP_STATE"], os.environ["INTEROP_SERVER"], os.environ["INTEROP_TARGET"]
WAIT_S = 20


def server(verb, state=STATE, *rest, **environment):
    subprocess.run([SERVER, verb, state, *rest], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})


def said(name, state=STATE):
    with open(f"{state}/{name}") as file:
        return file.read().strip()


async def quiet(_):
    pass


async def connect(url=None, **options):
    options.setdefault("error_cb", quiet)
    return await asyncio.wait_for(nats.connect(url or f"nats://{said('nats')}", connect_timeout=5, **options), WAIT_S)


def test(in_smoke, name, action, *args):
    if in_smoke or not SMOKE:
        harness.run(f"nats-py: {name}", lambda: asyncio.run(action(*args)))


async def refused(kind, what, url=None, **options):
    """A connection that must fail."""
    try:
        connection = await connect(url, allow_reconnect=False, max_reconnect_attempts=0, **options)
    except Exception as error:
        check(isinstance(error, kind), f"{what}: got {error!r}")
        return
    await connection.close()
    raise harness.Failure(f"{what}: the connection succeeded")


async def collect(subscription, count):
    return [await subscription.next_msg(WAIT_S) for _ in range(count)]


# ---- messages ----

async def publish_and_subscribe(url=None):
    mine, other = await connect(url), await connect(url)
    inbox = await mine.subscribe("py.simple.one")
    await flushed(mine)
    payloads = [b"hello", b"", bytes(range(256)) * 5, b"\r\nPUB x 1\r\n", "grüße".encode()]
    for payload in payloads:
        await other.publish("py.simple.one", payload)
    await flushed(other)
    same([m.data for m in await collect(inbox, len(payloads))], payloads, "payloads")
    await mine.close()
    await other.close()


async def wildcards():
    nc = await connect()
    words, rest, everything = await nc.subscribe("py.wild.*.end"), await nc.subscribe("py.wild.>"), await nc.subscribe(">")
    for subject in "py.wild.a.end", "py.wild.a.b.end", "py.wild.b.end", "py.wild", "py.other":
        await nc.publish(subject, subject.encode())
    await flushed(nc)
    same([m.subject for m in await collect(words, 2)], ["py.wild.a.end", "py.wild.b.end"], "*")
    same([m.subject for m in await collect(rest, 3)], ["py.wild.a.end", "py.wild.a.b.end", "py.wild.b.end"], ">")
    same(len(await collect(everything, 5)), 5, "everything")
    same((words.pending_msgs, rest.pending_msgs), (0, 0), "more than that")
    await nc.close()


async def queue_groups(count):
    members = [await connect() for _ in range(3)]
    got, alone = [0, 0, 0], [0]

    def counter(i):
        async def one(_):
            got[i] += 1
        return one

    async def single(_):
        alone[0] += 1
    for i, member in enumerate(members):
        await member.subscribe("py.queue.*", "workers", cb=counter(i))
        await flushed(member)
    await members[0].subscribe("py.queue.>", cb=single)
    sender = await connect()
    await flushed(members[0])
    for i in range(count):
        await sender.publish(f"py.queue.{i % 7}", b"work")
    await flushed(sender)
    await until(lambda: sum(got) >= count and alone[0] >= count, "all messages arrive")
    same((sum(got), alone[0]), (count, count), "messages to the group, and to one outside it")
    check(min(got) > count / 10, f"a member was left out: {got}")
    for nc in [*members, sender]:
        await nc.close()


async def until(probe, what):
    for _ in range(WAIT_S * 50):
        if probe():
            return
        await asyncio.sleep(0.02)
    raise harness.Failure(f"not within {WAIT_S} s: {what}")


async def requests(count):
    service, client = await connect(), await connect()

    async def answer(m):
        await m.respond(b"answer to " + m.data)
    await service.subscribe("py.service", cb=answer)
    await flushed(service)
    answers = await asyncio.gather(*[client.request("py.service", b"%d" % i, WAIT_S) for i in range(count)])
    same([m.data for m in answers], [b"answer to %d" % i for i in range(count)], "answers")
    old = await client.request("py.service", b"old style", WAIT_S, old_style=True)
    same(old.data, b"answer to old style", "a request with a subscription of its own")
    await service.close()
    await client.close()


async def no_responders():
    nc = await connect()
    try:
        await nc.request("py.nobody", b"?", WAIT_S)
        raise harness.Failure("the request was answered")
    except NoRespondersError:
        pass
    await nc.close()


async def headers():
    nc = await connect()
    inbox = await nc.subscribe("py.headers")
    sent = {"One": "1", "UPPER": "case", "lower": "case", "With-Dash": "a: b", "Empty": "", "Long": "x" * 3000}
    await nc.publish("py.headers", b"payload", headers=sent)
    await nc.publish("py.headers", b"", headers={"Only": "headers"})
    first, second = await collect(inbox, 2)
    same((first.headers, first.data), (sent, b"payload"), "headers")
    same((second.headers, second.data), ({"Only": "headers"}, b""), "headers without a payload")
    await nc.close()


async def large():
    nc = await connect()
    same(nc.max_payload, 1 << 20, "max_payload")
    inbox = await nc.subscribe("py.large")
    payload = os.urandom(1 << 20)
    for _ in range(8):
        await nc.publish("py.large", payload)
    check(all(m.data == payload for m in await collect(inbox, 8)), "a payload of 1 MiB was damaged")
    try:
        await nc.publish("py.large", payload + b"x")
        raise harness.Failure("a payload over the limit was taken")
    except MaxPayloadError:
        pass
    await nc.close()


async def too_large_for_the_server():
    """The client's own check is disabled, so that the server must refuse."""
    said, closed = [], asyncio.Event()

    async def failed(error):
        said.append(str(error))

    async def over():
        closed.set()
    nc = await connect(error_cb=failed, closed_cb=over, disconnected_cb=over, allow_reconnect=False)
    nc._max_payload = 1 << 30
    await nc.publish("py.toolarge", b"x" * ((1 << 20) + 1))
    await asyncio.wait_for(closed.wait(), WAIT_S)
    await nc.close()


async def unsubscribe():
    nc = await connect()
    limited = await nc.subscribe("py.unsub")
    await limited.unsubscribe(3)
    other = await nc.subscribe("py.unsub")
    for i in range(6):
        await nc.publish("py.unsub", b"%d" % i)
    same([m.data for m in await collect(limited, 3)], [b"0", b"1", b"2"], "messages up to the limit")
    same(len(await collect(other, 6)), 6, "another subscription's messages")
    await other.unsubscribe()
    await nc.publish("py.unsub", b"late")
    await flushed(nc)
    same(other.pending_msgs, 0, "messages after unsubscribe")
    await nc.close()


async def many_subscriptions(count):
    nc, sender, got = await connect(), await connect(), []

    async def one(m):
        got.append(m.subject)
    for i in range(count):
        await nc.subscribe(f"py.many.{i}", cb=one)
    await flushed(nc)
    for i in range(count):
        await sender.publish(f"py.many.{i}", b"x")
    await flushed(sender)
    await until(lambda: len(got) >= count, "a message per subscription")
    same(sorted(got), sorted(f"py.many.{i}" for i in range(count)), "subjects")
    await nc.close()
    await sender.close()


async def in_order(count):
    nc, sender = await connect(), await connect()
    inbox = await nc.subscribe("py.order.*", pending_msgs_limit=-1, pending_bytes_limit=-1)
    await flushed(nc)

    async def send():
        for i in range(count):
            await sender.publish(f"py.order.{i % 5}", b"%d" % i)
        await flushed(sender)
    task = asyncio.create_task(send())
    for i in range(count):
        m = await inbox.next_msg(WAIT_S)
        if m.data != b"%d" % i:
            same(m.data, b"%d" % i, "order")
    await task
    await nc.close()
    await sender.close()


async def drain():
    nc, sender, got = await connect(), await connect(), []

    async def slow(m):
        await asyncio.sleep(0.001)
        got.append(m.data)
    await nc.subscribe("py.drain", cb=slow)
    await flushed(nc)
    for i in range(300):
        await sender.publish("py.drain", b"%d" % i)
    await flushed(sender)
    await nc.drain()
    same(got, [b"%d" % i for i in range(300)], "messages before the end of the drain")
    check(nc.is_closed, "the connection is still open")
    await sender.close()


# ---- a server that stops and starts ----

async def reconnect():
    again, gone = asyncio.Event(), asyncio.Event()

    async def is_back():
        again.set()

    async def is_gone():
        gone.set()
    nc = await connect(reconnected_cb=is_back, disconnected_cb=is_gone, reconnect_time_wait=0.1, max_reconnect_attempts=-1)
    inbox = await nc.subscribe("py.again.*")
    await nc.publish("py.again.before", b"1")
    same((await inbox.next_msg(WAIT_S)).data, b"1", "before the restart")
    await asyncio.to_thread(server, "restart")
    await asyncio.wait_for(gone.wait(), WAIT_S)
    await asyncio.wait_for(again.wait(), WAIT_S)
    await nc.publish("py.again.after", b"2")
    same((await inbox.next_msg(WAIT_S)).data, b"2", "after the restart")
    await nc.close()


# ---- authentication and TLS ----

class Front:
    """Another server, with another front."""
    def __init__(self, kind):
        self.kind, self.state = kind, f"{STATE}/{kind}"

    def __enter__(self):
        server("start", self.state, TARGET, NATS_FRONT=self.kind)
        self.address = said("nats", self.state)
        return self

    def __exit__(self, *_):
        server("stop", self.state, "KILL")

    def tls(self, certificate=False):
        context = ssl.create_default_context(cafile=f"{self.state}/ca.pem")
        if certificate:
            context.load_cert_chain(f"{self.state}/client.pem", f"{self.state}/client.key")
        return context


async def works(nc):
    inbox = await nc.subscribe("py.works")
    await nc.publish("py.works", b"yes")
    same((await inbox.next_msg(WAIT_S)).data, b"yes", "a message")
    await nc.close()


async def user_and_password():
    with Front("user") as f:
        await works(await connect(f"nats://alice:s3cret@{f.address}"))
        await works(await connect(f"nats://{f.address}", user="alice", password="s3cret"))
        await refused(Error, "a wrong password", f"nats://{f.address}", user="alice", password="wrong")
        await refused(Error, "no password", f"nats://{f.address}")


async def token():
    with Front("token") as f:
        await works(await connect(f"nats://{f.address}", token="open-sesame"))
        await refused(Error, "a wrong token", f"nats://{f.address}", token="open-barley")


async def credentials():
    with Front("creds") as f:
        url = f"nats://{f.address}"
        await works(await connect(url, user_credentials=f"{f.state}/good.creds"))
        said_of = []

        async def complaint(error):
            said_of.append(str(error))
        scoped = await connect(url, user_credentials=f"{f.state}/scoped.creds", error_cb=complaint)
        inside = await scoped.subscribe("scoped.x")
        await scoped.publish("scoped.x", b"yes")
        same((await inside.next_msg(WAIT_S)).data, b"yes", "inside the scope")
        await scoped.publish("other.x", b"no")
        await flushed(scoped)
        await until(lambda: any("permissions violation for publish to \"other.x\"" in text.lower() for text in said_of), "the scope's refusal")
        await scoped.close()
        for name in "revoked", "expired", "stranger", "forged":
            await refused(Error, name, url, user_credentials=f"{f.state}/{name}.creds")
        await refused(Error, "no claims", url)
        await refused(Error, "a password", url, user="alice", password="s3cret")


async def nkey():
    with Front("nkey") as f:
        await works(await connect(f"nats://{f.address}", nkeys_seed=f"{f.state}/seed"))
        subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "../nats/nkey.py"), f"{f.state}/other"], check=True, stdout=subprocess.DEVNULL)
        await refused(Error, "another key", f"nats://{f.address}", nkeys_seed=f"{f.state}/other")


async def tls():
    with Front("tls") as f:
        await works(await connect(f"tls://{f.address}", tls=f.tls()))
        await refused(Exception, "an authority that the client does not know", f"tls://{f.address}", tls=ssl.create_default_context())


async def tls_client_certificate():
    with Front("tls-verify") as f:
        await works(await connect(f"tls://{f.address}", tls=f.tls(certificate=True)))
        await refused(Exception, "no certificate", f"tls://{f.address}", tls=f.tls())


async def tls_first():
    with Front("tls-first") as f:
        await works(await connect(f"tls://{f.address}", tls=f.tls(), tls_handshake_first=True))


async def jetstream_streams():
    """A stream from its creation to its end, as nats-py sees it."""
    nc = await connect()
    js = nc.jetstream()
    made = await js.add_stream(name="PY", subjects=["py.js.>"], allow_direct=True)
    same((made.config.name, made.config.subjects, made.state.messages), ("PY", ["py.js.>"], 0), "the new stream")
    # The same again is no error, as every application that starts relies on.
    await js.add_stream(name="PY", subjects=["py.js.>"], allow_direct=True)
    for number in range(5):
        ack = await js.publish(f"py.js.{number % 2}", f"m{number}".encode(), headers={"Number": str(number)})
        same((ack.stream, ack.seq), ("PY", number + 1), "acknowledgement")
    info = await js.stream_info("PY", subjects_filter=">")
    same((info.state.messages, info.state.first_seq, info.state.last_seq), (5, 1, 5), "state")
    same(info.state.subjects, {"py.js.0": 3, "py.js.1": 2}, "subjects")
    for direct in (False, True):
        message = await js.get_msg("PY", 2, direct=direct)
        same((message.subject, message.data, message.seq), ("py.js.1", b"m1", 2), f"by sequence, direct: {direct}")
        same(message.headers["Number"], "1", "header")
        message = await js.get_last_msg("PY", "py.js.0", direct=direct)
        same((message.data, message.seq), (b"m4", 5), f"last of a subject, direct: {direct}")
        message = await js.get_msg("PY", 3, subject="py.js.1", next=True, direct=direct)
        same(message.seq, 4, f"next of a subject, direct: {direct}")
        try:
            await js.get_msg("PY", 99, direct=direct)
            raise harness.Failure("a message that is not there was found")
        except NotFoundError:
            pass
    same(await js.find_stream_name_by_subject("py.js.x"), "PY", "the stream of a subject")
    changed = await js.update_stream(name="PY", subjects=["py.js.>", "py.more"], allow_direct=True)
    same(changed.config.subjects, ["py.js.>", "py.more"], "the changed stream")
    same([stream.config.name for stream in await js.streams_info()], ["PY"], "all streams")
    same((await js.account_info()).streams, 1, "streams of the account")
    check(await js.purge_stream("PY", keep=2), "purge")
    state = (await js.stream_info("PY")).state
    same((state.messages, state.first_seq, state.last_seq), (2, 4, 5), "what a purge keeps")
    check(await js.delete_stream("PY"), "delete")
    try:
        await js.stream_info("PY")
        raise harness.Failure("the deleted stream is still there")
    except NotFoundError:
        pass
    await nc.close()


async def jetstream_pulls():
    """A durable consumer, as nats-py pulls from it and acknowledges."""
    nc = await connect()
    js = nc.jetstream()
    await js.add_stream(name="PYPULL", subjects=["py.pull.>"])
    for number in range(7):
        await js.publish(f"py.pull.{number % 2}", f"m{number}".encode(), headers={"Number": str(number)})
    config = ConsumerConfig(ack_wait=60, filter_subject="py.pull.>")
    pulls = await js.pull_subscribe("py.pull.>", durable="worker", config=config)
    got = await pulls.fetch(5, timeout=WAIT_S)
    same([(m.subject, m.data, m.headers["Number"]) for m in got], [(f"py.pull.{n % 2}", b"m%d" % n, str(n)) for n in range(5)], "the first five")
    same([(m.metadata.sequence.stream, m.metadata.num_delivered, m.metadata.num_pending) for m in got], [(n, 1, 7 - n) for n in range(1, 6)], "what they tell")
    await got[0].ack_sync(WAIT_S)
    await got[1].ack()
    await got[2].nak()
    await got[3].term()
    await got[4].in_progress()
    rest = []
    while len(rest) < 3:
        rest += await pulls.fetch(3 - len(rest), timeout=WAIT_S)
    rest.sort(key=lambda m: m.data)
    same([(m.data, m.metadata.num_delivered) for m in rest], [(b"m2", 2), (b"m5", 1), (b"m6", 1)], "the one that was refused, and the others")
    await rest.pop(0).ack_sync(WAIT_S)
    await got[4].ack_sync(WAIT_S)
    info = await js.consumer_info("PYPULL", "worker")
    same((info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq), (0, 2, 5), "the consumer")
    try:
        await pulls.fetch(1, timeout=0.5)
        raise harness.Failure("there was one more")
    except asyncio.TimeoutError:
        pass
    # One that waits gets what is published later.
    waiting = asyncio.create_task(pulls.fetch(1, timeout=WAIT_S))
    await until_waiting(js, "PYPULL", "worker")
    await js.publish("py.pull.later", b"later")
    same([m.data for m in await waiting], [b"later"], "what came later")
    same(len(await js.consumers_info("PYPULL")), 1, "consumers")
    # Another client of the same durable goes on where this one is.
    other = await nc.jetstream().pull_subscribe_bind("worker", "PYPULL")
    for m in rest:
        await m.ack_sync(WAIT_S)
    same((await js.consumer_info("PYPULL", "worker")).ack_floor.stream_seq, 7, "the ack floor")
    await js.publish("py.pull.0", b"other")
    same([m.data for m in await other.fetch(1, timeout=WAIT_S)], [b"other"], "the other client")
    check(await js.delete_consumer("PYPULL", "worker"), "delete")
    try:
        await js.consumer_info("PYPULL", "worker")
        raise harness.Failure("the deleted consumer is still there")
    except NotFoundError:
        pass
    await js.delete_stream("PYPULL")
    await nc.close()


async def until_waiting(js, stream, consumer):
    for _ in range(WAIT_S * 50):
        if (await js.consumer_info(stream, consumer)).num_waiting:
            return
        await asyncio.sleep(0.02)
    raise harness.Failure(f"no pull waits within {WAIT_S} s")


async def jetstream_pushes():
    """Subscriptions as nats-py makes them: plain, of a queue group, in order."""
    nc, other = await connect(), await connect()
    js = nc.jetstream()
    await js.add_stream(name="PYPUSH", subjects=["py.push.>"])
    for number in range(5):
        await js.publish(f"py.push.{number % 2}", f"m{number}".encode())
    plain = await js.subscribe("py.push.1")
    got = await collect(plain, 2)
    same([(m.subject, m.data, m.metadata.num_pending) for m in got], [("py.push.1", b"m1", 1), ("py.push.1", b"m3", 0)], "a filter")
    for m in got:
        await m.ack_sync(WAIT_S)
    same((await plain.consumer_info()).num_ack_pending, 0, "acknowledged")
    await plain.unsubscribe()
    # A durable one of a queue group, whose members are two connections.
    seen = []

    async def member(m):
        seen.append(m.data)
        await m.ack()
    await js.subscribe("py.push.>", queue="workers", durable="workers", cb=member)
    await other.jetstream().subscribe("py.push.>", queue="workers", durable="workers", cb=member)
    for number in range(5, 25):
        await js.publish("py.push.0", f"m{number}".encode())
    await until(lambda: len(seen) == 25, "the group has all messages")
    same(sorted(seen), sorted(b"m%d" % n for n in range(25)), "each once")
    # In order, with flow control.
    ordered = await js.subscribe("py.push.>", ordered_consumer=True)
    same([m.data for m in await collect(ordered, 25)], [b"m%d" % n for n in range(25)], "in order")
    large = bytes(100_000)
    for number in range(60):
        await js.publish("py.push.large", large)
    same([len(m.data) for m in await collect(ordered, 60)], [len(large)] * 60, "much")
    await js.delete_stream("PYPUSH")
    await nc.close()
    await other.close()


async def jetstream_buckets():
    """A bucket of keys and values: what is put, found, watched, listed, and its history."""
    nc = await connect()
    js = nc.jetstream()
    # As create_key_value makes it, but without TTLs of messages.
    rules = {"max_msgs_per_subject": 5, "discard": "new", "allow_rollup_hdrs": True, "deny_delete": True}
    await js.add_stream(name="KV_PYKV", subjects=["$KV.PYKV.>"], allow_direct=True, **rules)
    kv = await js.key_value("PYKV")
    same([await kv.put("a", b"1"), await kv.put("b", b"2"), await kv.put("a", b"3")], [1, 2, 3], "revisions")
    entry = await kv.get("a")
    same((entry.key, entry.value, entry.revision), ("a", b"3", 3), "the last of a key")
    same((await kv.get("a", revision=1)).value, b"1", "an earlier one")
    watcher = await kv.watchall()
    initial = [await watcher.updates(WAIT_S) for _ in range(3)]
    same([e and (e.key, e.value) for e in initial], [("b", b"2"), ("a", b"3"), None], "what a watch begins with")
    await kv.put("c", b"4")
    entry = await watcher.updates(WAIT_S)
    same((entry.key, entry.value, entry.revision), ("c", b"4", 4), "what a watch goes on with")
    check(await kv.delete("b"), "delete")
    entry = await watcher.updates(WAIT_S)
    same((entry.key, entry.operation), ("b", "DEL"), "the watch sees that")
    await watcher.stop()
    try:
        await kv.get("b")
        raise harness.Failure("the deleted key is still there")
    except KeyNotFoundError:
        pass
    same(sorted(await kv.keys()), ["a", "c"], "keys")
    same([(e.value, e.revision) for e in await kv.history("a")], [(b"1", 1), (b"3", 3)], "history")
    status = await kv.status()
    same((status.values, status.history), (5, 5), "status")
    check(await js.delete_key_value("PYKV"), "delete the bucket")


async def jetstream_publish():
    """Expectations and ids, and the entries of a bucket, which rest on them."""
    nc = await connect()
    js = nc.jetstream()
    await js.add_stream(name="PYP", subjects=["py.p.>"])

    async def put(subject, **headers):
        ack = await js.publish(subject, b"x", headers={f"Nats-{name.replace('_', '-')}": value for name, value in headers.items()})
        return ack.seq, bool(ack.duplicate)

    async def wrong(code, subject, **headers):
        try:
            await put(subject, **headers)
        except APIError as error:
            return same(error.err_code, code, str(headers))
        raise harness.Failure(f"{headers} was not refused")

    same(await put("py.p.1", Msg_Id="one"), (1, False), "an id")
    same(await put("py.p.2", Msg_Id="one"), (1, True), "the same id")
    same(await put("py.p.1", Expected_Last_Sequence="1"), (2, False), "the last sequence")
    await wrong(10071, "py.p.1", Expected_Last_Sequence="1")
    same(await put("py.p.2", Expected_Last_Subject_Sequence="0"), (3, False), "a new subject")
    await wrong(10071, "py.p.2", Expected_Last_Subject_Sequence="0")
    await wrong(10060, "py.p.2", Expected_Stream="OTHER")
    await wrong(10111, "py.p.2", Rollup="sub")
    check(await js.delete_stream("PYP"), "delete")
    # As create_key_value makes it, but without TTLs of messages.
    rules = {"max_msgs_per_subject": 3, "discard": "new", "allow_rollup_hdrs": True, "deny_delete": True}
    await js.add_stream(name="KV_PYB", subjects=["$KV.PYB.>"], allow_direct=True, **rules)
    bucket = await js.key_value("PYB")
    same(await bucket.create("a", b"1"), 1, "create")
    try:
        await bucket.create("a", b"2")
        raise harness.Failure("a key was created twice")
    except KeyWrongLastSequenceError:
        pass
    same(await bucket.put("a", b"3"), 2, "put")
    same(await bucket.update("a", b"4", last=2), 3, "update")
    try:
        await bucket.update("a", b"5", last=2)
        raise harness.Failure("an update of an old revision passed")
    except KeyWrongLastSequenceError:
        pass
    entry = await bucket.get("a")
    same((entry.value, entry.revision), (b"4", 3), "get")
    same((await bucket.get("a", revision=1)).value, b"1", "get a revision")
    check(await bucket.delete("a"), "delete")
    same(await bucket.create("a", b"6"), 5, "create after delete")
    check(await bucket.purge("a"), "purge")
    try:
        await bucket.get("a")
        raise harness.Failure("a purged key is there")
    except NotFoundError:
        pass
    same((await js.stream_info("KV_PYB")).state.messages, 1, "what a purge leaves")
    check(await js.delete_stream("KV_PYB"), "delete the bucket")
    await nc.close()


scale = 1 if SMOKE else 10
test(True, "publish and subscribe", publish_and_subscribe)
test(True, "wildcards", wildcards)
test(True, "queue groups", queue_groups, 600 * scale)
test(True, "requests", requests, 200 * scale)
test(True, "nobody responds", no_responders)
test(True, "headers", headers)
test(True, "messages of 1 MiB, and none larger", large)
test(False, "a payload too large, which the server refuses", too_large_for_the_server)
test(True, "unsubscribe", unsubscribe)
test(True, "many subscriptions", many_subscriptions, 1000 * scale)
test(True, "order", in_order, 5000 * scale)
test(True, "drain", drain)
test(True, "WebSocket", publish_and_subscribe, f"ws://{said('ws')}")
test(True, "JetStream: streams", jetstream_streams)
test(True, "JetStream: pull consumers", jetstream_pulls)
test(True, "JetStream: push consumers", jetstream_pushes)
test(True, "JetStream: keys and values", jetstream_buckets)
test(True, "JetStream: expectations, ids and key-value", jetstream_publish)
test(True, "a restart of the server", reconnect)
test(True, "user and password", user_and_password)
test(False, "token", token)
test(True, "nkey", nkey)
test(True, "credentials files", credentials)
test(True, "TLS", tls)
test(False, "TLS with a client's certificate", tls_client_certificate)
test(False, "TLS before the INFO", tls_first)
sys.exit(1 if harness.failed else 0)
