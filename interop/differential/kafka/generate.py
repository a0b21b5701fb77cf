"""Conversations from a seed: lists of operations, most of which make sense, and some of which do not."""
import random

OFTEN, SOMETIMES, RARELY = 8, 3, 1
TOPIC_CONFIGS = [{}, {}, {}, {"message.timestamp.type": "LogAppendTime"}, {"cleanup.policy": "compact"}, {"max.message.bytes": "5000"},
                 {"retention.ms": "-1", "cleanup.policy": "compact,delete"}]
BAD_CONFIGS = [{"no.such.key": "1"}, {"retention.ms": "soon"}, {"cleanup.policy": "burn"}]
CHANGES = [("message.timestamp.type", "LogAppendTime"), ("message.timestamp.type", "CreateTime"), ("max.message.bytes", "5000"), ("max.message.bytes", None),
           ("cleanup.policy", "compact"), ("cleanup.policy", "delete"), ("retention.ms", "-1"), ("message.timestamp.after.max.ms", "9223372036854775807"),
           ("message.timestamp.after.max.ms", None), ("retention.ms", "soon"), ("no.such.key", "1"), ("segment.bytes", "1"), ("compression.type", "producer")]
SHOWN = ["message.timestamp.type", "max.message.bytes", "cleanup.policy", "retention.ms", "compression.type", "no.such.key"]
SPECS = [-1, -1, -2, -2, -3, -4, -100, 0, 10**9]
FAULTS = ["crc", "large", "future", "keyless", "two", "none", "old", "control", "cut", "timed", "stamped"]


class Dice(random.Random):
    def t(self):
        return self.choice([0, 0, 0, 1, 1, 2])

    def p(self):
        return self.choice([0, 0, 0, 1, 1, 2])

    def place(self):
        return [self.t(), self.p()]

    def places(self):
        """One or two, not the same twice."""
        return [list(one) for one in sorted({tuple(self.place()) for _ in range(self.randint(1, 2))})]

    def often(self):
        return self.random() < 0.85

    def rarely(self):
        return self.random() < 0.1

    def ahead(self):
        """Epochs of members differ between the servers, because groups are assigned at other moments: only an
        epoch that none has had is wrong on both."""
        return 0 if self.often() else 50

    def off(self):
        """Mostly nothing."""
        return 0 if self.often() else self.choice([-1, 1, 3])


def records(dice):
    return [
        (OFTEN, "produce_plain", lambda: {"t": dice.t(), "p": dice.p(), "count": dice.randint(1, 4), "how": "well", "version": dice.choice([3, 7, 9, 11, 12]),
                                          "acks": dice.choice([-1, -1, 1])}),
        (SOMETIMES, "produce_plain", lambda: {"t": dice.t(), "p": dice.p(), "count": 1, "how": dice.choice(FAULTS), "version": 9, "acks": -1}),
        (SOMETIMES, "init_idempotent", lambda: {"k": dice.randint(0, 1)}),
        (OFTEN, "produce_idempotent", lambda: {"k": dice.randint(0, 1), "t": dice.t(), "p": dice.p(), "count": dice.randint(1, 3), "shift": dice.off(),
                                               "epoch_shift": dice.choice([0] * 12 + [-1, 1]), "size": "large" if dice.rarely() else "small", "acks": -1}),
        (SOMETIMES, "create_topic", lambda: {"t": dice.t(), "partitions": dice.choice([1, 2, 3, 3, -1, 0]),
                                             "configs": dice.choice(BAD_CONFIGS if dice.rarely() else TOPIC_CONFIGS)}),
        (RARELY, "delete_topic", lambda: {"t": dice.t()}),
        (RARELY, "create_partitions", lambda: {"t": dice.t(), "count": dice.choice([0, 1, 2, 3])}),
        (SOMETIMES, "alter_config", lambda: dict(zip(("t", "name", "value"), (dice.t(), *dice.choice(CHANGES))))),
        (SOMETIMES, "delete_records", lambda: {"t": dice.t(), "p": dice.p(), "offset": dice.choice([-1, 0, 1, 2, 3, 5, 500, -2])}),
        *reading(dice, OFTEN),
    ]


