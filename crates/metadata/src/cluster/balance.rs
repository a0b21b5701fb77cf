//! Moves leadership back to the preferred leaders.

use std::collections::BTreeMap;

use tailrace_types::{NodeId, RaftGroup, ReplicaId};

use super::leaders::Leaders;
use crate::image::MetadataImage;

/// A leadership that should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaderMove {
    /// The partition's group.
    pub group: RaftGroup,
    /// The replica that leads now.
    pub from: ReplicaId,
    /// The preferred replica.
    pub to: ReplicaId,
}

/// Returns the leaderships that should move back to the preferred replica, ordered by group.
///
/// This is Kafka's rule. For each node, count the partitions for which it is the preferred leader. If other
/// nodes lead more than `leader.imbalance.per.broker.percentage` of them, and the node is live, all of these
/// move back. A replica that is only being added does not lead. Before it hands over, the leader checks that
/// the replica has caught up. The caller runs this every `leader.imbalance.check.interval.seconds`, and only
/// with `auto.leader.rebalance.enable`.
pub fn preferred_leader_moves(image: &MetadataImage, leaders: &Leaders) -> Vec<LeaderMove> {
    let percentage = u64::from(image.broker().leader_imbalance_per_broker_percentage);
    let mut by_node: BTreeMap<NodeId, (u64, Vec<LeaderMove>)> = BTreeMap::new();
    for topic in image.topics() {
        for (number, partition) in topic.assignment() {
            let group = RaftGroup { topic: topic.id, partition: number };
            let Some(to) = partition.replicas.first().copied() else { continue };
            let (preferred, moves) = by_node.entry(to.node()).or_default();
            *preferred += 1;
            match leaders.get(group) {
                Some(leader) if leader.replica != to && !partition.adding.contains(&to) => {
                    moves.push(LeaderMove { group, from: leader.replica, to });
                }
                Some(_) | None => {}
            }
        }
    }
    by_node.retain(|node, (preferred, moves)| {
        image.is_live(*node) && moves.len() as u64 * 100 > *preferred * percentage
    });
    let mut moves: Vec<LeaderMove> = by_node.into_values().flat_map(|(_, moves)| moves).collect();
    moves.sort_unstable();
    moves
}
