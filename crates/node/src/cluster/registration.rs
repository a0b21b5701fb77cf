//! What a node registers about itself, and the addresses that it announces.

use std::net::SocketAddr;

use tailrace_config::{AdvertisedListener, BrokerConfig};
use tailrace_metadata::RegisterNode;

use super::addresses::Addresses;
use super::errors::ClusterError;

/// Builds the registration of this node, except for its folder and its address for other nodes.
///
/// # Errors
/// [`ClusterError::NoAddress`] if there is no address to announce to clients.
pub(crate) fn registration(
    config: &BrokerConfig,
    addresses: &Addresses,
) -> Result<RegisterNode, ClusterError> {
    let levels = tailrace_peers::LEVELS;
    Ok(RegisterNode {
        node: config.node(),
        directory: [0; 16],
        cluster: String::new(),
        kafka: kafka_address(config, addresses.kafka)?,
        nats: nats_address(config, addresses.nats),
        http: Some(addresses.http.to_string()),
        rack: config.broker_rack.clone(),
        levels: (*levels.start(), *levels.end()),
        replica: None,
        renews: false,
    })
}

/// Returns the announced address for Kafka clients.
fn kafka_address(config: &BrokerConfig, bound: SocketAddr) -> Result<String, ClusterError> {
    match &config.advertised_listeners {
        Some(AdvertisedListener { host, port }) => Ok(join_address(host, *port)),
        None => reachable("kafka", bound, "advertised.listeners"),
    }
}

/// Returns the announced address for NATS clients of all nodes. `None` if it is not announced.
fn nats_address(config: &BrokerConfig, bound: Option<SocketAddr>) -> Option<String> {
    let bound = bound.filter(|_| !config.tailrace_nats_no_advertise)?;
    match config.tailrace_nats_advertised.as_str() {
        "" if bound.ip().is_unspecified() => None,
        "" => Some(bound.to_string()),
        advertised => Some(advertised.to_owned()),
    }
}

/// Returns the bound address, if others can use it.
pub(super) fn reachable(
    key: &'static str,
    bound: SocketAddr,
    instead: &'static str,
) -> Result<String, ClusterError> {
    if bound.ip().is_unspecified() {
        return Err(ClusterError::NoAddress { key, address: bound, instead });
    }
    Ok(bound.to_string())
}

fn join_address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
