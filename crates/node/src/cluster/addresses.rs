//! The addresses of a node's listeners.

use std::net::SocketAddr;

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The Kafka protocol.
    pub kafka: SocketAddr,
    /// The NATS protocol. `None` if it is off.
    pub nats: Option<SocketAddr>,
    /// Health and metrics.
    pub http: SocketAddr,
    /// Other nodes. `None` in a standalone server.
    pub cluster: Option<SocketAddr>,
}
