//! Who keeps the metadata, and how far they are: the node that leads the metadata log knows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tailrace_types::{NodeId, Offset, ReplicaId};

use super::{AnyQuestion, LOOK_TIMEOUT, Question};
use crate::node::Node;

/// Who keeps the metadata?
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescribeQuorum {}

/// As the leader of the metadata log knows it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quorum {
    /// The node that leads.
    pub leader: i32,
    /// Its epoch.
    pub epoch: i32,
    /// One past the last offset that is committed.
    pub high_watermark: i64,
    /// Replicas whose vote counts.
    pub voters: Vec<QuorumReplica>,
    /// Replicas that follow without a vote.
    pub learners: Vec<QuorumReplica>,
}

/// One who keeps the metadata.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QuorumReplica {
    /// Where it is.
    pub node: i32,
    /// One past the last record that it has durably, where that is known.
    pub stored: Option<i64>,
    /// When the leader last heard of it, in milliseconds of its wall clock; `None` if it never did.
    pub heard_at_ms: Option<i64>,
}

impl Quorum {
    /// `None` if this node does not lead the metadata log.
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

impl Question for DescribeQuorum {
    /// `None` if the node does not lead the metadata log.
    type Answer = Option<Quorum>;

    const TIMEOUT: Duration = LOOK_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::DescribeQuorum(self)
    }

    async fn answer(self, node: &Arc<Node>) -> Option<Quorum> {
        Quorum::of(node).await
    }
}
