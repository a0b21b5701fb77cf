//! What a node registers about itself, and the addresses that it announces.

use std::net::SocketAddr;

use tailrace_config::{BrokerConfig, KafkaListener};
use tailrace_metadata::{KafkaEndpoint, RegisterNode};

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
    let bound = config.kafka_listeners().iter().zip(addresses.all_kafka());
    let kafka = bound.map(|(listener, bound)| Ok((listener, kafka_address(listener, bound)?)));
    let kafka = kafka.collect::<Result<Vec<_>, ClusterError>>()?;
    let endpoint = |(listener, address): &(&KafkaListener, String)| {
        let (name, address) = (listener.name.clone()?, address.clone());
        Some(KafkaEndpoint { name, protocol: listener.protocol, address })
    };
    Ok(RegisterNode {
        node: config.node(),
        directory: [0; 16],
        cluster: String::new(),
        listeners: kafka.iter().filter_map(endpoint).collect(),
        // There is at least one.
        kafka: kafka.into_iter().next().map(|(_, address)| address).unwrap_or_default(),
        nats: nats_address(config, addresses.nats),
        http: Some(addresses.http.to_string()),
        rack: config.broker_rack.clone(),
        levels: (*levels.start(), *levels.end()),
        replica: None,
        renews: false,
    })
}

/// Returns the announced address of a Kafka listener.
fn kafka_address(listener: &KafkaListener, bound: SocketAddr) -> Result<String, ClusterError> {
    let key = if listener.name.is_some() { "listeners" } else { "kafka" };
    match &listener.advertised {
        Some(advertised) => Ok(advertised.to_string()),
        None => reachable(key, bound, "advertised.listeners"),
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
