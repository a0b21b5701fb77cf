//! Answers with the replicas of the metadata log and their progress, if this node leads it.

use std::collections::HashMap;
use std::sync::Arc;
use tailrace_env::time::Duration;

use tailrace_types::{NodeId, Offset, ReplicaId};

use super::Answers;
use crate::ask::{DescribeQuorum, Quorum, QuorumReplica};
use crate::caller::Caller;
use crate::node::Node;

impl Quorum {
    /// Describes the quorum. `None` if this node does not lead the metadata log.
    pub async fn of(node: &Node) -> Option<Self> {
        let handle = node.controller.handle();
        let (log, epoch) = (&handle.reader, handle.leads()?);
        let of = |voters, learners| Self {
            leader: node.id().get(),
            epoch: epoch.get(),
            high_watermark: log.high_watermark().get(),
            voters,
            learners,
        };
        let Some(members) = handle.members().await else {
            let own = QuorumReplica::of(node, node.id(), Some(log.log_end().offset()));
            return Some(of(vec![own], Vec::new()));
        };
        let ids: Vec<ReplicaId> = members.voters.iter().chain(&members.learners).copied().collect();
        let stored: HashMap<ReplicaId, Offset> = handle.stored_by(&ids).await.into_iter().collect();
        let describe = |id: &ReplicaId| QuorumReplica::of(node, id.node(), stored.get(id).copied());
        let all = |ids: &[ReplicaId]| ids.iter().map(describe).collect();
        Some(of(all(&members.voters), all(&members.learners)))
    }
}

impl QuorumReplica {
    fn of(here: &Node, node: NodeId, stored: Option<Offset>) -> Self {
        let heard = if node == here.id() { Some(Duration::ZERO) } else { here.silence(node) };
        let heard_at =
            heard.map(|silence| here.now().0 - i64::try_from(silence.as_millis()).unwrap_or(i64::MAX));
        Self { node: node.get(), stored: stored.map(Offset::get), heard_at_ms: heard_at }
    }
}

impl Answers for DescribeQuorum {
    async fn answer(self, node: &Arc<Node>, _: &Caller) -> Option<Quorum> {
        Quorum::of(node).await
    }
}
