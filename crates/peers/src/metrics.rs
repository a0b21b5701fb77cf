//! What the links count and time.

use tailrace_env::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::frame::FrameKind;
use super::types::RequestKind;
use tailrace_env::metrics::{ReasonLabel, times};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FrameLabel {
    frame: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabel {
    request: &'static str,
}

/// Label of a connection that failed: which end refused it, and why.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabel {
    by: &'static str,
    reason: &'static str,
}

/// One counter for each kind of frame, found without a lookup.
struct FrameCounters {
    family: Family<FrameLabel, Counter>,
    /// In the order of [`FrameKind::ALL`].
    counters: [Counter; FrameKind::ALL.len()],
}

impl FrameCounters {
    fn new() -> Self {
        let family = Family::<FrameLabel, Counter>::default();
        let counters =
            FrameKind::ALL.map(|kind| family.get_or_create_owned(&FrameLabel { frame: kind.name() }));
        Self { family, counters }
    }

    fn of(&self, kind: FrameKind) -> &Counter {
        let at = FrameKind::ALL.iter().position(|known| *known == kind);
        &self.counters[at.expect("ALL has every kind")]
    }
}

/// Metrics of the links.
pub(crate) struct PeerMetrics {
    pub(super) links: Gauge,
    pub(super) connections: Gauge,
    pub(super) strangers: Gauge,
    pub(super) sent_bytes: Counter,
    pub(super) received_bytes: Counter,
    sent_frames: FrameCounters,
    received_frames: FrameCounters,
    pub(super) sent_messages: Counter,
    pub(super) received_messages: Counter,
    dropped_messages: Family<ReasonLabel, Counter>,
    refusals: Family<RefusalLabel, Counter>,
    cuts: Family<ReasonLabel, Counter>,
    requests: Family<RequestLabel, Counter>,
    request_seconds: Family<RequestLabel, Histogram>,
    request_failures: Family<ReasonLabel, Counter>,
    pub(super) served_requests: Counter,
    round_trip_seconds: Histogram,
}

impl PeerMetrics {
    pub(super) fn new() -> Self {
        Self {
            links: Gauge::default(),
            connections: Gauge::default(),
            strangers: Gauge::default(),
            sent_bytes: Counter::default(),
            received_bytes: Counter::default(),
            sent_frames: FrameCounters::new(),
            received_frames: FrameCounters::new(),
            sent_messages: Counter::default(),
            received_messages: Counter::default(),
            dropped_messages: Family::default(),
            refusals: Family::default(),
            cuts: Family::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(times),
            request_failures: Family::default(),
            served_requests: Counter::default(),
            round_trip_seconds: times(),
        }
    }

    pub(super) fn register_into(&self, r: &mut Registry) {
        r.register("peer_links", "Links to other nodes that are up", self.links.clone());
        r.register("peer_connections", "Connections from other members", self.connections.clone());
        r.register(
            "peer_strangers",
            "Connections on the port for nodes that have not completed the handshake, or are not from members",
            self.strangers.clone(),
        );
        r.register("peer_sent_bytes", "Bytes sent to other nodes", self.sent_bytes.clone());
        r.register("peer_received_bytes", "Bytes received from other nodes", self.received_bytes.clone());
        r.register(
            "peer_sent_frames",
            "Frames sent to other nodes, by kind",
            self.sent_frames.family.clone(),
        );
        r.register(
            "peer_received_frames",
            "Frames received from other nodes, by kind",
            self.received_frames.family.clone(),
        );
        r.register(
            "peer_sent_messages",
            "Raft messages sent, heartbeats included",
            self.sent_messages.clone(),
        );
        r.register(
            "peer_received_messages",
            "Raft messages received, heartbeats included",
            self.received_messages.clone(),
        );
        r.register(
            "peer_dropped_messages",
            "Raft messages dropped, by reason",
            self.dropped_messages.clone(),
        );
        r.register(
            "peer_refusals",
            "Connections between nodes that failed, by which end refused and why",
            self.refusals.clone(),
        );
        r.register("peer_cuts", "Connections between nodes that were cut, by reason", self.cuts.clone());
        r.register("peer_requests", "Requests to other nodes, by kind", self.requests.clone());
        r.register_with_unit(
            "peer_request",
            "Time from a request to another node to its answer, by kind",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        r.register(
            "peer_request_failures",
            "Requests to other nodes that got no answer, by reason",
            self.request_failures.clone(),
        );
        r.register(
            "peer_served_requests",
            "Requests of other nodes that were answered",
            self.served_requests.clone(),
        );
        r.register_with_unit(
            "peer_round_trip",
            "Time from a ping to its answer, including what waits before it in the sockets",
            Unit::Seconds,
            self.round_trip_seconds.clone(),
        );
    }

    pub(super) fn sent(&self, kind: FrameKind, frames: u64) {
        self.sent_frames.of(kind).inc_by(frames);
    }

    pub(super) fn received(&self, kind: FrameKind) {
        self.received_frames.of(kind).inc();
    }

    pub(super) fn dropped(&self, reason: &'static str, messages: u64) {
        self.dropped_messages.get_or_create(&ReasonLabel { reason }).inc_by(messages);
    }

    /// `by` is `this_node` or `peer`.
    pub(super) fn refused(&self, by: &'static str, reason: &'static str) {
        self.refusals.get_or_create(&RefusalLabel { by, reason }).inc();
    }

    pub(super) fn cut(&self, reason: &'static str) {
        self.cuts.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(super) fn requested(&self, kind: RequestKind, took: Duration, failure: Option<&'static str>) {
        let label = RequestLabel { request: kind.name() };
        self.requests.get_or_create(&label).inc();
        match failure {
            None => self.request_seconds.get_or_create(&label).observe(took.as_secs_f64()),
            Some(reason) => {
                self.request_failures.get_or_create(&ReasonLabel { reason }).inc();
            }
        }
    }

    pub(super) fn round_trip(&self, took: Duration) {
        self.round_trip_seconds.observe(took.as_secs_f64());
    }

    #[cfg(test)]
    pub(super) fn refusals(&self, by: &'static str, reason: &'static str) -> u64 {
        self.refusals.get_or_create(&RefusalLabel { by, reason }).get()
    }

    #[cfg(test)]
    pub(super) fn frames_sent(&self, kind: FrameKind) -> u64 {
        self.sent_frames.of(kind).get()
    }

    #[cfg(test)]
    pub(super) fn messages_dropped(&self, reason: &'static str) -> u64 {
        self.dropped_messages.get_or_create(&ReasonLabel { reason }).get()
    }

    #[cfg(test)]
    pub(super) fn cuts(&self, reason: &'static str) -> u64 {
        self.cuts.get_or_create(&ReasonLabel { reason }).get()
    }
}
