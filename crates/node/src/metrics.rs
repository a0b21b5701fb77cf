//! What a node counts and times, as Prometheus metrics. docs/operations.md lists every metric.

use tailrace_env::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tailrace_env::metrics::{ReasonLabel, times};
use tailrace_log::CompactionStats;

/// Metrics of the log cleaner.
#[derive(Debug)]
pub(crate) struct CompactionMetrics {
    rounds: Counter,
    seconds: Histogram,
    bytes_before: Counter,
    bytes_after: Counter,
    records_removed: Counter,
    pub(crate) failures: Counter,
    /// Reads and writes that the rate limit has delayed.
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
    /// Records a completed round.
    pub(crate) fn ran(&self, took: Duration, stats: &CompactionStats) {
        self.rounds.inc();
        self.seconds.observe(took.as_secs_f64());
        self.bytes_before.inc_by(stats.bytes_before);
        self.bytes_after.inc_by(stats.bytes_after);
        self.records_removed.inc_by(stats.records_before.saturating_sub(stats.records_after));
    }

    fn register_into(&self, r: &mut Registry) {
        r.register("compactions", "Completed rounds of compaction", self.rounds.clone());
        r.register_with_unit(
            "compaction",
            "Duration of one round of compaction",
            Unit::Seconds,
            self.seconds.clone(),
        );
        r.register(
            "compaction_before_bytes",
            "Bytes of the segments that compaction read",
            self.bytes_before.clone(),
        );
        r.register("compaction_after_bytes", "Bytes that remained of them", self.bytes_after.clone());
        r.register(
            "compaction_removed_records",
            "Records that compaction removed",
            self.records_removed.clone(),
        );
        r.register("compaction_failures", "Rounds of compaction that failed", self.failures.clone());
        r.register(
            "compaction_waits",
            "Reads and writes of compaction that its rate limit delayed",
            self.waits.clone(),
        );
    }
}

/// Metrics of scrubbing and repair.
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
        r.register("scrubs", "Completed rounds of scrubbing", self.rounds.clone());
        r.register(
            "scrubbed_bytes",
            "Bytes of segments and indexes that scrubbing read",
            self.scrubbed_bytes.clone(),
        );
        r.register("damages_found", "Damaged files that scrubbing and reads found", self.damages.clone());
        r.register(
            "replicas_given_up",
            "Replicas that were damaged beyond repair, or gone, and start again under another id",
            self.replicas_given_up.clone(),
        );
        r.register(
            "share_damaged_records",
            "Records that share groups skipped because they are damaged for good",
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
    /// Bytes that lookups by time have read and decompressed.
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
            "Transaction markers written to partitions: commit or abort",
            self.transaction_markers.clone(),
        );
        r.register(
            "deferred_writes",
            "Appends handed to worker threads because the kernel held too many dirty pages",
            self.deferred_writes.clone(),
        );
        r.register_with_unit("fsync", "Duration of one sync", Unit::Seconds, self.fsync_seconds.clone());
        r.register("fsync_failures", "Syncs that failed", self.fsync_failures.clone());
        r.register(
            "nats_capture_forward_retries",
            "Requests to leaders of partitions that were retried",
            self.relay_retries.clone(),
        );
        r.register_with_unit(
            "lookup_memory",
            "Bytes reserved for the batches that lookups by time read",
            Unit::Bytes,
            self.lookup_memory.clone(),
        );
        self.compaction.register_into(r);
        self.repair.register_into(r);
    }

    /// Records one sync.
    pub(crate) fn synced(&self, took: Duration, success: bool) {
        self.fsync_seconds.observe(took.as_secs_f64());
        if !success {
            self.fsync_failures.inc();
        }
    }

    /// Records the end of a transaction in one partition.
    pub(crate) fn transaction_marker(&self, committed: bool) {
        let reason = if committed { "commit" } else { "abort" };
        self.transaction_markers.get_or_create(&ReasonLabel { reason }).inc();
    }
}
