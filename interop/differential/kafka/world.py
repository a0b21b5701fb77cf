"""One conversation with one of the servers: the names that it uses, and what its clients remember."""
import time
import uuid
from collections import Counter
from groups import Groups
from shares import Shares
from side import PASSING, Gone
from topics import Topics
from transactions import Transactions

# Reads that are repeated while the servers differ: each server follows its own changes at its own pace.
READS = {"metadata", "describe_configs", "list_offsets", "fetch", "describe_transaction", "list_transactions", "describe_producers", "describe_group",
         "list_groups", "fetch_offsets", "describe_consumer_group", "share_offsets", "describe_share_group"}


# Longer than `log.flush.start.offset.checkpoint.interval.ms` in kafka.sh, and the check after that.
START_KEPT_SECONDS = 2


class World(Topics, Transactions, Groups, Shares):
    def __init__(self, side, prefix, restarts):
        self.side, self.prefix = side, prefix
        # Partitions that were read for a share group since the last restart. Without a restart so far: all of
        # them.
        self.read_since = None
        # Partitions whose share-group offsets were altered or deleted, without an acknowledgement since:
        # (group, topic, partition).
        self.changed = set()
        # If the conversation has a restart, a deleted topic gets another name: Kafka would give a topic of
        # the same name the settings of both (docs/kafka.md). The number of renames of each topic.
        self.restarts, self.lives = restarts, Counter()
        self.has_deleted_records = False
        self.topics, self.counts, self.producers, self.members = {}, {}, {}, {}

    def call(self, name, version, body, seconds=None, passing=PASSING):
        return self.side.call(name, version, body, seconds, passing)

    def find(self, kind, key):
        return self.side.find(kind, key)

    def restart(self, signal):
        if signal == "TERM":
            # Records held while a server stops: tailrace remembers that they were delivered, Kafka does not.
            for (g, _), known in self.members.items():
                if "share" in known:
                    self.share_end_session(g, known)
        elif self.has_deleted_records:
            # Until Kafka has saved its log starts: docs/kafka.md.
            time.sleep(START_KEPT_SECONDS)
        self.side.restart(signal)
        self.read_since = set()
        return "restarted"

    def do(self, operation):
        name, arguments = operation
        try:
            return getattr(self, name)(**arguments)
        except Gone as gone:
            return f"gone: {gone}"


def fresh_prefix():
    return f"d{uuid.uuid4().hex[:10]}"
