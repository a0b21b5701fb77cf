//! Who leads what, as far as this node knows.

use tailrace_metadata::MetadataImage;
use tailrace_types::{LeaderEpoch, NodeId, PartitionId, RaftGroup};

use crate::broker::Broker;
use crate::controller::log::GROUP as CONTROLLER;
use crate::partitions::{PartitionSlot, Topic};

/// Who leads a group now, as far as this node knows.
pub(crate) fn leader(
    broker: &Broker,
    image: &MetadataImage,
    group: RaftGroup,
    slot: &PartitionSlot,
) -> Option<(NodeId, LeaderEpoch)> {
    if let Some(epoch) = slot.handle().and_then(|handle| handle.leads()) {
        return Some((broker.node(), epoch));
    }
    let known = broker.links.leader(group)?;
    let node = known.replica.node();
    // A node that died is gone from here at once. Clients that are told "none" ask again soon; told of a leader that does not answer,
    // some of them wait for seconds.
    let is_there = broker.links.peers().is_some_and(|peers| peers.is_up(node));
    (node != broker.node() && is_there && image.is_live(node)).then_some((node, known.epoch))
}

/// Who leads a topic's partition.
pub(crate) fn leader_of(broker: &Broker, topic: &Topic, index: i32) -> Option<(NodeId, LeaderEpoch)> {
    let slot = topic.partition(index)?;
    leader(broker, &broker.image(), RaftGroup { topic: topic.id, partition: PartitionId(index) }, slot)
}

/// The node that leads the metadata log.
pub(crate) fn controller(broker: &Broker) -> Option<NodeId> {
    if broker.controller.handle().leads().is_some() {
        return Some(broker.node());
    }
    broker.links.leader(CONTROLLER).map(|leader| leader.replica.node())
}
