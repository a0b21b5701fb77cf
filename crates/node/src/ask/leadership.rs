//! Hands leadership of a partition to another replica. Only the current leader can do that.

use serde::{Deserialize, Serialize};
use tailrace_types::{RaftGroup, ReplicaId};

/// Hand a partition that the node leads to another replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HandOver {
    pub(super) topic: [u8; 16],
    pub(super) partition: i32,
    pub(super) to: u64,
}

impl HandOver {
    /// Asks the leader of `group` to hand it to `to`.
    pub fn new(group: RaftGroup, to: ReplicaId) -> Self {
        Self { topic: group.topic.0, partition: group.partition.0, to: to.0 }
    }
}
