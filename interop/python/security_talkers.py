"""NATS clients (nats-py) for tests that are threads: connections that ask what they may do, and a publisher and
a subscriber that work until they are told to end."""
import asyncio, json, threading

import nats
import nats.errors

from harness import flushed

WAIT_S = 20
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def do(coroutine):
    return asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, WAIT_S), LOOP).result(WAIT_S + 5)


def login(user):
    return {"user": user, "password": f"{user}-secret"} if user else {}


class Talker:
    """A connection to one node, which does not connect again."""

    def __init__(self, node, user):
        self.errors, self.heard, self.has_ended = [], [], False
        self.nc = do(nats.connect(f"nats://{node.nats}", connect_timeout=5, allow_reconnect=False, error_cb=self.told, closed_cb=self.ended, disconnected_cb=self.ended, **login(user)))

    async def told(self, error):
        self.errors.append(str(error))

    async def ended(self):
        self.has_ended = True

    async def hears(self, message):
        self.heard.append(message.data)

    def complaints(self, what):
        return [one for one in self.errors if "permissions violation" in one.lower() and what in one.lower()]

    async def publishes(self, subject, payload):
        await self.nc.publish(subject, payload)
        await flushed(self.nc)

    def publish(self, subject, payload):
        do(self.publishes(subject, payload))

    def may_publish(self, subject):
        self.errors.clear()
        self.publish(subject, b"?")
        return not self.complaints("publish")

    async def subscribes(self, subject):
        subscription = await self.nc.subscribe(subject, cb=self.hears)
        await flushed(self.nc)
        return subscription

    def subscribe(self, subject):
        return do(self.subscribes(subject))

    def may_hear(self, subject):
        async def asks():
            subscription = await self.subscribes(subject)
            await subscription.unsubscribe()
            await flushed(self.nc)
        self.errors.clear()
        do(asks())
        return not self.complaints("subscription")

    def close(self):
        do(self.nc.close())


class Worker:
    """A connection to a cluster with default settings, which goes from node to node. It remembers what it was
    refused."""

    def __init__(self, nodes, name, user=None):
        self.name, self.errors = name, []
        self.nc = do(nats.connect([f"nats://{node.nats}" for node in nodes], name=name, error_cb=self.told, max_reconnect_attempts=-1, reconnect_time_wait=0.1, **login(user)))

    async def told(self, error):
        # That a node has gone is no refusal.
        if "violation" in str(error).lower():
            self.errors.append(str(error))


class Publisher(Worker):
    """Sends one message after the other, and each until it is acknowledged."""

    def __init__(self, nodes, name, subject, user=None):
        super().__init__(nodes, name, user)
        self.subject, self.acknowledged, self.again, self.stopped = subject, set(), 0, False
        self.task = asyncio.run_coroutine_threadsafe(self.work(), LOOP)

    async def work(self):
        number = 0
        while not self.stopped:
            payload = f"{self.name}-{number}".encode()
            while not await self.is_taken(payload):
                self.again += 1
                await asyncio.sleep(0.05)
            self.acknowledged.add(payload)
            number += 1
            await asyncio.sleep(0.01)

    async def is_taken(self, payload):
        try:
            answer = json.loads((await self.nc.request(self.subject, payload, timeout=2)).data)
            return "error" not in answer
        except (nats.errors.Error, asyncio.TimeoutError, OSError):
            return False

    def end(self):
        self.stopped = True
        self.task.result(60)
        do(self.nc.close())
        return self


class Subscriber(Worker):
    def __init__(self, nodes, name, subject, user=None):
        super().__init__(nodes, name, user)
        self.heard = set()

        async def hears(message):
            self.heard.add(message.data)

        async def begin():
            await self.nc.subscribe(subject, cb=hears)
            await flushed(self.nc)
        do(begin())

    def end(self):
        do(self.nc.close())
        return self


def is_refused(node, user=None, password=None):
    """Whether a login is refused, with the error that says so."""
    async def one():
        async def quiet(_):
            pass
        try:
            more = {"user": user, "password": password} if user else {}
            nc = await nats.connect(f"nats://{node.nats}", connect_timeout=8, allow_reconnect=False, max_reconnect_attempts=1, error_cb=quiet, **more)
        except (nats.errors.Error, OSError) as error:
            return "authorization" in str(error).lower()
        try:
            await flushed(nc)
        except (nats.errors.Error, OSError):
            pass
        refused = nc.is_closed or "authorization" in str(nc.last_error).lower()
        await nc.close()
        return refused
    return do(one())
