//! Leaders, as far as this node knows.

use tailrace_env::time::Duration;
use tailrace_metadata::MetadataImage;
use tailrace_types::{LeaderEpoch, NodeId, PartitionId, RaftGroup};

use crate::controller::GROUP as CONTROLLER;
use crate::node::Node;
use crate::partitions::{NotHere, Topic};

/// Returns the leader of a topic's partition by this image, as far as this node knows.
pub fn leader(
    here: &Node,
    image: &MetadataImage,
    topic: &Topic,
    index: i32,
) -> Option<(NodeId, LeaderEpoch)> {
    match topic.led(index).map(|handle| handle.leads()) {
        Ok(Some(epoch)) => return Some((here.id(), epoch)),
        Err(NotHere::NoSuchPartition) => return None,
        Ok(None) | Err(NotHere::Elsewhere | NotHere::Offline(_)) => {}
    }
    let known = here.links.leader(RaftGroup { topic: topic.id, partition: PartitionId(index) })?;
    let node = known.replica.node();
    // A dead node disappears from here at once. A client that gets "no leader" retries soon, but some clients
    // wait for seconds for a leader that does not answer.
    let is_there = here.links.peers().is_some_and(|peers| peers.is_up(node));
    (node != here.id() && is_there && image.is_live(node)).then_some((node, known.epoch))
}

/// Returns the leader of a topic's partition.
pub fn leader_of(node: &Node, topic: &Topic, index: i32) -> Option<(NodeId, LeaderEpoch)> {
    leader(node, &node.image(), topic, index)
}

/// Returns how long the controller has been silent. Until another one is known, it is the time for which all
/// nodes have been. A node that is the controller hears itself.
pub(crate) fn controller_silence(node: &Node) -> Duration {
    let silence = match controller(node) {
        Some(id) if id == node.id() => None,
        Some(id) => node.silence(id),
        None => node.silence_of_all(),
    };
    silence.unwrap_or_default()
}

/// Returns the node that leads the metadata log.
pub fn controller(node: &Node) -> Option<NodeId> {
    if node.controller.handle().leads().is_some() {
        return Some(node.id());
    }
    node.links.leader(CONTROLLER).map(|leader| leader.replica.node())
}
