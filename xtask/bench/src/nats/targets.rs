//! The targets of the NATS comparison.

use super::super::targets::Against::{Nothing, System};
use super::super::targets::Bound::{AtLeast, AtMost, Stated};
use super::super::targets::{Against, Target, target};

const NATS: Against = System("nats-server");
const REDIS: Against = System("redis");
const ECHO: Against = System("echo");
const RATE: &str = "received_per_s";
const CPU: &str = "server_cpu_s_per_m_delivered";
const MEMORY: &str = "peak_rss_mib";

/// The three targets of each load of `core`.
macro_rules! core {
    ($($load:literal)*) => {
        [$(
            target("core", $load, RATE, NATS, AtLeast(1.0), concat!($load, ": delivered/s, over nats-server's")),
            target("core", $load, CPU, NATS, AtMost(0.5), concat!($load, ": server CPU per message delivered")),
            target("core", $load, MEMORY, NATS, AtMost(0.5), concat!($load, ": peak memory")),
        )*]
    };
}

/// The four targets of each load of `latency`.
macro_rules! cells {
    ($($load:literal)*) => {
        [$(
            target("latency", $load, "p50_us", NATS, AtMost(1.0), concat!($load, ": p50, over nats-server's")),
            target("latency", $load, "p99.9_us", NATS, AtMost(1.0), concat!($load, ": p99.9, over nats-server's")),
            target("latency", $load, "p50_us", REDIS, AtMost(1.0), concat!($load, ": p50, over Redis's")),
            target("latency", $load, "p99.9_us", REDIS, AtMost(1.0), concat!($load, ": p99.9, over Redis's")),
        )*]
    };
}

const CORE: [Target; 27] =
    core! { "16B 1x1" "16B 1x4" "16B 4x4" "128B 1x1" "128B 1x4" "128B 4x4" "1KB 1x1" "1KB 1x4" "1KB 4x4" };
const CELLS: [Target; 20] = cells! { "256B 3k/s" "1KB 3k/s" "5KB 3k/s" "1KB 20k/s" "1MB 100/s" };

const REST: [Target; 11] = [
    target(
        "core",
        "geometric mean",
        "received_ratio",
        Nothing,
        AtLeast(1.5),
        "geometric mean of the nine ratios of delivered/s",
    ),
    target("million", "million", RATE, NATS, AtLeast(4.0), "delivered/s, over nats-server's"),
    target(
        "million",
        "million",
        RATE,
        System("client alone"),
        Stated,
        "delivered/s, over the client's own limit",
    ),
    target("million", "million", CPU, NATS, AtMost(0.2), "server CPU per message"),
    target("million", "million", MEMORY, NATS, Stated, "peak memory"),
    target("latency", "1KB 3k/s", "p50_us", ECHO, Stated, "1 KB, 3,000/s: p50, over the bare echo's"),
    target("latency", "1KB 20k/s", "p50_us", ECHO, Stated, "1 KB, 20,000/s: p50, over the bare echo's"),
    target(
        "captured",
        "sync",
        "sent_per_s",
        NATS,
        AtLeast(2.0),
        "one at a time: messages/s, over JetStream's file storage",
    ),
    target(
        "captured",
        "async",
        "sent_per_s",
        NATS,
        AtLeast(3.0),
        "500 at a time: messages/s, over JetStream's file storage",
    ),
    target(
        "fsync",
        "1KB 3k/s",
        "ack_p50_us",
        NATS,
        AtMost(0.05),
        "3,000/s over 25 connections: p50 to the acknowledgement, over JetStream's with sync_interval always",
    ),
    target("fsync", "1KB 3k/s", "ack_p50_us", Nothing, AtMost(1500.0), "the same, us"),
];

pub(super) const TARGETS: &[Target] = &joined();

/// Joins the three lists.
const fn joined() -> [Target; 58] {
    let mut all = [REST[0]; 58];
    let (mut from, mut to) = (0, 0);
    while from < CORE.len() {
        all[to] = CORE[from];
        (from, to) = (from + 1, to + 1);
    }
    from = 0;
    while from < CELLS.len() {
        all[to] = CELLS[from];
        (from, to) = (from + 1, to + 1);
    }
    from = 0;
    while from < REST.len() {
        all[to] = REST[from];
        (from, to) = (from + 1, to + 1);
    }
    all
}
