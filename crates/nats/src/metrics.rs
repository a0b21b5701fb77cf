//! Counters and times of the NATS front.
//!
//! Counters are updated once per burst, so that connections do not contend for them with every message.

use tailrace_env::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::capture::CaptureMetrics;
use crate::live::LiveMetrics;
use tailrace_env::metrics::{ReasonLabel, times};

/// Metrics of the NATS front.
#[derive(Debug)]
pub(crate) struct NatsMetrics {
    pub(crate) connections: Gauge,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Family<ReasonLabel, Counter>,
    pub(crate) connections_cut: Family<ReasonLabel, Counter>,
    pub(crate) subscriptions: Gauge,
    pub(crate) subscriptions_made: Counter,
    pub(crate) subscriptions_refused: Family<ReasonLabel, Counter>,
    pub(crate) lookups: Counter,
    pub(crate) cache_hits: Counter,
    pub(crate) messages_in: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) messages_out: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) slow_consumers: Counter,
    pub(crate) stalls: Counter,
    pub(crate) no_responders: Counter,
    pub(crate) dry_runs: Counter,
    /// Requests to JetStream's API that were answered, those of them with an error, and those that wait or
    /// run.
    pub(crate) jetstream_requests: Counter,
    pub(crate) jetstream_errors: Counter,
    pub(crate) jetstream_waiting: Gauge,
    pub(crate) capture: CaptureMetrics,
    pub(crate) live: LiveMetrics,
    response_seconds: Histogram,
}

impl NatsMetrics {
    pub(crate) fn new() -> Self {
        Self {
            connections: Gauge::default(),
            connections_accepted: Counter::default(),
            connections_refused: Family::default(),
            connections_cut: Family::default(),
            subscriptions: Gauge::default(),
            subscriptions_made: Counter::default(),
            subscriptions_refused: Family::default(),
            lookups: Counter::default(),
            cache_hits: Counter::default(),
            messages_in: Counter::default(),
            bytes_in: Counter::default(),
            messages_out: Counter::default(),
            bytes_out: Counter::default(),
            slow_consumers: Counter::default(),
            stalls: Counter::default(),
            no_responders: Counter::default(),
            dry_runs: Counter::default(),
            jetstream_requests: Counter::default(),
            jetstream_errors: Counter::default(),
            jetstream_waiting: Gauge::default(),
            capture: CaptureMetrics::default(),
            live: LiveMetrics::default(),
            response_seconds: times(),
        }
    }

    pub(crate) fn register_into(&self, registry: &mut Registry) {
        self.capture.register_into(registry);
        self.live.register_into(registry);
        let r = registry;
        r.register("nats_connections", "Open NATS connections", self.connections.clone());
        r.register(
            "nats_connections_accepted",
            "NATS connections accepted",
            self.connections_accepted.clone(),
        );
        r.register(
            "nats_connections_refused",
            "NATS connections refused at once, by reason",
            self.connections_refused.clone(),
        );
        r.register(
            "nats_connections_cut",
            "NATS connections that the server ended, by reason",
            self.connections_cut.clone(),
        );
        r.register("nats_subscriptions", "Live NATS subscriptions", self.subscriptions.clone());
        r.register("nats_subscriptions_made", "NATS subscriptions made", self.subscriptions_made.clone());
        r.register(
            "nats_subscriptions_refused",
            "NATS subscriptions refused because there were too many, by reason",
            self.subscriptions_refused.clone(),
        );
        r.register(
            "nats_matcher_lookups",
            "Lookups of subscriptions for published subjects",
            self.lookups.clone(),
        );
        r.register(
            "nats_matcher_cache_hits",
            "Lookups that a thread's own cache answered",
            self.cache_hits.clone(),
        );
        r.register("nats_received_messages", "Messages published by NATS clients", self.messages_in.clone());
        r.register(
            "nats_received_bytes",
            "Headers and payload published by NATS clients",
            self.bytes_in.clone(),
        );
        r.register("nats_sent_messages", "Deliveries to NATS clients", self.messages_out.clone());
        r.register(
            "nats_sent_bytes",
            "Headers and payload delivered to NATS clients",
            self.bytes_out.clone(),
        );
        r.register(
            "nats_slow_consumers",
            "Connections closed because they did not read their messages",
            self.slow_consumers.clone(),
        );
        r.register(
            "nats_stalls",
            "Times a publisher was held back for a consumer that is behind",
            self.stalls.clone(),
        );
        r.register(
            "nats_no_responders",
            "Requests answered with 503 because there were no responders",
            self.no_responders.clone(),
        );
        r.register(
            "nats_trace_only_messages",
            "Messages that were only traced, and then dropped",
            self.dry_runs.clone(),
        );
        r.register(
            "nats_jetstream_requests",
            "Requests to JetStream's API that were answered",
            self.jetstream_requests.clone(),
        );
        r.register(
            "nats_jetstream_errors",
            "Requests to JetStream's API that were answered with an error",
            self.jetstream_errors.clone(),
        );
        r.register(
            "nats_jetstream_waiting",
            "Requests to JetStream's API that wait for their answers",
            self.jetstream_waiting.clone(),
        );
        r.register_with_unit(
            "nats_response",
            "Time from reading a message to writing the last byte that waits for its receiver",
            Unit::Seconds,
            self.response_seconds.clone(),
        );
    }

    /// Records the response time of a buffer that was written completely.
    pub(crate) fn responded(&self, took: Duration) {
        self.response_seconds.observe(took.as_secs_f64());
    }
}
