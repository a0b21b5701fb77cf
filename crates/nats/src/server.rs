//! What sessions of NATS clients work with.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use crate::front::NatsFront;
use tailrace_node::Node;
use tailrace_tls::Tls;

/// The NATS front of one server, and what it works with.
pub struct NatsServer {
    /// What all connections share.
    pub front: Arc<NatsFront>,
    /// The node behind it.
    pub node: Arc<Node>,
    /// Present if a listener speaks TLS.
    pub tls: Option<Arc<Tls>>,
    /// Open connections of Kafka clients: `/varz` shows them.
    pub kafka_connections: Gauge,
}
