//! Counters and times of the Kafka front, for Prometheus. docs/operations.md lists every metric.
//!
//! Times are response times: from the arrival of a request's first byte to the moment when the kernel has its
//! answer's last byte. Histograms have no label per partition, so their number is bounded.

use tailrace_env::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tailrace_env::metrics::{ReasonLabel, times};

/// API keys above this share one set of metrics with the label `other`.
const API_KEYS: usize = 96;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ApiLabel {
    api: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ListenerLabel {
    listener: String,
}

/// Requests of one API.
#[derive(Clone, Debug)]
pub(crate) struct ApiMetrics {
    requests: Counter,
    response_seconds: Histogram,
}

/// Metrics of the Kafka front.
#[derive(Debug)]
pub struct KafkaMetrics {
    requests: Family<ApiLabel, Counter>,
    response_seconds: Family<ApiLabel, Histogram>,
    apis: Vec<ApiMetrics>,
    /// Open connections.
    pub connections: Gauge,
    listener_connections: Family<ListenerLabel, Gauge>,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Family<ReasonLabel, Counter>,
    pub(crate) connections_cut: Family<ReasonLabel, Counter>,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) records_produced: Counter,
    pub(crate) bytes_produced: Counter,
    produce_errors: Family<ReasonLabel, Counter>,
    pub(crate) bytes_fetched: Counter,
    pub(crate) cold_reads: Counter,
    pub(crate) request_memory_waits: Counter,
    /// Bytes reserved for large requests.
    pub request_memory: Gauge,
    pub(crate) login_memory_waits: Counter,
    /// Bytes reserved for large requests of clients that have not logged in.
    pub login_memory: Gauge,
    /// Bytes of large requests, decoded, and of their answers.
    pub request_aside_memory: Gauge,
    pub(crate) fetch_sessions: Gauge,
}

impl KafkaMetrics {
    /// Creates the metrics. `api_name` returns the name of an API key, or `None` for keys that are not
    /// served.
    pub fn new(api_name: impl Fn(i16) -> Option<&'static str>) -> Self {
        let requests = Family::<ApiLabel, Counter>::default();
        let response_seconds =
            Family::<ApiLabel, Histogram>::new_with_constructor(times as fn() -> Histogram);
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
        Self {
            requests,
            response_seconds,
            apis,
            connections: Default::default(),
            listener_connections: Default::default(),
            connections_accepted: Default::default(),
            connections_refused: Default::default(),
            connections_cut: Default::default(),
            bytes_received: Default::default(),
            bytes_sent: Default::default(),
            records_produced: Default::default(),
            bytes_produced: Default::default(),
            produce_errors: Default::default(),
            bytes_fetched: Default::default(),
            cold_reads: Default::default(),
            request_memory_waits: Default::default(),
            request_memory: Default::default(),
            login_memory_waits: Default::default(),
            login_memory: Default::default(),
            request_aside_memory: Default::default(),
            fetch_sessions: Default::default(),
        }
    }

    /// Returns the number of open connections of a listener. The settings bound the number of listeners.
    pub(crate) fn of_listener(&self, name: &str) -> Gauge {
        self.listener_connections.get_or_create_owned(&ListenerLabel { listener: name.to_owned() })
    }

    /// Registers all metrics.
    pub fn register_into(&self, registry: &mut Registry) {
        let r = registry;
        r.register("kafka_requests", "Kafka requests answered, by API", self.requests.clone());
        r.register_with_unit(
            "kafka_response",
            "Time from a request's first byte to its answer's last, by API",
            Unit::Seconds,
            self.response_seconds.clone(),
        );
        r.register("kafka_connections", "Open Kafka connections", self.connections.clone());
        r.register(
            "kafka_listener_connections",
            "Open Kafka connections, by listener",
            self.listener_connections.clone(),
        );
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
        r.register("fetched_bytes", "Bytes of record batches sent to consumers", self.bytes_fetched.clone());
        r.register("cold_reads", "Chunks read from the disk before being sent", self.cold_reads.clone());
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
        r.register(
            "login_request_memory_waits",
            "Times a connection had to wait for request memory before its login",
            self.login_memory_waits.clone(),
        );
        r.register_with_unit(
            "login_request_memory",
            "Memory reserved for large requests that are being read before a login",
            Unit::Bytes,
            self.login_memory.clone(),
        );
        r.register_with_unit(
            "request_aside_memory",
            "Memory of large requests, decoded, and of their answers, until these are sent",
            Unit::Bytes,
            self.request_aside_memory.clone(),
        );
        r.register("fetch_sessions", "Incremental fetch sessions held", self.fetch_sessions.clone());
    }

    /// Counts an answered request and its response time.
    pub(crate) fn answered(&self, api_key: i16, took: Duration) {
        let key = usize::try_from(api_key).unwrap_or(API_KEYS).min(API_KEYS);
        let api = &self.apis[key];
        api.requests.inc();
        api.response_seconds.observe(took.as_secs_f64());
    }

    /// Counts a refused batch.
    pub(crate) fn produce_error(&self, reason: &'static str) {
        self.produce_errors.get_or_create(&ReasonLabel { reason }).inc();
    }
}
