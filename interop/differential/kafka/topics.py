"""Operations on topics and records. Each returns what is compared, with names in place of ids.

An operation's arguments are small numbers and words, so that a list of them can be printed, shortened and
played again.
"""
import time
from records import seen
from side import Gone, kproto

PARTITIONS_MAX = 3
NOW_MS = int(time.time() * 1000)
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
FETCH_ROUNDS_MAX = 40


class Topics:
    """`topics[t]`: the id of the topic that has this name now, all zeros if it was never made."""

    def topic_name(self, t):
        lives = self.lives[t]
        return f"{self.prefix}-t{t}" + (f"-{lives}" if lives else "")

    def create_topic(self, t, partitions, configs):
        wanted = {"Name": self.topic_name(t), "NumPartitions": partitions, "ReplicationFactor": 1,
                  "Configs": [{"Name": name, "Value": value} for name, value in sorted(configs.items())]}
        answer = self.call("CreateTopics", 7, {"Topics": [wanted], "timeoutMs": 10_000})["Topics"][0]
        if answer["ErrorCode"] == 0:
            self.topics[t], self.counts[t] = answer["TopicId"], partitions
            self.forget_sequences(t)
            for p in range(partitions):
                self.until(lambda p=p: self.offset(t, p, LATEST, 0)[0] == 0)
        return [answer["ErrorCode"], answer["NumPartitions"], answer["ReplicationFactor"]]

    def delete_topic(self, t):
        answer = self.call("DeleteTopics", 6, {"Topics": [{"Name": self.topic_name(t)}], "TimeoutMs": 10_000})["Responses"][0]
        if answer["ErrorCode"] == 0:
            self.until(lambda: self.offset(t, 0, LATEST, 0)[0] == 3)
            self.lives[t] += self.restarts
        return answer["ErrorCode"]

    def create_partitions(self, t, count):
        body = {"Topics": [{"Name": self.topic_name(t), "Count": count, "Assignments": None}], "TimeoutMs": 10_000}
        code = self.call("CreatePartitions", 3, body)["Results"][0]["ErrorCode"]
        if code == 0:
            for p in range(count):
                self.until(lambda p=p: self.offset(t, p, LATEST, 0)[0] == 0)
        return code

    def alter_config(self, t, name, value):
        change = {"Name": name, "ConfigOperation": 1 if value is None else 0, "Value": value}
        body = {"Resources": [{"ResourceType": 2, "ResourceName": self.topic_name(t), "Configs": [change]}]}
        code = self.call("IncrementalAlterConfigs", 1, body)["Responses"][0]["ErrorCode"]
        if code == 0:
            # Kafka answers when the controller has the change. The broker follows.
            self.until(lambda: self.is_configured(t, name, value))
        return code

    def configs(self, t, names):
        body = {"Resources": [{"ResourceType": 2, "ResourceName": self.topic_name(t), "ConfigurationKeys": names}], "IncludeSynonyms": True}
        return self.call("DescribeConfigs", 4, body)["Results"][0]

    def is_configured(self, t, name, value):
        found = [c for c in self.configs(t, [name])["Configs"]]
        own = [c["Value"] for c in found if c["ConfigSource"] == 1]
        return own == ([] if value is None else [value])

    def describe_configs(self, t, names):
        answer = self.configs(t, names)
        found = sorted([c["Name"], c["Value"], c["ConfigSource"], c["ReadOnly"], [[s["Name"], s["Value"], s["Source"]] for s in c["Synonyms"]]]
                       for c in answer["Configs"])
        return [answer["ErrorCode"], found]

    def metadata(self, t):
        topic = self.call("Metadata", 12, {"Topics": [{"Name": self.topic_name(t)}], "AllowAutoTopicCreation": False}, passing=())["Topics"][0]
        partitions = sorted([p["ErrorCode"], p["PartitionIndex"], len(p["ReplicaNodes"]), len(p["IsrNodes"])] for p in topic["Partitions"])
        return [topic["ErrorCode"], topic["IsInternal"], partitions]

    def delete_records(self, t, p, offset):
        partition = {"PartitionIndex": p, "Offset": offset}
        body = {"Topics": [{"Name": self.topic_name(t), "Partitions": [partition]}], "TimeoutMs": 5000}
        answer = self.call("DeleteRecords", 2, body)["Topics"][0]["Partitions"][0]
        self.has_deleted_records |= answer["ErrorCode"] == 0
        return [answer["ErrorCode"], answer["LowWatermark"]]

    def offset(self, t, p, timestamp, isolation, version=8):
        partition = {"PartitionIndex": p, "CurrentLeaderEpoch": -1, "Timestamp": timestamp}
        body = {"ReplicaId": -1, "IsolationLevel": isolation, "Topics": [{"Name": self.topic_name(t), "Partitions": [partition]}]}
        answer = self.call("ListOffsets", version, body, passing=())["Topics"][0]["Partitions"][0]
        return answer["ErrorCode"], answer["Offset"]

    def list_offsets(self, t, p, timestamp, isolation):
        """The offset found, and the log start afterwards."""
        found = self.offset(t, p, timestamp if timestamp < 0 else NOW_MS + timestamp, isolation)
        return [*found, self.offset(t, p, EARLIEST, isolation)[1]]

    def fetch(self, t, p, since, isolation):
        """Everything from an offset on. `since` beyond 1000 counts from the end."""
        if since >= 1000:
            since = max(0, self.offset(t, p, LATEST, 0)[1] + since - 1000)
        lines, aborted, at = [], [], since
        for _ in range(FETCH_ROUNDS_MAX):
            answer = self.fetch_once(t, p, at, isolation)
            first = answer
            if answer["ErrorCode"]:
                break
            found = seen(answer["Records"], at)
            aborted += [[self.producer_name(a["ProducerId"]), a["FirstOffset"]] for a in answer["AbortedTransactions"] or []]
            lines += found
            if not found:
                break
            last = found[-1]
            at = (last[0] + last[1] if last[2:3] == ["compressed"] else last[0]) + 1
        unique = sorted(map(list, {tuple(one) for one in aborted}), key=str)
        return [first["ErrorCode"], first["HighWatermark"], first["LastStableOffset"], first["LogStartOffset"], lines, unique]

    def fetch_once(self, t, p, at, isolation, version=12):
        partition = {"Partition": p, "CurrentLeaderEpoch": -1, "FetchOffset": at, "LastFetchedEpoch": -1, "LogStartOffset": -1, "PartitionMaxBytes": 1 << 20}
        body = {"ReplicaId": -1, "MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 24, "IsolationLevel": isolation, "SessionId": 0, "SessionEpoch": -1,
                "Topics": [{"Topic": self.topic_name(t), "Partitions": [partition]}], "ForgottenTopicsData": [], "RackId": ""}
        answer = self.call("Fetch", version, body, passing=())
        return answer["Responses"][0]["Partitions"][0]

    # ---- producers without transactions ----

    def forget_sequences(self, t):
        for producer in self.producers.values():
            producer["next"] = {key: value for key, value in producer["next"].items() if key[0] != t}

    def produce(self, t, p, batch, version, acks, transactional_id=None):
        body = {"TransactionalId": transactional_id, "Acks": acks, "TimeoutMs": 10_000,
                "TopicData": [{"Name": self.topic_name(t), "PartitionData": [{"Index": p, "Records": batch}]}]}
        answer = self.call("Produce", version, body)["Responses"][0]["PartitionResponses"][0]
        if acks == 1 and answer["ErrorCode"] == 0:
            # A strict topic of tailrace counts a record once it is synced. With acks=1 that is after the
            # answer (docs/guarantees.md).
            self.until(lambda: self.offset(t, p, LATEST, 0)[1] > answer["BaseOffset"])
        faults = [fault["BatchIndex"] for fault in answer.get("RecordErrors") or []]
        # The topic's type of timestamps decides the time. Only whether there is one is compared.
        return [answer["ErrorCode"], answer["BaseOffset"], answer.get("LogStartOffset"), answer["LogAppendTimeMs"] >= 0, faults]

    def values(self, count, tag):
        return [(f"k{i % 3}".encode(), f"{tag}-{i}".encode()) for i in range(count)]

    def produce_plain(self, t, p, count, how, version, acks):
        """How: what is wrong with the batch, if anything."""
        good = {"records": self.values(count, "plain"), "ts": NOW_MS}
        data = {
            "well": lambda: kproto.batch(**good),
            "crc": lambda: kproto.batch(**good)[:-1] + b"\xff",
            "large": lambda: kproto.batch(records=[(b"k", b"x" * 9000)], ts=NOW_MS),
            "future": lambda: kproto.batch(records=good["records"], ts=NOW_MS + 40 * 86_400_000),
            "keyless": lambda: kproto.batch(records=[(None, b"v")] * count, ts=NOW_MS),
            "two": lambda: kproto.batch(**good) * 2,
            "none": lambda: b"",
            "old": lambda: kproto.message_set(1),
            "control": lambda: kproto.batch(attributes=0x20, **good),
            "cut": lambda: kproto.batch(**good)[:-3],
            "timed": lambda: kproto.batch(attributes=0x08, **good),
            "stamped": lambda: kproto.batch(base=77, epoch=5, **good),
        }[how]()
        return self.produce(t, p, data, version, acks)

    def init_idempotent(self, k):
        answer = self.call("InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 60_000, "ProducerId": -1, "ProducerEpoch": -1})
        self.producers[f"i{k}"] = {"id": answer["ProducerId"], "epoch": answer["ProducerEpoch"], "next": {}}
        return [answer["ErrorCode"], answer["ProducerEpoch"]]

    def produce_idempotent(self, k, t, p, count, shift, epoch_shift, size, acks):
        """Sequence and epoch are off by the shifts."""
        producer = self.producers.get(f"i{k}")
        if producer is None:
            return "nobody"
        expected = producer["next"].get((t, p), 0)
        epoch = producer["epoch"] + epoch_shift
        records = [(b"k", b"x" * 9000)] if size == "large" else self.values(count, f"i{k}")
        batch = kproto.batch(records=records, ts=NOW_MS, pid=producer["id"], pepoch=max(0, epoch), seq=max(0, expected + shift))
        answer = self.produce(t, p, batch, 9, acks)
        if answer[0] == 0 and shift == 0 and epoch_shift == 0:
            producer["next"][(t, p)] = expected + len(records)
        return answer

    def until(self, condition, seconds=8):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except Gone:
                pass
            time.sleep(0.01)
