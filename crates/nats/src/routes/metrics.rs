//! Metrics of messages between nodes.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tailrace_env::metrics::ReasonLabel;

/// Metrics of the routes to other nodes.
#[derive(Debug, Default)]
pub(crate) struct RouteMetrics {
    /// Interest of all other nodes.
    pub(super) interest: Gauge,
    pub(super) interest_refused: Counter,
    pub(super) messages_out: Counter,
    pub(super) bytes_out: Counter,
    pub(super) messages_in: Counter,
    pub(super) bytes_in: Counter,
    dropped: Family<ReasonLabel, Counter>,
}

impl RouteMetrics {
    /// The counter of messages, or of queue groups' shares in them, that were dropped for this reason.
    pub(super) fn dropped(&self, reason: &'static str) -> Counter {
        self.dropped.get_or_create_owned(&ReasonLabel { reason })
    }

    pub(crate) fn register_into(&self, r: &mut Registry) {
        r.register(
            "nats_route_interest",
            "Subjects, counted per queue group, for which other nodes have subscribers",
            self.interest.clone(),
        );
        r.register(
            "nats_route_interest_refused",
            "Subjects of other nodes' subscribers that were refused because there were too many",
            self.interest_refused.clone(),
        );
        r.register(
            "nats_route_sent_messages",
            "NATS messages sent to other nodes",
            self.messages_out.clone(),
        );
        r.register(
            "nats_route_sent_bytes",
            "Headers and payload of NATS messages sent to other nodes",
            self.bytes_out.clone(),
        );
        r.register(
            "nats_route_received_messages",
            "NATS messages received from other nodes",
            self.messages_in.clone(),
        );
        r.register(
            "nats_route_received_bytes",
            "Headers and payload of NATS messages received from other nodes",
            self.bytes_in.clone(),
        );
        r.register(
            "nats_route_dropped_messages",
            "NATS messages between nodes, or queue groups' shares in them, that were dropped, by reason",
            self.dropped.clone(),
        );
    }
}
