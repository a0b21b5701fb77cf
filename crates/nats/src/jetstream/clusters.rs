//! The nodes of a stream, as answers tell of them, and what a request may ask of them.

use tailrace_jetstream::api::{ClusterInfo, PeerInfo};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::{StreamConfig, StreamLimits};
use tailrace_node::cluster::leaders::leader_of;
use tailrace_types::{NodeId, PartitionId};

use super::asked::Asked;
use super::stream::Stream;

/// The bounds of configurations.
pub(super) fn limits(asked: Asked<'_>) -> StreamLimits {
    StreamLimits::none(asked.server.node.is_alone())
}

/// Refuses a placement that no node fits. Nodes have no tags. A single server ignores it, as nats-server
/// does.
pub(super) fn check_placement(asked: Asked<'_>, config: &StreamConfig) -> Result<(), ApiError> {
    let Some(placement) = config.placement.as_ref().filter(|_| !asked.server.node.is_alone()) else {
        return Ok(());
    };
    let mut text = "no suitable peers for placement".to_owned();
    if !placement.tags.is_empty() {
        let tags: Vec<_> = placement.tags.iter().map(|tag| format!("'{tag}'")).collect();
        text = format!("{text}, tags not matched [{}]", tags.join(", "));
    } else if placement.cluster.is_empty() || placement.cluster == asked.server.node.cluster_id() {
        return Ok(());
    }
    Err(ApiError::because(ErrorKind::ClusterNoPeers, text))
}

/// What STREAM.INFO tells of the nodes: a single server names itself as the leader.
pub(super) fn of_info(asked: Asked<'_>, stream: &Stream) -> Option<ClusterInfo> {
    let alone = || ClusterInfo { leader: name_of(asked, asked.server.node.id()), ..ClusterInfo::default() };
    of_change(asked, stream).or_else(|| Some(alone()))
}

/// What the answers to changes and lists tell of the nodes: nothing if there is one server only.
pub(super) fn of_change(asked: Asked<'_>, stream: &Stream) -> Option<ClusterInfo> {
    let node = &asked.server.node;
    if node.is_alone() {
        return None;
    }
    let image = node.image();
    let topic = node.topics().by_id(stream.topic.id.0);
    let leader = topic.and_then(|topic| leader_of(node, &topic, 0)).map(|(leader, _)| leader);
    let partition = image.topic_by_id(stream.topic.id).and_then(|topic| topic.partition(PartitionId(0)));
    let nodes = partition.iter().flat_map(|partition| partition.present()).map(|replica| replica.node());
    let peer = |id: NodeId| PeerInfo {
        name: name_of(asked, id),
        current: image.is_live(id),
        offline: !image.is_live(id),
        peer: format!("n{:07}", id.0),
        ..PeerInfo::default()
    };
    Some(ClusterInfo {
        name: node.cluster_id().to_owned(),
        leader: leader.map(|id| name_of(asked, id)).unwrap_or_default(),
        replicas: nodes.filter(|id| Some(*id) != leader).map(peer).collect(),
        ..ClusterInfo::default()
    })
}

/// The name of a node's NATS server. Names that other nodes are given in their settings are not known here.
fn name_of(asked: Asked<'_>, id: NodeId) -> String {
    if id == asked.server.node.id() {
        return asked.server.front.server_info().server_name.clone();
    }
    format!("tailrace-{}", id.0)
}
