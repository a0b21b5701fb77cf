//! A coordinator of transactions that hands over while it is ending a transaction and its markers are in
//! flight.

use std::sync::Arc;
use std::time::Duration;

use tailrace_coordination::transactions::{
    TransactionEvent, TransactionFilter, TransactionReply, TransactionState,
};
use tailrace_env::time;
use tailrace_metadata::TRANSACTION_STATE_TOPIC;
use tailrace_node::{Caller, Node, cluster};
use tailrace_types::{NodeId, PartitionId, RaftGroup, ReplicaId};

/// Time between two looks for a transaction that is ending.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// This long after the transaction was seen, its markers are in flight.
const MARKERS_DELAY: Duration = Duration::from_millis(15);

/// Maximum number of attempts, because the other replica may lag.
const TRIES: u32 = 20;

/// Waits for a transaction that is ending, and hands its coordinator over to another node. Gives up if none
/// is ending within this time.
pub(super) async fn hand_over(node: Arc<Node>, to: NodeId, within: Duration) {
    let seen = async {
        loop {
            if let Some(id) = ending(&node).await {
                return id;
            }
            time::sleep(POLL_INTERVAL).await;
        }
    };
    let Ok(id) = time::timeout(within, seen).await else { return };
    time::sleep(MARKERS_DELAY).await;
    let Ok(partition) = node.transactions().partition_of(&node, Caller::internal(), &id).await else {
        return;
    };
    let (Some(topic), image) = (node.topics().by_name(TRANSACTION_STATE_TOPIC), node.image()) else { return };
    let partition = PartitionId(partition);
    let placed = image.topic(TRANSACTION_STATE_TOPIC).and_then(|topic| topic.partition(partition));
    let is_there = |replica: &ReplicaId| replica.node() == to;
    let Some(replica) = placed.and_then(|placed| placed.replicas.iter().copied().find(is_there)) else {
        return;
    };
    let group = RaftGroup { topic: topic.id, partition };
    for _ in 0..TRIES {
        if cluster::hand_to(&node, Caller::internal(), group, replica).await {
            return;
        }
        time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the transactional id of a transaction that this node is ending.
async fn ending(node: &Arc<Node>) -> Option<String> {
    let states = [TransactionState::PrepareCommit, TransactionState::PrepareAbort];
    let filter = TransactionFilter { states: Some(states.into()), ..TransactionFilter::default() };
    let event = move |token| TransactionEvent::List { token, filter: filter.clone() };
    let replies = node.transactions().submit_all(node, Caller::internal(), event).await;
    replies.into_iter().find_map(|reply| match reply {
        Ok(TransactionReply::Listed(all)) => all.into_iter().next().map(|one| one.transactional_id),
        _ => None,
    })
}
