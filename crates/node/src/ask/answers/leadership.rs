//! Hands over leadership of a partition at another node's request.

use std::sync::Arc;

use tailrace_types::{PartitionId, RaftGroup, ReplicaId, TopicId};

use super::Answers;
use crate::ask::HandOver;
use crate::caller::Caller;
use crate::cluster;
use crate::node::Node;

impl Answers for HandOver {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> bool {
        let group = RaftGroup { topic: TopicId(self.topic), partition: PartitionId(self.partition) };
        cluster::hand_to(node, caller, group, ReplicaId(self.to)).await
    }
}
