"""confluent-kafka, which is librdkafka."""
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka.admin import AdminClient, NewTopic
from harness import BOOTSTRAP, REPLICAS, check
from model import CREATE_TIME, LOG_APPEND_TIME, ProducerOptions, ReaderOptions, Record

KIND = {TIMESTAMP_CREATE_TIME: CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME: LOG_APPEND_TIME}


class ConfluentProducer:
    def __init__(self, o):
        self.results = []
        self.p = Producer({
            "bootstrap.servers": BOOTSTRAP, "log_level": 2, "acks": str(o.acks), "compression.type": o.codec, "enable.idempotence": o.idempotent,
            "message.max.bytes": o.bytes_max + 1000, "allow.auto.create.topics": o.auto_create, "message.timeout.ms": o.give_up_ms,
            "partitioner": "murmur2_random", "linger.ms": 5, "topic.metadata.propagation.max.ms": 1000, "reconnect.backoff.max.ms": 500})

    def send(self, topic, m):
        slot = len(self.results)
        self.results.append(None)

        def done(error, message):
            self.results[slot] = KafkaException(error) if error else (message.partition(), message.offset(), message.timestamp()[1])
        extra = {} if m.timestamp is None else {"timestamp": m.timestamp}
        while True:
            try:
                self.p.produce(topic, m.value, m.key, partition=-1 if m.partition is None else m.partition, headers=m.headers,
                               on_delivery=done, **extra)
                break
            except BufferError:
                self.p.poll(0.1)
        self.p.poll(0)

    def flush(self):
        check(self.p.flush(90) == 0, "records are left after 90 s")
        out, self.results = self.results, []
        return out

    def close(self):
        self.p.flush(10)


class ConfluentReader:
    def __init__(self, topic, positions, o):
        self.topic = topic
        self.c = Consumer({
            "bootstrap.servers": BOOTSTRAP, "log_level": 2, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": o.reset,
            "fetch.wait.max.ms": o.wait_ms, "isolation.level": "read_committed" if o.read_committed else "read_uncommitted",
            "socket.timeout.ms": max(60_000, o.wait_ms + 10_000), "check.crcs": True, "reconnect.backoff.max.ms": 500})
        self.c.assign([TopicPartition(topic, p, offset) for p, offset in positions.items()])

    def poll(self, seconds):
        out = []
        # consume() alone would wait the whole time for all 500.
        first = self.c.poll(seconds)
        for m in [] if first is None else [first] + self.c.consume(500, 0):
            if m.error():
                # Lost connections are reported as errors while it reconnects by itself.
                if m.error().retriable() or m.error().code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                    continue
                raise KafkaException(m.error())
            kind, at = m.timestamp()
            out.append(Record(m.partition(), m.offset(), at, KIND[kind], m.key(), m.value(), list(m.headers() or [])))
        return out

    def seek(self, partition, offset):
        self.c.seek(TopicPartition(self.topic, partition, offset))

    def close(self):
        self.c.close()


class Confluent:
    name = "confluent-kafka"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    null_key_and_value = True
    null_header = True
    timestamp_zero = False  # 0 means "now" to librdkafka

    def __init__(self):
        self.admin = AdminClient({"bootstrap.servers": BOOTSTRAP, "log_level": 2, "reconnect.backoff.max.ms": 500})

    def producer(self, **o):
        return ConfluentProducer(ProducerOptions(**o))

    def reader(self, topic, positions, **o):
        return ConfluentReader(topic, positions, ReaderOptions(**o))

    def create(self, topic, partitions=1, config=None):
        self.admin.create_topics([NewTopic(topic, partitions, REPLICAS, config=config or {})], operation_timeout=20)[topic].result(30)

    def delete(self, topic):
        self.admin.delete_topics([topic], operation_timeout=20)[topic].result(30)

    def delete_records(self, topic, partition, offset):
        tp = TopicPartition(topic, partition, offset)
        return self.admin.delete_records([tp])[tp].result(30).low_watermark

    def partitions(self, topic):
        return len(self.admin.list_topics(topic, 10).topics[topic].partitions)

    def _with_consumer(self, action):
        c = Consumer({"bootstrap.servers": BOOTSTRAP, "log_level": 2, "group.id": "unused"})
        try:
            return action(c)
        finally:
            c.close()

    def watermarks(self, topic, partition):
        return self._with_consumer(lambda c: c.get_watermark_offsets(TopicPartition(topic, partition), 20))

    def offset_for_time(self, topic, partition, timestamp):
        """The offset, or None past the end."""
        found = self._with_consumer(lambda c: c.offsets_for_times([TopicPartition(topic, partition, timestamp)], 20))[0]
        check(found.error is None, f"offsets_for_times: {found.error}")
        return found.offset if found.offset >= 0 else None

    def close(self):
        pass
