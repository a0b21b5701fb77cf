//! Leadership of a partition for another replica: only its leader can hand it over.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tailrace_types::{PartitionId, RaftGroup, ReplicaId, TopicId};

use super::{AnyQuestion, Question, STEP_TIMEOUT};
use crate::cluster;
use crate::node::Node;

/// Hand a partition that the node leads to another replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HandOver {
    topic: [u8; 16],
    partition: i32,
    to: u64,
}

impl HandOver {
    /// `to` is to lead `group`.
    pub fn new(group: RaftGroup, to: ReplicaId) -> Self {
        Self { topic: group.topic.0, partition: group.partition.0, to: to.0 }
    }
}

impl Question for HandOver {
    /// False if the node does not lead it, or the replica is not there or has not caught up.
    type Answer = bool;

    const TIMEOUT: Duration = STEP_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::HandOver(self)
    }

    async fn answer(self, node: &Arc<Node>) -> bool {
        let group = RaftGroup { topic: TopicId(self.topic), partition: PartitionId(self.partition) };
        cluster::hand_to(node, group, ReplicaId(self.to)).await
    }
}
