//! States go before the group that they belong to, or before it knows no more of a topic.
//!
//! Three steps, each of which is committed before the next one begins: the group writes which states go, and counts them no more; the share
//! coordinators delete them; the group writes that they are gone. Who is killed in between, or moves, leaves a group that knows what is
//! left to be done: the same request goes on from there, and so does the group's coordinator, when it is loaded and when a member comes.

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

/// Why states were not deleted. The group is as it was, but for those states: they count no more.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeletionFailure {
    /// There is no coordinator of the group that could answer.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorFailure),
    /// The group refuses it.
    #[error(transparent)]
    Refused(#[from] GroupError),
    /// A share coordinator does not do it.
    #[error(transparent)]
    State(#[from] StateFailure),
}

/// Deletes the states of a group without members: those of these topics, or all. Each topic that had states answers for itself.
///
/// # Errors
/// The group has members, or does not exist; or its coordinator cannot be had.
pub async fn delete_states(
    node: &Arc<Node>,
    caller: &Caller,
    group: &Arc<str>,
    topics: Option<Vec<TopicId>>,
) -> Result<BTreeMap<TopicId, Result<(), StateFailure>>, DeletionFailure> {
    match tell(node, caller, group, ShareEvent::DeleteStates { topics }).await? {
        // What is begun is finished, however long the caller waits.
        ShareReply::DeleteStates(begun) => carry_out(node, &caller.patient(), group, begun?).await,
        _ => Err(CoordinatorFailure::Reloaded.into()),
    }
}

/// Deletes states that the group wants deleted, and tells it of those that are gone.
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
        tracing::warn!(share_partition = %key, %failure, "a share-partition's state was not deleted");
        outcomes.insert(key.topic, Err(failure));
    }
    let gone = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(topic, _)| *topic).collect();
    match tell(node, caller, group, ShareEvent::StatesDeleted { upto, topics: gone }).await? {
        ShareReply::StatesChanged(changed) => changed?,
        _ => return Err(CoordinatorFailure::Reloaded.into()),
    }
    Ok(outcomes)
}

/// Tells the coordinator of a group something.
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
