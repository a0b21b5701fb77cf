//! Bytes that wait for NATS clients, read when Prometheus scrapes.

use std::fmt;
use std::sync::Weak;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tailrace_types::i64_of;

use crate::front::NatsFront;

/// Reads the front's state. Holds only a weak reference, which does not keep the front alive.
pub struct PendingCollector(pub Weak<NatsFront>);

impl fmt::Debug for PendingCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingCollector")
    }
}

impl Collector for PendingCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(front) = self.0.upgrade() else { return Ok(()) };
        let pending = i64_of(front.pending_bytes());
        let help = "Bytes that wait for all NATS clients together";
        ConstGauge::new(pending).encode(encoder.encode_descriptor(
            "nats_pending_bytes",
            help,
            None,
            MetricType::Gauge,
        )?)
    }
}
