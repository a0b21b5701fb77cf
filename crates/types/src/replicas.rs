//! Ids of replicas and of the raft groups that they form.

use std::fmt;

use crate::{NodeId, PartitionId, TopicId};

/// The id of one replica of one partition. Never 0. Never used again once the replica's disk was lost,
/// because raft relies on every entry that an id has acknowledged.
///
/// In a cluster, the lower 32 bits are the node. The upper 32 bits count the replicas that the partition has
/// had on that node, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u64);

impl ReplicaId {
    /// Returns the id of replica number `incarnation` (from 1) of a partition on `node` (not negative).
    pub const fn new(node: NodeId, incarnation: u32) -> Self {
        Self((incarnation as u64) << 32 | node.0.cast_unsigned() as u64)
    }

    /// Returns the node that holds the replica.
    pub const fn node(self) -> NodeId {
        NodeId((self.0 & 0xffff_ffff) as u32 as i32)
    }

    /// Returns the replica's number among those that the partition has had on this node, from 1.
    pub const fn incarnation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a raft group: a partition, by its topic's id. A topic that is deleted and created again has
/// other groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RaftGroup {
    /// The topic.
    pub topic: TopicId,
    /// Its partition.
    pub partition: PartitionId,
}

impl fmt::Display for RaftGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_knows_its_node() {
        for (node, incarnation) in [(0, 1), (1, 1), (i32::MAX, u32::MAX)] {
            let id = ReplicaId::new(NodeId(node), incarnation);
            assert_eq!((id.node(), id.incarnation()), (NodeId(node), incarnation));
            assert_ne!(id.0, 0);
        }
    }
}
