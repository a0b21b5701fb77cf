"""One conversation at one of the servers: the names that it uses, and what its clients remember."""
import time
import uuid
from collections import Counter
from groups import Groups
from shares import Shares
from side import PASSING, Gone
from topics import Topics
from transactions import Transactions

# Asked again while the servers differ: they follow their own changes at their own pace.
READS = {"metadata", "describe_configs", "list_offsets", "fetch", "describe_transaction", "list_transactions", "describe_producers", "describe_group",
         "list_groups", "fetch_offsets", "describe_consumer_group", "share_offsets", "describe_share_group"}


# Longer than `log.flush.start.offset.checkpoint.interval.ms` in kafka.sh, and the look after that.
START_KEPT_SECONDS = 2


class World(Topics, Transactions, Groups, Shares):
    def __init__(self, side, prefix, restarts):
        self.side, self.prefix = side, prefix
        # Partitions that were read for a share group since the last restart; all of them, as long as there was none.
        self.read_since = None
        # Partitions whose share-group offsets were altered or deleted, and nothing has been acknowledged since: (group, topic, partition).
        self.changed = set()
        # With a restart in the conversation, a topic that is deleted gets another name: Kafka gives one of the same name the settings of
        # both (docs/kafka.md). How often each had to.
        self.restarts, self.lives = restarts, Counter()
        self.has_deleted_records = False
        self.topics, self.counts, self.producers, self.members = {}, {}, {}, {}

    def call(self, name, version, body, seconds=None, passing=PASSING):
        return self.side.call(name, version, body, seconds, passing)

    def find(self, kind, key):
        return self.side.find(kind, key)

    def restart(self, signal):
        if signal == "TERM":
            # What is held while a server stops: tailrace keeps that it was delivered, Kafka does not.
            for (g, _), known in self.members.items():
                if "share" in known:
                    self.share_end_session(g, known)
        elif self.has_deleted_records:
            # Until Kafka has kept where its logs start: docs/kafka.md.
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
