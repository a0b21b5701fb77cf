//! Where the listeners of a node are.

use std::net::SocketAddr;

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The Kafka protocol.
    pub kafka: SocketAddr,
    /// The NATS protocol; `None` if that is off.
    pub nats: Option<SocketAddr>,
    /// Health and metrics.
    pub http: SocketAddr,
    /// Other nodes; `None` if this one is alone.
    pub cluster: Option<SocketAddr>,
}
