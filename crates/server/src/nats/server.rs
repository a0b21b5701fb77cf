//! What sessions of NATS clients work with.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use super::NatsFront;
use crate::node::Node;
use crate::tls::Tls;

/// The NATS front of one server, and what it works with.
pub(crate) struct NatsServer {
    pub(crate) front: Arc<NatsFront>,
    pub(crate) node: Arc<Node>,
    /// Present if a listener speaks TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Open connections of Kafka clients: `/varz` shows them.
    pub(crate) kafka_connections: Gauge,
}
