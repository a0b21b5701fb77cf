//! Which replica a consumer had better read from: one in its own rack (KIP-392), as Kafka's RackAwareReplicaSelector picks it.

use tailrace_types::{NodeId, Offset, PartitionId, ReplicaId};

use crate::fetch_session::{PartitionWanted, TopicKey};
use tailrace_node::Node;
use tailrace_node::partitions::Topic;

/// For each of the partitions the node to read from, where this one leads it and another one is nearer. `rack` is the consumer's.
pub(crate) async fn preferred(node: &Node, rack: &str, wanted: &[PartitionWanted]) -> Vec<Option<NodeId>> {
    let mut all = vec![None; wanted.len()];
    if node.config().broker_rack.as_deref() == Some(rack) {
        return all;
    }
    let topics = node.topics();
    for (want, preferred) in wanted.iter().zip(&mut all) {
        let topic = match &want.topic {
            TopicKey::Name(name) => topics.by_name(name),
            TopicKey::Id(id) => topics.by_id(*id),
        };
        if let Some(topic) = topic {
            *preferred = nearest(node, rack, &topic, want).await;
        }
    }
    all
}

/// The replica in the rack that has most, if it has what the consumer wants.
async fn nearest(here: &Node, rack: &str, topic: &Topic, want: &PartitionWanted) -> Option<NodeId> {
    let handle = topic.led(want.partition).ok()?;
    let image = here.image();
    let is_near = |replica: &&ReplicaId| {
        let node = image.node(replica.node());
        node.is_some_and(|node| !node.fenced && node.registration.rack.as_deref() == Some(rack))
    };
    let replicas = &topic.image.partition(PartitionId(want.partition))?.replicas;
    let near: Vec<ReplicaId> =
        replicas.iter().filter(|replica| replica.node() != here.id()).filter(is_near).copied().collect();
    if near.is_empty() {
        return None;
    }
    let stored = handle.stored_by(&near).await;
    let enough = stored.into_iter().filter(|(_, end)| *end >= Offset(want.fetch_offset));
    let most = enough.max_by_key(|(replica, end)| (*end, std::cmp::Reverse(*replica)));
    most.map(|(replica, _)| replica.node())
}
