//! Metrics of live delivery.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use tailrace_env::metrics::ReasonLabel;

/// Metrics of records that are delivered to NATS subscribers.
#[derive(Debug)]
pub(crate) struct LiveMetrics {
    pub(crate) records: Counter,
    pub(crate) deliveries: Counter,
    pub(crate) skipped: Counter,
    undeliverable: Family<ReasonLabel, Counter>,
    pub(crate) too_large: Counter,
    pub(crate) reserved: Counter,
    /// Records whose subject another topic captures.
    pub(crate) bound_elsewhere: Counter,
}

impl Default for LiveMetrics {
    fn default() -> Self {
        let undeliverable = Family::<ReasonLabel, Counter>::default();
        let of = |reason| undeliverable.get_or_create_owned(&ReasonLabel { reason });
        Self {
            records: Counter::default(),
            deliveries: Counter::default(),
            skipped: Counter::default(),
            too_large: of("too_large"),
            reserved: of("reserved"),
            bound_elsewhere: of("bound_elsewhere"),
            undeliverable,
        }
    }
}

impl LiveMetrics {
    pub(crate) fn register_into(&self, r: &mut Registry) {
        r.register(
            "nats_live_records",
            "Records of Kafka clients offered to NATS subscribers",
            self.records.clone(),
        );
        r.register(
            "nats_live_deliveries",
            "Deliveries of records of Kafka clients to NATS subscribers",
            self.deliveries.clone(),
        );
        r.register(
            "nats_live_skipped_records",
            "Records that NATS subscribers missed because too many waited for delivery",
            self.skipped.clone(),
        );
        r.register(
            "nats_live_undeliverable_records",
            "Records that are delivered to no NATS subscriber, by reason",
            self.undeliverable.clone(),
        );
    }
}
