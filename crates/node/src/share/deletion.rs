//! Deletes states before the group that they belong to, or before the group forgets a topic.
//!
//! There are three steps, and each is committed before the next one starts. The group records which states
//! are being deleted, and stops counting them. The share coordinators delete them. The group records that
//! they are gone. If a node is killed in between, or a coordinator moves, the group still knows what remains
//! to be done. Repeating the request continues from there. So does the group's coordinator, when it is loaded
//! and when a member arrives.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_coordination::groups::{
    GroupError, GroupEvent, GroupReply, ShareEvent, ShareReply, StateDeletion,
};
use tailrace_coordination::share::SharePartitionKey;
use tailrace_types::TopicId;

use super::state::{self, StateFailure};
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;

/// Why states were not deleted. The group is unchanged, except that it no longer counts those states.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeletionFailure {
    /// No coordinator of the group could answer.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorFailure),
    /// The group refuses the deletion.
    #[error(transparent)]
    Refused(#[from] GroupError),
    /// A share coordinator failed to delete a state.
    #[error(transparent)]
    State(#[from] StateFailure),
}

/// Deletes the states of a group without members: those of these topics, or all. Returns one result for each
/// topic that had states.
///
/// # Errors
/// The group has members or does not exist, or its coordinator is unavailable.
pub async fn delete_states(
    node: &Arc<Node>,
    caller: &Caller,
    group: &Arc<str>,
    topics: Option<Vec<TopicId>>,
) -> Result<BTreeMap<TopicId, Result<(), StateFailure>>, DeletionFailure> {
    match tell(node, caller, group, ShareEvent::DeleteStates { topics }).await? {
        // Once started, the deletion completes, however long the caller waits.
        ShareReply::DeleteStates(begun) => carry_out(node, &caller.patient(), group, begun?).await,
        _ => Err(CoordinatorFailure::Reloaded.into()),
    }
}

/// Deletes states that the group wants deleted, and tells it which ones are gone.
pub(crate) async fn carry_out(
    node: &Arc<Node>,
    caller: &Caller,
    group: &Arc<str>,
    deletion: StateDeletion,
) -> Result<BTreeMap<TopicId, Result<(), StateFailure>>, DeletionFailure> {
    let StateDeletion { upto, topics } = deletion;
    let key = |topic, partition| SharePartitionKey { group: Arc::clone(group), topic, partition };
    let keys: Vec<SharePartitionKey> = topics
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(move |number| key(*topic, *number)))
        .collect();
    let mut outcomes: BTreeMap<TopicId, Result<(), StateFailure>> =
        topics.iter().map(|(topic, _)| (*topic, Ok(()))).collect();
    for (key, answer) in keys.iter().zip(state::delete(node, caller, &keys, upto).await) {
        let Err(failure) = answer else { continue };
        tracing::warn!(share_partition = %key, %failure, "could not delete a share-partition's state");
        outcomes.insert(key.topic, Err(failure));
    }
    let gone = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(topic, _)| *topic).collect();
    match tell(node, caller, group, ShareEvent::StatesDeleted { upto, topics: gone }).await? {
        ShareReply::StatesChanged(changed) => changed?,
        _ => return Err(CoordinatorFailure::Reloaded.into()),
    }
    Ok(outcomes)
}

/// Sends an event to the coordinator of a group.
pub(crate) async fn tell(
    node: &Arc<Node>,
    caller: &Caller,
    group: &Arc<str>,
    event: ShareEvent,
) -> Result<ShareReply, CoordinatorFailure> {
    let id = Arc::clone(group);
    let event = move |token| GroupEvent::Share { token, group: id, event };
    match node.coordinators.groups.submit(node, caller, group, event).await?.reply().await? {
        GroupReply::Share(reply) => Ok(reply),
        _ => Err(CoordinatorFailure::Reloaded),
    }
}
