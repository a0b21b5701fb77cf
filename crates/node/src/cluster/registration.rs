//! What a node says of itself when it registers, and where others are told to reach it.

use std::net::SocketAddr;

use tailrace_config::{AdvertisedListener, BrokerConfig};
use tailrace_metadata::RegisterNode;

use super::addresses::Addresses;
use super::errors::ClusterError;

/// What a node says of itself when it registers, but for its folder and where other nodes reach it.
///
/// # Errors
/// [`ClusterError::NoAddress`] if clients could not be told where it is.
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

/// Where this node is reached by clients of Kafka, as others are told.
fn kafka_address(config: &BrokerConfig, bound: SocketAddr) -> Result<String, ClusterError> {
    match &config.advertised_listeners {
        Some(AdvertisedListener { host, port }) => Ok(join_address(host, *port)),
        None => reachable("kafka", bound, "advertised.listeners"),
    }
}

/// Where NATS clients of all nodes are told to find this one, if they are told.
fn nats_address(config: &BrokerConfig, bound: Option<SocketAddr>) -> Option<String> {
    let bound = bound.filter(|_| !config.tailrace_nats_no_advertise)?;
    match config.tailrace_nats_advertised.as_str() {
        "" if bound.ip().is_unspecified() => None,
        "" => Some(bound.to_string()),
        advertised => Some(advertised.to_owned()),
    }
}

/// The bound address, if others can use it.
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
