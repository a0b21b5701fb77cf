"""Operations of transactional producers, of the old protocol and of the one with an epoch for each
transaction."""
from side import TRANSACTION_KEY, kproto
from topics import NOW_MS

OFFSETS_TOPIC = "__consumer_offsets"
NEW, OLD = "new", "old"
TIMEOUT_MS = 60_000


class Transactions:
    """`producers["x0"]`: the identity that the client with the transactional id believes it has. `before`:
    its earlier identity."""

    def transactional_id(self, x):
        return f"{self.prefix}-x{x}"

    def producer_name(self, producer_id):
        named = [name for name, producer in self.producers.items() if producer["id"] == producer_id or producer_id in producer.get("ids", ())]
        return named[0] if named else "somebody"

    def become(self, x, producer_id, epoch):
        known = self.producers.get(f"x{x}")
        before = known and (known["id"], known["epoch"])
        ids = (known or {}).get("ids", set()) | {producer_id}
        self.producers[f"x{x}"] = {"id": producer_id, "epoch": epoch, "next": {}, "before": before, "ids": ids}

    def who(self, x, zombie):
        """The present producer, or its earlier identity if that one kept going."""
        known = self.producers.get(f"x{x}")
        if known is None:
            return None
        return known["before"] if zombie and known["before"] else (known["id"], known["epoch"])

    def epoch_after(self, before, answer):
        """How far the epoch moved. With another id it starts again."""
        if answer["ErrorCode"] or answer.get("ProducerId", -1) < 0:
            return None
        if before is None or before[0] != answer["ProducerId"]:
            return ["first", answer["ProducerEpoch"]]
        return answer["ProducerEpoch"] - before[1]

    def init_transactional(self, x, keeps, version, timeout):
        """`keeps`: the client sends its identity (KIP-360)."""
        self.find(TRANSACTION_KEY, self.transactional_id(x))
        known = self.who(x, False)
        named = (known if keeps and known else (-1, -1)) if version >= 3 else None
        body = {"TransactionalId": self.transactional_id(x), "TransactionTimeoutMs": timeout}
        if named:
            body |= {"ProducerId": named[0], "ProducerEpoch": named[1]}
        answer = self.call("InitProducerId", version, body)
        moved = self.epoch_after(known, answer)
        if answer["ErrorCode"] == 0:
            self.become(x, answer["ProducerId"], answer["ProducerEpoch"])
        return [answer["ErrorCode"], moved]

    def add_partitions(self, x, zombie, places):
        who = self.who(x, zombie)
        if who is None:
            return "nobody"
        topics = [{"Name": self.topic_name(t), "Partitions": [p]} for t, p in places]
        body = {"V3AndBelowTransactionalId": self.transactional_id(x), "V3AndBelowProducerId": who[0], "V3AndBelowProducerEpoch": who[1],
                "V3AndBelowTopics": topics}
        answer = self.call("AddPartitionsToTxn", 3, body)
        return sorted([topic["Name"][-2:], p["PartitionIndex"], p["PartitionErrorCode"]]
                      for topic in answer["ResultsByTopicV3AndBelow"] for p in topic["ResultsByPartition"])

    def produce_transactional(self, x, protocol, zombie, t, p, count, shift, how):
        who = self.who(x, zombie)
        if who is None:
            return "nobody"
        known = self.producers[f"x{x}"]
        expected = known["next"].get((t, p), 0)
        records = [(b"k", b"x" * 9000)] if how == "large" else self.values(count, f"x{x}")
        ts = NOW_MS + (40 * 86_400_000 if how == "future" else 0)
        batch = kproto.batch(records=records, ts=ts, pid=who[0], pepoch=who[1], seq=max(0, expected + shift), attributes=0 if how == "outside" else 0x10)
        if how == "crc":
            batch = batch[:-1] + b"\xff"
        answer = self.produce(t, p, batch, 12 if protocol == NEW else 9, -1, self.transactional_id(x))
        if answer[0] == 0 and shift == 0 and not zombie:
            known["next"][(t, p)] = expected + len(records)
        return answer

    def add_offsets(self, x, zombie, g):
        who = self.who(x, zombie)
        if who is None:
            return "nobody"
        body = {"TransactionalId": self.transactional_id(x), "ProducerId": who[0], "ProducerEpoch": who[1], "GroupId": self.group_name(g)}
        return self.call("AddOffsetsToTxn", 3, body)["ErrorCode"]

    def commit_in_transaction(self, x, protocol, zombie, g, places, offset):
        who = self.who(x, zombie)
        if who is None:
            return "nobody"
        topics = [{"Name": self.topic_name(t), "Partitions": [{"PartitionIndex": p, "CommittedOffset": offset, "CommittedMetadata": "m"}]} for t, p in places]
        body = {"TransactionalId": self.transactional_id(x), "GroupId": self.group_name(g), "ProducerId": who[0], "ProducerEpoch": who[1],
                "GenerationId": -1, "MemberId": "", "Topics": topics}
        answer = self.call("TxnOffsetCommit", 5 if protocol == NEW else 3, body)
        return sorted([topic["Name"][-2:], p["PartitionIndex"], p["ErrorCode"]] for topic in answer["Topics"] for p in topic["Partitions"])

    def end_transaction(self, x, protocol, zombie, committed):
        who = self.who(x, zombie)
        if who is None:
            return "nobody"
        body = {"TransactionalId": self.transactional_id(x), "ProducerId": who[0], "ProducerEpoch": who[1], "Committed": committed}
        answer = self.call("EndTxn", 5 if protocol == NEW else 3, body)
        moved = self.epoch_after(who, answer) if protocol == NEW else None
        if answer["ErrorCode"] == 0 and not zombie and protocol == NEW and answer["ProducerEpoch"] >= 0:
            known = self.producers[f"x{x}"]
            if (answer["ProducerId"], answer["ProducerEpoch"]) != (known["id"], known["epoch"]):
                self.become(x, answer["ProducerId"], answer["ProducerEpoch"])
        self.until(lambda: not self.state_of(x)[1].startswith("Prepare"))
        return [answer["ErrorCode"], moved]

    def state_of(self, x):
        state = self.call("DescribeTransactions", 0, {"TransactionalIds": [self.transactional_id(x)]}, passing={14, 15, 16})["TransactionStates"][0]
        groups = [["offsets"]] if any(topic["Topic"] == OFFSETS_TOPIC for topic in state["Topics"]) else []
        parts = [[topic["Topic"][-2:], sorted(topic["Partitions"])] for topic in state["Topics"] if topic["Topic"] != OFFSETS_TOPIC]
        return [state["ErrorCode"], state["TransactionState"], state["TransactionTimeoutMs"], sorted(parts) + groups, state]

    def describe_transaction(self, x):
        code, name, timeout, parts, state = self.state_of(x)
        known = self.who(x, False)
        ours = known and state["ProducerId"] == known[0]
        return [code, name, timeout, parts, state["ProducerEpoch"] - known[1] if ours else None, state["TransactionStartTimeMs"] >= 0]

    def list_transactions(self, states):
        answer = self.call("ListTransactions", 1, {"StateFilters": states, "ProducerIdFilters": [], "DurationFilter": -1})
        own = [t for t in answer["TransactionStates"] if t["TransactionalId"].startswith(self.prefix)]
        return [answer["ErrorCode"], sorted(answer["UnknownStateFilters"]), sorted([t["TransactionalId"][-2:], t["TransactionState"]] for t in own)]

    def describe_producers(self, t, p):
        answer = self.call("DescribeProducers", 0, {"Topics": [{"Name": self.topic_name(t), "PartitionIndexes": [p]}]}, passing=())
        partition = answer["Topics"][0]["Partitions"][0]
        found = []
        for one in partition["ActiveProducers"]:
            # A time that the client set is the same on both servers. A time from the server's clock is not.
            time_ = "given" if one["LastTimestamp"] in (NOW_MS, NOW_MS + 40 * 86_400_000) else "clock"
            found.append([self.producer_name(one["ProducerId"]), one["LastSequence"], time_, one["CoordinatorEpoch"] >= 0, one["CurrentTxnStartOffset"]])
        return [partition["ErrorCode"], sorted(found)]
