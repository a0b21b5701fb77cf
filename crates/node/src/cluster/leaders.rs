//! Who leads what, as far as this node knows.

use tailrace_metadata::MetadataImage;
use tailrace_types::{LeaderEpoch, NodeId, PartitionId, RaftGroup};

use crate::controller::GROUP as CONTROLLER;
use crate::node::Node;
use crate::partitions::{PartitionSlot, Topic};

/// Who leads a group now, as far as this node knows.
pub fn leader(
    here: &Node,
    image: &MetadataImage,
    group: RaftGroup,
    slot: &PartitionSlot,
) -> Option<(NodeId, LeaderEpoch)> {
    if let Some(epoch) = slot.handle().and_then(|handle| handle.leads()) {
        return Some((here.id(), epoch));
    }
    let known = here.links.leader(group)?;
    let node = known.replica.node();
    // A node that died is gone from here at once. Clients that are told "none" ask again soon; told of a leader that does not answer,
    // some of them wait for seconds.
    let is_there = here.links.peers().is_some_and(|peers| peers.is_up(node));
    (node != here.id() && is_there && image.is_live(node)).then_some((node, known.epoch))
}

/// Who leads a topic's partition.
pub fn leader_of(node: &Node, topic: &Topic, index: i32) -> Option<(NodeId, LeaderEpoch)> {
    let slot = topic.partition(index)?;
    leader(node, &node.image(), RaftGroup { topic: topic.id, partition: PartitionId(index) }, slot)
}

/// The node that leads the metadata log.
pub fn controller(node: &Node) -> Option<NodeId> {
    if node.controller.handle().leads().is_some() {
        return Some(node.id());
    }
    node.links.leader(CONTROLLER).map(|leader| leader.replica.node())
}
