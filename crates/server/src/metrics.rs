//! What the server counts and times, in Prometheus' terms. docs/operations.md lists every metric.
//!
//! Times are response times: from the arrival of a request's first byte to the moment its answer's last byte was
//! handed to the kernel. Histograms carry no label per partition, so their number is bounded.

use std::time::Duration;

use tailrace_log::CompactionStats;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of the time buckets in seconds: 50 us to 30 s, about three to a decade.
const TIME_BUCKETS: [f64; 18] = [
    50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1.0, 2.0,
    5.0, 10.0, 30.0,
];

/// API keys above this share one set of metrics, labelled `other`.
const API_KEYS: usize = 96;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ApiLabel {
    api: &'static str,
}

/// Why a connection was refused or cut.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    pub(crate) reason: &'static str,
}

/// Requests of one API.
#[derive(Clone, Debug)]
pub(crate) struct ApiMetrics {
    requests: Counter,
    response_seconds: Histogram,
}

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
        r.register("damages_found", "Damaged files that scrubbing has found", self.damages.clone());
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

/// All metrics of one server, and the registry that shows them.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: std::sync::Mutex<Registry>,
    apis: Vec<ApiMetrics>,
    pub(crate) connections: Gauge,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Family<ReasonLabel, Counter>,
    pub(crate) connections_cut: Family<ReasonLabel, Counter>,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) records_produced: Counter,
    pub(crate) bytes_produced: Counter,
    produce_errors: Family<ReasonLabel, Counter>,
    transaction_markers: Family<ReasonLabel, Counter>,
    pub(crate) bytes_fetched: Counter,
    pub(crate) cold_reads: Counter,
    pub(crate) deferred_writes: Counter,
    pub(crate) request_memory_waits: Counter,
    pub(crate) request_memory: Gauge,
    pub(crate) request_aside_memory: Gauge,
    pub(crate) fetch_sessions: Gauge,
    fsync_seconds: Histogram,
    fsync_failures: Counter,
    pub(crate) compaction: CompactionMetrics,
    pub(crate) repair: RepairMetrics,
}

pub(crate) fn times() -> Histogram {
    Histogram::new(TIME_BUCKETS)
}

impl Metrics {
    /// Registers everything. `api_name` names the API with a key, `None` for keys that are not served.
    pub(crate) fn new(api_name: impl Fn(i16) -> Option<&'static str>) -> Self {
        let mut registry = Registry::with_prefix("tailrace");
        let requests = Family::<ApiLabel, Counter>::default();
        let response_seconds = Family::<ApiLabel, Histogram>::new_with_constructor(times);
        let apis = (0..=API_KEYS)
            .map(|key| {
                let name = i16::try_from(key).ok().and_then(&api_name).unwrap_or("other");
                let label = ApiLabel { api: name };
                ApiMetrics {
                    requests: requests.get_or_create_owned(&label),
                    response_seconds: response_seconds.get_or_create_owned(&label),
                }
            })
            .collect();
        registry.register("kafka_requests", "Kafka requests answered, by API", requests);
        registry.register_with_unit(
            "kafka_response",
            "Time from a request's first byte to its answer's last, by API",
            Unit::Seconds,
            response_seconds,
        );
        let mut metrics = Self {
            registry: std::sync::Mutex::new(Registry::default()),
            apis,
            connections: Gauge::default(),
            connections_accepted: Counter::default(),
            connections_refused: Family::default(),
            connections_cut: Family::default(),
            bytes_received: Counter::default(),
            bytes_sent: Counter::default(),
            records_produced: Counter::default(),
            bytes_produced: Counter::default(),
            produce_errors: Family::default(),
            transaction_markers: Family::default(),
            bytes_fetched: Counter::default(),
            cold_reads: Counter::default(),
            deferred_writes: Counter::default(),
            request_memory_waits: Counter::default(),
            request_memory: Gauge::default(),
            request_aside_memory: Gauge::default(),
            fetch_sessions: Gauge::default(),
            fsync_seconds: times(),
            fsync_failures: Counter::default(),
            compaction: CompactionMetrics::default(),
            repair: RepairMetrics::default(),
        };
        metrics.register_into(&mut registry);
        metrics.registry = std::sync::Mutex::new(registry);
        metrics
    }