def reading(dice, weight):
    return [
        (weight, "fetch", lambda: {"t": dice.t(), "p": dice.p(), "since": dice.choice([0, 0, 0, 1, 2, 999, 1000, 1001]), "isolation": dice.randint(0, 1)}),
        (weight, "list_offsets", lambda: {"t": dice.t(), "p": dice.p(), "timestamp": dice.choice(SPECS), "isolation": dice.randint(0, 1)}),
        (RARELY, "metadata", lambda: {"t": dice.t()}),
        (RARELY, "describe_configs", lambda: {"t": dice.t(), "names": dice.sample(SHOWN, 2)}),
        (SOMETIMES, "describe_producers", lambda: {"t": dice.t(), "p": dice.p()}),
    ]


def transactions(dice):
    who = lambda: {"x": dice.randint(0, 1), "zombie": dice.rarely()}  # noqa: E731
    # A producer keeps to one protocol: no client mixes them.
    protocol = {0: dice.choice(["new", "new", "old"]), 1: dice.choice(["new", "old"])}

    def spoken():
        one = who()
        return one | {"protocol": protocol[one["x"]]}
    return [
        (SOMETIMES, "init_transactional", lambda: {"x": dice.randint(0, 1), "keeps": dice.random() < 0.3, "version": dice.choice([3, 4, 5]),
                                                   "timeout": dice.choice([60_000] * 9 + [0, -1, 10_000_000])}),
        (SOMETIMES, "add_partitions", lambda: who() | {"places": dice.places()}),
        (OFTEN * 2, "produce_transactional", lambda: spoken() | {"t": dice.t(), "p": dice.p(), "count": dice.randint(1, 3), "shift": dice.off(),
                                                                 "how": "well" if dice.often() else dice.choice(["large", "future", "crc", "outside"])}),
        (OFTEN, "end_transaction", lambda: spoken() | {"committed": dice.random() < 0.6}),
        (SOMETIMES, "add_offsets", lambda: who() | {"g": dice.randint(0, 1)}),
        (SOMETIMES, "commit_in_transaction", lambda: spoken() | {"g": "empty" if dice.rarely() else dice.randint(0, 1), "offset": dice.randint(0, 9),
                                                                 "places": dice.places()}),
        (SOMETIMES, "describe_transaction", lambda: {"x": dice.randint(0, 1)}),
        (RARELY, "list_transactions", lambda: {"states": dice.choice([[], ["Ongoing"], ["CompleteCommit"], ["Odd"]])}),
        (SOMETIMES, "fetch_offsets", lambda: {"g": dice.randint(0, 1), "stable": dice.random() < 0.5}),
        (RARELY, "delete_topic", lambda: {"t": dice.t()}),
        (RARELY, "create_topic", lambda: {"t": dice.t(), "partitions": 3, "configs": dice.choice(TOPIC_CONFIGS)}),
        (RARELY, "delete_records", lambda: {"t": dice.t(), "p": dice.p(), "offset": dice.choice([-1, 1, 2])}),
        *reading(dice, SOMETIMES),
    ]


def offsets(dice):
    m = lambda: dice.choice([None, "m0", "m1", "m2"])  # noqa: E731
    return [
        (OFTEN, "commit", lambda: {"g": dice.randint(0, 1), "m": m(), "places": [dice.place()], "offset": dice.randint(0, 9), "shift": dice.ahead(),
                                   "version": dice.choice([2, 6, 8, 9, 10])}),
        (OFTEN, "fetch_offsets", lambda: {"g": dice.randint(0, 1), "stable": dice.random() < 0.3}),
        (SOMETIMES, "delete_offsets", lambda: {"g": dice.randint(0, 2), "places": [dice.place(), [dice.t(), 7]][:dice.randint(1, 2)]}),
        (SOMETIMES, "delete_group", lambda: {"g": dice.randint(0, 2)}),
        (SOMETIMES, "list_groups", lambda: {"states": dice.choice([[], [], ["Empty"], ["Stable"]]), "types": dice.choice([[], [], ["classic"], ["share"]])}),
    ]


def classic(dice):
    m = lambda: dice.choice(["m0", "m0", "m1", "m2"])  # noqa: E731
    return [
        (OFTEN, "join", lambda: {"g": 0, "ms": sorted(dice.sample(["m0", "m1", "m2"], dice.randint(1, 3))), "topics": sorted(dice.sample([0, 1], dice.randint(1, 2))),
                                 "protocol": dice.choice(["range"] * 6 + ["sticky"])}),
        (OFTEN, "sync", lambda: {"g": 0, "part": dice.choice("abc"), "shift": dice.off()}),
        (SOMETIMES, "heartbeat", lambda: {"g": 0, "m": m(), "shift": dice.off()}),
        (SOMETIMES, "leave", lambda: {"g": 0, "m": m()}),
        (OFTEN, "describe_group", lambda: {"g": dice.randint(0, 1), "version": dice.choice([0, 3, 5, 6])}),
        *offsets(dice),
    ]


