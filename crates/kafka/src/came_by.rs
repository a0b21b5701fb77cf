//! The listener that a client came by, and the addresses that it is told therefore.

use std::net::SocketAddr;

use prometheus_client::metrics::gauge::Gauge;
use tailrace_config::KafkaListener;
use tailrace_metadata::NodeRegistration;

/// The listener that a client came by.
#[derive(Debug)]
pub(crate) struct CameBy {
    pub(crate) settings: KafkaListener,
    /// Whether it is the first listener of this node.
    pub(crate) is_first: bool,
    /// Its open connections.
    pub(crate) connections: Gauge,
}

impl CameBy {
    /// Returns the address of another node for a client of this listener. `None` if that node has no such
    /// listener.
    pub(crate) fn address_of<'a>(&self, node: &'a NodeRegistration) -> Option<&'a str> {
        node.kafka_address(self.settings.name.as_deref(), self.is_first)
    }

    /// Returns the host and port of this node for a client of this listener, who has reached it at `local`.
    pub(crate) fn own_address(&self, local: SocketAddr) -> (String, u16) {
        match &self.settings.advertised {
            Some(advertised) => (advertised.host.clone(), advertised.port),
            None => (local.ip().to_canonical().to_string(), local.port()),
        }
    }
}