    fn register_into(&self, registry: &mut Registry) {
        let r = registry;
        r.register("kafka_connections", "Open Kafka connections", self.connections.clone());
        r.register(
            "kafka_connections_accepted",
            "Kafka connections accepted",
            self.connections_accepted.clone(),
        );
        r.register(
            "kafka_connections_refused",
            "Kafka connections refused at once, by reason",
            self.connections_refused.clone(),
        );
        r.register(
            "kafka_connections_cut",
            "Kafka connections cut by the server, by reason",
            self.connections_cut.clone(),
        );
        r.register("kafka_received_bytes", "Bytes received from Kafka clients", self.bytes_received.clone());
        r.register("kafka_sent_bytes", "Bytes sent to Kafka clients", self.bytes_sent.clone());
        r.register("produced_records", "Records appended by produce requests", self.records_produced.clone());
        r.register("produced_bytes", "Bytes appended by produce requests", self.bytes_produced.clone());
        r.register("produce_errors", "Batches refused, by reason", self.produce_errors.clone());
        r.register(
            "transaction_markers",
            "Ends of transactions written to partitions: commit or abort",
            self.transaction_markers.clone(),
        );
        r.register("fetched_bytes", "Bytes of record batches sent to consumers", self.bytes_fetched.clone());
        r.register("cold_reads", "Chunks read from the disk before being sent", self.cold_reads.clone());
        r.register(
            "deferred_writes",
            "Appends handed to worker threads because the kernel held too many dirty pages",
            self.deferred_writes.clone(),
        );
        r.register(
            "request_memory_waits",
            "Times a connection had to wait for request memory",
            self.request_memory_waits.clone(),
        );
        r.register_with_unit(
            "request_memory",
            "Memory reserved for large requests that are being read or decided",
            Unit::Bytes,
            self.request_memory.clone(),
        );
        r.register_with_unit(
            "request_aside_memory",
            "Memory of large requests, decoded, and of their answers, until these are sent",
            Unit::Bytes,
            self.request_aside_memory.clone(),
        );
        r.register("fetch_sessions", "Incremental fetch sessions held", self.fetch_sessions.clone());
        r.register_with_unit("fsync", "Time of one sync", Unit::Seconds, self.fsync_seconds.clone());
        r.register("fsync_failures", "Syncs that failed", self.fsync_failures.clone());
        self.compaction.register_into(r);
        self.repair.register_into(r);
    }

    /// Adds the metrics of another part of the server.
    pub(crate) fn add(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.lock());
    }

    /// Adds a source of values that are read when Prometheus asks.
    pub(crate) fn register_collector(&self, collector: Box<dyn prometheus_client::collector::Collector>) {
        self.lock().register_collector(collector);
    }

    /// Takes note of one answered request.
    pub(crate) fn answered(&self, api_key: i16, took: Duration) {
        let key = usize::try_from(api_key).unwrap_or(API_KEYS).min(API_KEYS);
        let api = &self.apis[key];
        api.requests.inc();
        api.response_seconds.observe(took.as_secs_f64());
    }

    /// Takes note of one sync.
    pub(crate) fn synced(&self, took: Duration, success: bool) {
        self.fsync_seconds.observe(took.as_secs_f64());
        if !success {
            self.fsync_failures.inc();
        }
    }

    /// Takes note of a batch that was refused.
    pub(crate) fn produce_error(&self, reason: &'static str) {
        self.produce_errors.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Takes note of the end of a transaction in one partition.
    pub(crate) fn transaction_marker(&self, committed: bool) {
        let reason = if committed { "commit" } else { "abort" };
        self.transaction_markers.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// The page for `/metrics`.
    ///
    /// # Errors
    /// None in practice: writing to a string does not fail.
    pub(crate) fn page(&self) -> Result<String, std::fmt::Error> {
        let mut page = String::with_capacity(32 * 1024);
        prometheus_client::encoding::text::encode(&mut page, &self.lock())?;
        Ok(page)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