def consumer(dice):
    m = lambda: dice.choice(["m0", "m0", "m1", "m2"])  # noqa: E731
    return [
        (OFTEN, "consumer_heartbeat", lambda: {"g": 0, "m": m(), "how": dice.choice(["join", "join", "stay", "leave"]), "topics": [0, 1], "shift": dice.ahead()}),
        (OFTEN, "consumer_settle", lambda: {"g": 0}),
        (OFTEN, "describe_consumer_group", lambda: {"g": dice.randint(0, 1)}),
        (RARELY, "describe_group", lambda: {"g": 0, "version": 5}),
        *offsets(dice),
    ]


def share(dice):
    m = lambda: dice.choice(["m0", "m0", "m1"])  # noqa: E731
    return [
        (SOMETIMES, "share_heartbeat", lambda: {"g": 0, "m": m(), "how": dice.choice(["join", "stay", "leave"]), "topics": [0, 1], "shift": dice.ahead()}),
        (OFTEN, "share_fetch", lambda: {"g": 0, "m": m(), "t": dice.choice([0, 0, 1]), "p": dice.choice([0, 0, 1]), "says": dice.choice([1, 1, 2, 3, None])}),
        (SOMETIMES, "share_settle", lambda: {"g": 0}),
        (OFTEN, "produce_plain", lambda: {"t": dice.choice([0, 0, 1]), "p": dice.choice([0, 0, 1]), "count": dice.randint(1, 4), "how": "well", "version": 9, "acks": -1}),
        (RARELY, "share_alter", lambda: {"g": dice.randint(0, 2), "places": [dice.place()], "offset": 0}),
        (RARELY, "share_delete", lambda: {"g": dice.randint(0, 2), "ts": [dice.t()]}),
        (SOMETIMES, "share_offsets", lambda: {"g": dice.randint(0, 1)}),
        (SOMETIMES, "describe_share_group", lambda: {"g": dice.randint(0, 2)}),
        (RARELY, "delete_group", lambda: {"g": dice.randint(0, 2)}),
        # No delete_records: Kafka hands out records below the log start if their batch reaches above it.
        (RARELY, "list_groups", lambda: {"states": [], "types": dice.choice([[], ["share"]])}),
    ]


THEMES = {"records": records, "transactions": transactions, "classic": classic, "consumer": consumer, "share": share}
# Operations that prepare a useful conversation.
BEGINNINGS = {
    "transactions": [["init_transactional", {"x": 0, "keeps": False, "version": 5, "timeout": 60_000}],
                     ["init_transactional", {"x": 1, "keeps": False, "version": 5, "timeout": 60_000}]],
    "share": [["share_configure", {"g": 0, "name": "share.auto.offset.reset", "value": "earliest"}],
              ["share_heartbeat", {"g": 0, "m": "m0", "how": "join", "topics": [0, 1], "shift": 0}], ["share_settle", {"g": 0}]],
}


# What a coordinator has not written is gone after a restart, so a rebalance is finished first.
BEFORE_RESTARTS = {"classic": [["join", {"g": 0, "ms": ["m0", "m1", "m2"], "topics": [0, 1], "protocol": "range"}]]}


def conversation(seed, length, restarts, themes):
    """A theme, and its operations."""
    dice = Dice(seed)
    theme = dice.choice(sorted(themes))
    table = THEMES[theme](dice)
    weights = [weight for weight, _, _ in table]
    operations = [["create_topic", {"t": t, "partitions": 2, "configs": dice.choice(TOPIC_CONFIGS)}] for t in (0, 1)]
    operations += BEGINNINGS.get(theme, [])
    for _ in range(length):
        _, name, arguments = dice.choices(table, weights)[0]
        operations.append([name, arguments()])
    if restarts:
        at = dice.randint(len(operations) // 2, len(operations) - 2)
        operations[at:at] = BEFORE_RESTARTS.get(theme, []) + [["restart", {"signal": dice.choice(["TERM", "KILL"])}]]
    return theme, operations
