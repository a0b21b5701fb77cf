//! What a node counts and times, in Prometheus' terms. docs/operations.md lists every metric.

use tailrace_env::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tailrace_env::metrics::{ReasonLabel, times};
use tailrace_log::CompactionStats;

/// What the cleaner does.
#[derive(Debug)]
pub(crate) struct CompactionMetrics {
    rounds: Counter,
    seconds: Histogram,
    bytes_before: Counter,
    bytes_after: Counter,
    records_removed: Counter,
    pub(crate) failures: Counter,
    /// Reads and writes that the rate has held up.
    pub(crate) waits: Counter,
}

impl Default for CompactionMetrics {
    fn default() -> Self {
        Self {
            rounds: Counter::default(),
            seconds: times(),
            bytes_before: Counter::default(),
            bytes_after: Counter::default(),
            records_removed: Counter::default(),
            failures: Counter::default(),
            waits: Counter::default(),
        }
    }
}

impl CompactionMetrics {
    /// Takes note of a round that came to its end.
    pub(crate) fn ran(&self, took: Duration, stats: &CompactionStats) {
        self.rounds.inc();
        self.seconds.observe(took.as_secs_f64());
        self.bytes_before.inc_by(stats.bytes_before);
        self.bytes_after.inc_by(stats.bytes_after);
        self.records_removed.inc_by(stats.records_before.saturating_sub(stats.records_after));
    }

    fn register_into(&self, r: &mut Registry) {
        r.register("compactions", "Rounds of compaction that came to their end", self.rounds.clone());
        r.register_with_unit("compaction", "Time of one round", Unit::Seconds, self.seconds.clone());
        r.register(
            "compaction_before_bytes",
            "Bytes of the segments that rounds of compaction looked at",
            self.bytes_before.clone(),
        );
        r.register("compaction_after_bytes", "Bytes that were left of them", self.bytes_after.clone());
        r.register(
            "compaction_removed_records",
            "Records that compaction removed",
            self.records_removed.clone(),
        );
        r.register("compaction_failures", "Rounds of compaction that failed", self.failures.clone());
        r.register(
            "compaction_waits",
            "Reads and writes of compaction that its rate has held up",
            self.waits.clone(),
        );
    }
}

/// What is checked on the disk, and mended.
#[derive(Debug, Default)]
pub(crate) struct RepairMetrics {
    pub(crate) rounds: Counter,
    pub(crate) scrubbed_bytes: Counter,
    pub(crate) damages: Counter,
    pub(crate) replicas_given_up: Counter,
    pub(crate) share_skipped_records: Counter,
}

impl RepairMetrics {
    fn register_into(&self, r: &mut Registry) {
        r.register("scrubs", "Rounds of scrubbing that came to their end", self.rounds.clone());
        r.register(
            "scrubbed_bytes",
            "Bytes of segments and indexes that scrubbing has read",
            self.scrubbed_bytes.clone(),
        );
        r.register(
            "damages_found",
            "Damaged files that scrubbing and reads have found",
            self.damages.clone(),
        );
        r.register(
            "replicas_given_up",
            "Replicas that were damaged beyond repair, or gone, and begin anew under another id",
            self.replicas_given_up.clone(),
        );
        r.register(
            "share_damaged_records",
            "Records that share groups have passed over because they are damaged for good",
            self.share_skipped_records.clone(),
        );
    }
}

/// Metrics of one node.
#[derive(Debug)]
pub(crate) struct NodeMetrics {
    transaction_markers: Family<ReasonLabel, Counter>,
    pub(crate) deferred_writes: Counter,
    fsync_seconds: Histogram,
    fsync_failures: Counter,
    pub(crate) relay_retries: Counter,
    /// What lookups by time have read and expanded.
    pub(crate) lookup_memory: Gauge,
    pub(crate) compaction: CompactionMetrics,
    pub(crate) repair: RepairMetrics,
}

impl Default for NodeMetrics {
    fn default() -> Self {
        Self {
            transaction_markers: Family::default(),
            deferred_writes: Counter::default(),
            fsync_seconds: times(),
            fsync_failures: Counter::default(),
            relay_retries: Counter::default(),
            lookup_memory: Gauge::default(),
            compaction: CompactionMetrics::default(),
            repair: RepairMetrics::default(),
        }
    }
}

impl NodeMetrics {
    pub(crate) fn register_into(&self, r: &mut Registry) {
        r.register(
            "transaction_markers",
            "Ends of transactions written to partitions: commit or abort",
            self.transaction_markers.clone(),
        );
        r.register(
            "deferred_writes",
            "Appends handed to worker threads because the kernel held too many dirty pages",
            self.deferred_writes.clone(),
        );
        r.register_with_unit("fsync", "Time of one sync", Unit::Seconds, self.fsync_seconds.clone());
        r.register("fsync_failures", "Syncs that failed", self.fsync_failures.clone());
        r.register(
            "nats_capture_forward_retries",
            "Requests to leaders of partitions that were put again",
            self.relay_retries.clone(),
        );
        r.register_with_unit(
            "lookup_memory",
            "Bytes that are reserved for the batches that lookups by time look into",
            Unit::Bytes,
            self.lookup_memory.clone(),
        );
        self.compaction.register_into(r);
        self.repair.register_into(r);
    }

    /// Takes note of one sync.
    pub(crate) fn synced(&self, took: Duration, success: bool) {
        self.fsync_seconds.observe(took.as_secs_f64());
        if !success {
            self.fsync_failures.inc();
        }
    }

    /// Takes note of the end of a transaction in one partition.
    pub(crate) fn transaction_marker(&self, committed: bool) {
        let reason = if committed { "commit" } else { "abort" };
        self.transaction_markers.get_or_create(&ReasonLabel { reason }).inc();
    }
}
