//! Waits until all nodes know of a change of the metadata, and new partitions have leaders, because a client
//! may send its next request to any node.

use std::sync::Arc;
use tailrace_env::time::Duration;

use tailrace_env::task::JoinSet;
use tailrace_env::time::{Instant, timeout_at};
use tailrace_types::{NodeId, Offset, TopicId};

use super::Answers;
use crate::ask::{ChangeKnown, ask};
use crate::caller::Caller;
use crate::cluster::leaders::leader_of;
use crate::controller::Executed;
use crate::deadlines::CHANGE_KNOWN_TIMEOUT;
use crate::node::Node;
use crate::retry::Pauses;

/// Interval between two checks for the leaders of new partitions.
const PAUSES: Pauses = Pauses::steady(Duration::from_millis(5));

/// Topics that one question asks about. Any further ones get their leaders a little later.
const TOPICS_MAX: usize = 1000;

impl Answers for ChangeKnown {
    async fn answer(self, node: &Arc<Node>, _: &Caller) {
        known_here(node, &self, Instant::now() + CHANGE_KNOWN_TIMEOUT).await;
    }
}

/// Waits until all reachable nodes know of what this node or the controller did, for a few seconds at most.
pub async fn known_to_all(here: &Arc<Node>, caller: &Caller, executed: &Executed) {
    let Some(peers) = here.links.peers() else { return };
    if executed.records.is_empty() {
        return;
    }
    let deadline = Instant::now() + CHANGE_KNOWN_TIMEOUT;
    let change = ChangeKnown::of(executed);
    let nodes = executed.image.nodes().filter(|node| !node.fenced).map(|node| node.registration.node);
    let others: Vec<NodeId> = nodes.filter(|node| *node != here.id() && peers.is_up(*node)).collect();
    let mut waiting = JoinSet::new();
    for node in others {
        let (links, caller, change) = (Arc::clone(&here.links), caller.clone(), change.clone());
        // An unresponsive node must not delay the client. The error does not matter.
        waiting.spawn(async move { drop(ask(&links, &caller, node, change).await) });
    }
    known_here(here, &change, deadline).await;
    let all = async { while waiting.join_next().await.is_some() {} };
    let _ = timeout_at(deadline, all).await;
}

async fn known_here(node: &Arc<Node>, change: &ChangeKnown, deadline: Instant) {
    if timeout_at(deadline, node.controller.applied_upto(Offset(change.end))).await.is_err() {
        return;
    }
    let mut looks = PAUSES.until(deadline);
    for id in change.topics.iter().take(TOPICS_MAX).filter_map(|text| TopicId::parse(text)) {
        while !has_leaders(node, id) {
            if !looks.pause().await {
                return;
            }
        }
    }
}

/// Also true of a topic that was deleted meanwhile.
fn has_leaders(node: &Node, id: TopicId) -> bool {
    let Some(topic) = node.topics().by_id(id.0) else { return true };
    let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
    (0..count).all(|partition| leader_of(node, &topic, partition).is_some())
}
