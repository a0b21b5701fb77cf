//! The replica that a consumer should read from: one in its own rack (KIP-392), chosen as Kafka's
//! RackAwareReplicaSelector does.

use tailrace_types::{NodeId, Offset, PartitionId, ReplicaId};

use crate::context::Context;
use crate::fetch_session::{PartitionWanted, TopicKey};
use tailrace_node::partitions::Topic;

/// Returns the node to read from for each partition: `None` unless this node leads the partition and another
/// replica is closer. `rack` is the consumer's.
pub(crate) async fn preferred(
    context: &Context,
    rack: &str,
    wanted: &[PartitionWanted],
) -> Vec<Option<NodeId>> {
    let node = context.node();
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
            *preferred = nearest(context, rack, &topic, want).await;
        }
    }
    all
}

/// Returns the node of the most advanced other replica in the rack, or `None` if no replica there has the
/// offset the consumer wants.
async fn nearest(context: &Context, rack: &str, topic: &Topic, want: &PartitionWanted) -> Option<NodeId> {
    let (here, came_by) = (context.node(), &context.session.came_by);
    let handle = topic.led(want.partition).ok()?;
    let image = here.image();
    let is_near = |replica: &&ReplicaId| {
        let node = image.node(replica.node());
        node.is_some_and(|node| {
            let known = &node.registration;
            !node.fenced && known.rack.as_deref() == Some(rack) && came_by.address_of(known).is_some()
        })
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
