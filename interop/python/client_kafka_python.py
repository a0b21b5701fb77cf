"""kafka-python 3."""
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from harness import BOOTSTRAP, REPLICAS
from model import ProducerOptions, ReaderOptions, Record


class KafkaPythonProducer:
    def __init__(self, o):
        self.futures = []
        self.p = KafkaProducer(
            bootstrap_servers=BOOTSTRAP, acks=o.acks, compression_type=None if o.codec == "none" else o.codec, enable_idempotence=o.idempotent,
            max_request_size=o.bytes_max + 1000, batch_size=65536, linger_ms=5, allow_auto_create_topics=o.auto_create,
            delivery_timeout_ms=o.give_up_ms, request_timeout_ms=min(20_000, o.give_up_ms - 1000), max_block_ms=o.give_up_ms,
            reconnect_backoff_max_ms=500)

    def send(self, topic, m):
        try:
            self.futures.append(self.p.send(topic, m.value, m.key, m.headers, m.partition, m.timestamp))
        except Exception as error:  # an unknown topic is already known when sending
            self.futures.append(error)

    def flush(self):
        self.p.flush(90)
        futures, self.futures = self.futures, []
        return [self._result(f) for f in futures]

    def _result(self, future):
        if isinstance(future, Exception):
            return future
        try:
            done = future.get(90)
            return done.partition, done.offset, done.timestamp
        except Exception as error:
            return error

    def close(self):
        self.p.close(10)


class KafkaPythonReader:
    def __init__(self, topic, positions, o):
        self.topic = topic
        self.c = KafkaConsumer(
            bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, auto_offset_reset="none" if o.reset == "error" else o.reset,
            fetch_max_wait_ms=o.wait_ms, request_timeout_ms=max(30_000, o.wait_ms + 10_000), max_partition_fetch_bytes=4 << 20,
            isolation_level="read_committed" if o.read_committed else "read_uncommitted", reconnect_backoff_max_ms=500)
        self.c.assign([TopicPartition(topic, p) for p in positions])
        for p, offset in positions.items():
            self.seek(p, offset)

    def poll(self, seconds):
        return [Record(r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, list(r.headers))
                for records in self.c.poll(int(seconds * 1000)).values() for r in records]

    def seek(self, partition, offset):
        self.c.seek(TopicPartition(self.topic, partition), offset)

    def close(self):
        self.c.close()


class KafkaPython:
    name = "kafka-python"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    null_key_and_value = False  # refused by the client itself, as are null headers
    null_header = False
    timestamp_zero = True

    def __init__(self):
        self.admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP, reconnect_backoff_max_ms=500)

    def producer(self, **o):
        return KafkaPythonProducer(ProducerOptions(**o))

    def reader(self, topic, positions, **o):
        return KafkaPythonReader(topic, positions, ReaderOptions(**o))

    def create(self, topic, partitions=1, config=None):
        self.admin.create_topics([NewTopic(topic, partitions, REPLICAS, topic_configs=config or {})])

    def delete(self, topic):
        self.admin.delete_topics([topic])

    def delete_records(self, topic, partition, offset):
        tp = TopicPartition(topic, partition)
        return self.admin.delete_records({tp: offset})[tp]["low_watermark"]

    def partitions(self, topic):
        return len(self.admin.describe_topics([topic])[0]["partitions"])

    def _with_consumer(self, action):
        c = KafkaConsumer(bootstrap_servers=BOOTSTRAP, enable_auto_commit=False)
        try:
            return action(c)
        finally:
            c.close()

    def watermarks(self, topic, partition):
        tp = TopicPartition(topic, partition)
        return self._with_consumer(lambda c: (c.beginning_offsets([tp])[tp], c.end_offsets([tp])[tp]))

    def offset_for_time(self, topic, partition, timestamp):
        tp = TopicPartition(topic, partition)
        found = self._with_consumer(lambda c: c.offsets_for_times({tp: timestamp}))[tp]
        return None if found is None else found.offset

    def close(self):
        self.admin.close()
