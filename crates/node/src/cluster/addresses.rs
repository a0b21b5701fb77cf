//! The addresses of a node's listeners.

use std::net::SocketAddr;

/// Where a server listens.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// The Kafka protocol, on the first listener.
    pub kafka: SocketAddr,
    /// The other Kafka listeners, in the order of the settings.
    pub more_kafka: Vec<SocketAddr>,
    /// The NATS protocol. `None` if it is off.
    pub nats: Option<SocketAddr>,
    /// Health and metrics.
    pub http: SocketAddr,
    /// Other nodes. `None` in a standalone server.
    pub cluster: Option<SocketAddr>,
}

impl Addresses {
    /// Returns the addresses of all Kafka listeners, in the order of the settings.
    pub fn all_kafka(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(self.kafka).chain(self.more_kafka.iter().copied())
    }
}
