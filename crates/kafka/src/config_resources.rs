//! Resource types and names of the configuration APIs.

use std::collections::HashSet;

use tailrace_identity::acl::Operation;
use tailrace_metadata::BrokerScope;
use tailrace_types::NodeId;

use crate::commands::Refusal;
use crate::rights::ApiRights;

/// Resource types of the protocol.
pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
pub(crate) const CLIENT_METRICS: i8 = 16;
pub(crate) const GROUP: i8 = 32;

/// Reports whether Kafka knows the type.
pub(crate) fn is_known(resource_type: i8) -> bool {
    matches!(resource_type, TOPIC | BROKER | BROKER_LOGGER | CLIENT_METRICS | GROUP)
}

/// A resource with settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Topic(String),
    /// A group, by its id.
    Group(String),
    /// One broker, or all brokers (the empty name).
    Broker(BrokerScope),
}

/// Parses a resource type and name. Does not check whether the topic or group exists.
pub(crate) fn resource(resource_type: i8, name: &str, node: NodeId) -> Result<Resource, Refusal> {
    match resource_type {
        TOPIC => Ok(Resource::Topic(name.to_owned())),
        BROKER => broker(name, node).map(Resource::Broker),
        BROKER_LOGGER => Err(Refusal::invalid_request(
            "tailrace has no loggers that can be changed at run time; set log.level and restart.",
        )),
        CLIENT_METRICS => Err(Refusal::invalid_request("Client metrics are not supported yet.")),
        GROUP => Ok(Resource::Group(name.to_owned())),
        other => Err(Refusal::invalid_request(format!("Unknown resource type {other}"))),
    }
}

/// Refuses what the client may not do with the settings of a resource. Unknown types are refused elsewhere.
pub(crate) fn check_rights(
    rights: &ApiRights<'_>,
    operation: Operation,
    resource_type: i8,
    name: &str,
) -> Result<(), Refusal> {
    let checked = match resource_type {
        TOPIC => rights.topic(operation, name),
        GROUP => rights.group(operation, name),
        BROKER | BROKER_LOGGER | CLIENT_METRICS => rights.cluster(operation),
        _ => Ok(()),
    };
    checked.map_err(Refusal::unauthorized)
}

fn broker(name: &str, node: NodeId) -> Result<BrokerScope, Refusal> {
    if name.is_empty() {
        return Ok(BrokerScope::Cluster);
    }
    let number: i32 = name
        .parse()
        .map_err(|_| Refusal::invalid_request(format!("Broker id must be an integer, but it is: {name}")))?;
    if number != node.get() {
        let message = format!("Unexpected broker id, expected {node} or empty string, but received {number}");
        return Err(Refusal::invalid_request(message));
    }
    Ok(BrokerScope::Node(node))
}

/// Resources that appear more than once in a request.
pub(crate) struct Duplicates(HashSet<(i8, String)>);

impl Duplicates {
    pub(crate) fn among<'a>(resources: impl Iterator<Item = (i8, &'a str)>) -> Self {
        let mut seen = HashSet::new();
        let repeated = resources.filter(|resource| !seen.insert(*resource));
        Self(repeated.map(|(resource_type, name)| (resource_type, name.to_owned())).collect())
    }

    /// Refuses every entry of a repeated resource, because it is unclear which one should apply.
    pub(crate) fn check(&self, resource_type: i8, name: &str) -> Result<(), Refusal> {
        if self.0.contains(&(resource_type, name.to_owned())) {
            return Err(Refusal::invalid_request("Each resource must appear at most once."));
        }
        Ok(())
    }
}
