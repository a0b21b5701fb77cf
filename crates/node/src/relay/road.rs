//! Finding the leader of a partition, again and again.

use tailrace_env::time::{self, Duration};
use tailrace_types::{LeaderEpoch, NodeId, RaftGroup};

use super::failure::NotStored;
use super::queue::Waiter;
use crate::node::Node;
use crate::retry::Pauses;

/// Pauses before a request is retried.
pub(super) const PAUSES: Pauses = Pauses::doubling(Duration::from_millis(10), Duration::from_millis(200));

/// Interval between two checks whether another node leads, while the current one does not answer.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the leading node, as far as it is known.
pub(super) fn leader(node: &Node, group: RaftGroup) -> Option<NodeId> {
    if node.partition_of(group).is_some_and(|handle| handle.leads().is_some()) {
        return Some(node.id());
    }
    // A partition with a single replica is led by that replica's node, which does not announce it.
    let announced = node.links.leader(group).map(|leader| leader.replica.node());
    announced.or_else(|| {
        let image = node.image();
        let partition = image.topic_by_id(group.topic)?.partition(group.partition)?;
        match &partition.replicas[..] {
            [only] => Some(only.node()),
            _ => None,
        }
    })
}

/// Returns the epoch of the leader, if it has announced that.
pub(super) fn epoch(node: &Node, group: RaftGroup, leader: NodeId) -> Option<LeaderEpoch> {
    if leader == node.id() {
        return node.partition_of(group).and_then(|handle| handle.leads());
    }
    node.links.leader(group).filter(|known| known.replica.node() == leader).map(|known| known.epoch)
}

/// Waits until another node than this one is known to lead.
pub(super) async fn moved(here: &Node, group: RaftGroup, from: NodeId) {
    loop {
        time::sleep(POLL_INTERVAL).await;
        if leader(here, group).is_some_and(|leader| leader != from) {
            return;
        }
    }
}

/// Tells all of them the same failure.
pub(super) fn fail(waiters: Vec<Waiter>, failure: &NotStored) {
    for waiter in waiters {
        waiter.teller.fail(failure.clone());
    }
}
