//! The targets of the cluster comparison.

use super::super::targets::Against::{Nothing, System};
use super::super::targets::Bound::{AtLeast, AtMost, Stated};
use super::super::targets::{Against, Target, target};

const KAFKA: Against = System("kafka");
const CPU: &str = "server_cpu_s_per_m";

pub(super) const TARGETS: &[Target] = &[
    target("produce", "relaxed", "sent_per_s", KAFKA, AtLeast(2.0), "without fsync: records/s, over Kafka's"),
    target(
        "produce",
        "relaxed",
        CPU,
        KAFKA,
        AtMost(0.4),
        "without fsync: CPU of all nodes per record, over Kafka's",
    ),
    target(
        "strict",
        "strict",
        "sent_per_s",
        KAFKA,
        AtLeast(1.0),
        "with fsync: records/s, over Kafka's without",
    ),
    target(
        "strict",
        "strict",
        CPU,
        KAFKA,
        Stated,
        "with fsync: CPU of all nodes per record, over Kafka's without",
    ),
    target(
        "idle",
        "thousand",
        "node_cpu_pct",
        Nothing,
        AtMost(5.0),
        "1,000 partitions: % of a core, per node",
    ),
    target("idle", "thousand", "node_rss_mib", Nothing, AtMost(150.0), "1,000 partitions: MiB, per node"),
    target("idle", "thousand", "node_cpu_pct", KAFKA, Stated, "1,000 partitions: CPU per node, over Kafka's"),
    target(
        "idle",
        "thousand",
        "node_rss_mib",
        KAFKA,
        Stated,
        "1,000 partitions: memory per node, over Kafka's",
    ),
    target(
        "start",
        "thousand",
        "answers_s",
        KAFKA,
        Stated,
        "1,000 partitions: time to all leaders, over Kafka's",
    ),
    target(
        "start",
        "ten thousand",
        "answers_s",
        Nothing,
        AtMost(10.0),
        "10,000 partitions: s to all leaders",
    ),
];
