//! The dependencies of NATS sessions.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use crate::dues::Charging;
use crate::front::NatsFront;
use tailrace_node::Node;
use tailrace_tls::Tls;

/// The NATS front of one server, with its dependencies.
pub struct NatsServer {
    /// The state shared by all connections.
    pub front: Arc<NatsFront>,
    /// The node that the front serves.
    pub node: Arc<Node>,
    /// TLS, if a listener uses it.
    pub tls: Option<Arc<Tls>>,
    /// Number of open Kafka connections, which `/varz` shows.
    pub kafka_connections: Gauge,
    /// Whether deliveries are charged to quotas.
    pub charging: Charging,
}
