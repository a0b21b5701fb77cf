//! The targets of the groups comparison.

use super::super::targets::Against::{Load, System};
use super::super::targets::Bound::{AtLeast, AtMost, Stated};
use super::super::targets::{Against, Target, target};

const KAFKA: Against = System("kafka");
const BROKER: &str = "change_broker_ms";

pub(super) const TARGETS: &[Target] = &[
    target(
        "rebalance",
        "classic",
        BROKER,
        KAFKA,
        AtMost(0.5),
        "classic, one of 100 leaves: broker time, over Kafka's",
    ),
    target(
        "rebalance",
        "classic",
        "join_broker_ms",
        KAFKA,
        Stated,
        "classic, 100 come at once: broker time of the last generation, over Kafka's",
    ),
    target(
        "rebalance",
        "classic",
        "change_wall_ms",
        KAFKA,
        Stated,
        "classic, one of 100 leaves: until all have their assignment, over Kafka's",
    ),
    target(
        "rebalance",
        "modern",
        BROKER,
        KAFKA,
        AtMost(0.5),
        "KIP-848, one of 100 leaves: broker time, over Kafka's",
    ),
    target(
        "rebalance",
        "modern",
        "join_broker_ms",
        KAFKA,
        AtMost(0.5),
        "KIP-848, 100 come at once: broker time, over Kafka's",
    ),
    target(
        "rebalance",
        "modern",
        "change_wall_ms",
        KAFKA,
        Stated,
        "KIP-848, one of 100 leaves: until all have their assignment, over Kafka's",
    ),
    target("commits", "relaxed", "p99_us", KAFKA, AtMost(0.5), "1,000 commits/s: p99, over Kafka's"),
    target("commits", "relaxed", "p50_us", KAFKA, Stated, "1,000 commits/s: p50, over Kafka's"),
    target(
        "commits",
        "strict",
        "p99_us",
        Load("relaxed"),
        Stated,
        "1,000 commits/s: p99 with fsync, over without",
    ),
    target(
        "transactions",
        "relaxed",
        "sent_per_s",
        KAFKA,
        AtLeast(2.0),
        "eight producers: records/s in transactions of 100, over Kafka's",
    ),
    target(
        "transactions",
        "relaxed, one",
        "sent_per_s",
        KAFKA,
        Stated,
        "one producer: records/s in transactions of 100, over Kafka's",
    ),
    target(
        "transactions",
        "strict",
        "sent_per_s",
        Load("relaxed"),
        Stated,
        "eight producers: records/s with fsync, over without",
    ),
    target(
        "compaction",
        "compaction",
        "records_per_s",
        KAFKA,
        AtLeast(3.0),
        "10 million records over 1 million keys: records/s, over Kafka's",
    ),
    target(
        "compaction",
        "compaction",
        "more_rss_mib",
        KAFKA,
        AtMost(0.25),
        "the same: peak memory over that of the idle server, over Kafka's",
    ),
];
