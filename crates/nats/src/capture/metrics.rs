//! Metrics of capture. They are updated once per batch.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tailrace_env::metrics::ReasonLabel;

/// Metrics of captured messages.
#[derive(Debug, Default)]
pub(crate) struct CaptureMetrics {
    pub(crate) messages: Counter,
    pub(crate) bytes: Counter,
    pub(crate) batches: Counter,
    pub(crate) forwarded: Counter,
    errors: Family<ReasonLabel, Counter>,
    pub(crate) acks: Counter,
    pub(crate) acks_waiting: Gauge,
}

impl CaptureMetrics {
    /// The counter of messages that were not stored for this reason.
    pub(super) fn errors(&self, reason: &'static str) -> Counter {
        self.errors.get_or_create_owned(&ReasonLabel { reason })
    }

    pub(crate) fn register_into(&self, r: &mut Registry) {
        r.register("nats_captured_messages", "NATS messages appended to topics", self.messages.clone());
        r.register(
            "nats_captured_bytes",
            "Bytes of the batches made from captured messages",
            self.bytes.clone(),
        );
        r.register("nats_captured_batches", "Batches made from captured messages", self.batches.clone());
        r.register(
            "nats_capture_forwarded_messages",
            "Captured messages stored in partitions that several nodes may lead",
            self.forwarded.clone(),
        );
        r.register(
            "nats_capture_errors",
            "Captured messages that were not stored, by reason",
            self.errors.clone(),
        );
        r.register("nats_capture_acks", "Publish acknowledgements sent, including errors", self.acks.clone());
        r.register(
            "nats_capture_acks_waiting",
            "Publish acknowledgements that wait for durable records",
            self.acks_waiting.clone(),
        );
    }
}
