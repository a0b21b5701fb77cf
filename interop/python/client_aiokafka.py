"""aiokafka. Its event loop runs in a thread of its own, which makes it look synchronous."""
import asyncio, threading
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import for_code
from harness import BOOTSTRAP, REPLICAS
from model import ProducerOptions, ReaderOptions, Record

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(coroutine, seconds=100):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(seconds)


async def made(kind, *a, **k):
    """Clients must be made inside the loop."""
    client = kind(*a, **k)
    await client.start()
    return client


class AioProducer:
    def __init__(self, o):
        self.futures = []
        self.give_up_s = o.give_up_ms / 1000
        self.p = wait(made(AIOKafkaProducer, bootstrap_servers=BOOTSTRAP, acks=o.acks, compression_type=None if o.codec == "none" else o.codec,
                           enable_idempotence=o.idempotent, max_request_size=o.bytes_max + 1000, max_batch_size=65536, linger_ms=5,
                           request_timeout_ms=max(10_000, o.give_up_ms)))

    def send(self, topic, m):
        async def go():
            return await self.p.send(topic, m.value, m.key, m.partition, m.timestamp, m.headers)
        try:
            self.futures.append(wait(go()))
        except Exception as error:
            self.futures.append(error)

    def flush(self):
        async def go():
            await self.p.flush()
            return await asyncio.gather(*[f for f in futures if not isinstance(f, Exception)], return_exceptions=True)
        futures, self.futures = self.futures, []
        done = iter(wait(go()))
        return [f if isinstance(f, Exception) else self._result(next(done)) for f in futures]

    def _result(self, done):
        return done if isinstance(done, Exception) else (done.partition, done.offset, done.timestamp) if done else None

    def close(self):
        wait(self.p.stop())


class AioReader:
    def __init__(self, topic, positions, o):
        self.topic = topic
        self.c = wait(made(AIOKafkaConsumer, bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, fetch_max_wait_ms=o.wait_ms,
                           auto_offset_reset="none" if o.reset == "error" else o.reset, request_timeout_ms=max(40_000, o.wait_ms + 10_000),
                           max_partition_fetch_bytes=4 << 20, isolation_level="read_committed" if o.read_committed else "read_uncommitted"))

        async def assign():
            self.c.assign([TopicPartition(topic, p) for p in positions])
        wait(assign())
        for p, offset in positions.items():
            self.seek(p, offset)

    def poll(self, seconds):
        async def go():
            return await self.c.getmany(timeout_ms=int(seconds * 1000), max_records=500)
        return [Record(r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, list(r.headers))
                for records in wait(go(), seconds + 60).values() for r in records]

    def seek(self, partition, offset):
        async def go():
            self.c.seek(TopicPartition(self.topic, partition), offset)
        wait(go())

    def close(self):
        wait(self.c.stop())


class Aio:
    name = "aiokafka"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    null_key_and_value = False  # refused by the client itself, as are null headers
    null_header = False
    timestamp_zero = True

    def __init__(self):
        self.admin = wait(made(AIOKafkaAdminClient, bootstrap_servers=BOOTSTRAP))

    def producer(self, **o):
        return AioProducer(ProducerOptions(**o))

    def reader(self, topic, positions, **o):
        return AioReader(topic, positions, ReaderOptions(**o))

    def create(self, topic, partitions=1, config=None, validate_only=False):
        answer = wait(self.admin.create_topics([NewTopic(topic, partitions, REPLICAS, topic_configs=config or {})], validate_only=validate_only))
        self.raise_errors(answer.topic_errors)

    def delete(self, topic):
        self.raise_errors(wait(self.admin.delete_topics([topic])).topic_error_codes)

    @staticmethod
    def raise_errors(errors):
        for name, code, *text in errors:
            if code:
                raise for_code(code)(f"{name}: {text}")

    def delete_records(self, topic, partition, offset):
        tp = TopicPartition(topic, partition)
        return wait(self.admin.delete_records({tp: RecordsToDelete(before_offset=offset)}))[tp]

    def partitions(self, topic):
        return len(wait(self.admin.describe_topics([topic]))[0]["partitions"])

    def _with_consumer(self, action):
        async def go():
            c = await made(AIOKafkaConsumer, bootstrap_servers=BOOTSTRAP, enable_auto_commit=False)
            try:
                return await action(c)
            finally:
                await c.stop()
        return wait(go())

    def watermarks(self, topic, partition):
        tp = TopicPartition(topic, partition)

        async def both(c):
            return (await c.beginning_offsets([tp]))[tp], (await c.end_offsets([tp]))[tp]
        return self._with_consumer(both)

    def offset_for_time(self, topic, partition, timestamp):
        tp = TopicPartition(topic, partition)
        found = self._with_consumer(lambda c: c.offsets_for_times({tp: timestamp}))[tp]
        return None if found is None else found.offset

    def close(self):
        wait(self.admin.close())
