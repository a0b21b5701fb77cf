//! Calls to the share coordinator, which keeps the state of share-partitions in `__share_group_state`.

use std::collections::BTreeMap;
use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::Duration;

use tailrace_coordination::share::{
    KeptState, ShareAnswer, ShareEvent, SharePartitionKey, ShareRequest, ShareStateError,
};
use tailrace_types::{Offset, TopicId};

use super::elsewhere::{ask_share_coordinator, forget_share_partitions_elsewhere};
pub use super::failure::StateFailure;
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::deadlines::SHARE_COORDINATOR_TIMEOUT;
use crate::node::Node;
use crate::retry::Pauses;

/// States that one coordinator is asked to delete concurrently.
const DELETIONS_AT_ONCE: usize = 32;

/// Pause before a moving coordinator is asked again.
const PAUSES: Pauses = Pauses::steady(Duration::from_millis(50));

/// Asks the coordinator of the request's share-partition, on this node or another, and waits until the result
/// is committed. While the coordinator moves to another node, waits and asks again, so a coordinator may get
/// each request twice.
pub(crate) async fn ask(
    node: &Arc<Node>,
    caller: &Caller,
    request: ShareRequest,
) -> Result<ShareAnswer, StateFailure> {
    let mut retry = PAUSES.until(caller.until(SHARE_COORDINATOR_TIMEOUT));
    loop {
        let outcome = ask_once(node, caller, request.clone()).await;
        let moves = outcome.as_ref().is_err_and(is_moving) && node.links.peers().is_some();
        if !moves || !retry.pause().await {
            return outcome;
        }
    }
}

fn is_moving(failure: &StateFailure) -> bool {
    let StateFailure::Coordinator(failure) = failure else { return false };
    matches!(failure, CoordinatorFailure::Elsewhere | CoordinatorFailure::Reloaded)
}

async fn ask_once(
    here: &Arc<Node>,
    caller: &Caller,
    request: ShareRequest,
) -> Result<ShareAnswer, StateFailure> {
    let name = request.key().coordinator_key();
    match here.coordinators.shares.elsewhere(here, caller, &name).await? {
        Some(node) => ask_share_coordinator(here, caller, node, request).await,
        None => ask_here(here, caller, request).await,
    }
}

/// Asks the coordinator of one share-partition on this node.
pub(crate) async fn ask_here(
    node: &Arc<Node>,
    caller: &Caller,
    request: ShareRequest,
) -> Result<ShareAnswer, StateFailure> {
    let name = request.key().coordinator_key();
    let event = move |token| ShareEvent { token, request };
    let pending = node.coordinators.shares.submit(node, caller, &name, event).await?;
    Ok(pending.reply().await??)
}

async fn ask_for_state(
    node: &Arc<Node>,
    caller: &Caller,
    request: ShareRequest,
) -> Result<KeptState, StateFailure> {
    match ask(node, caller, request).await? {
        ShareAnswer::State(state) => Ok(state),
        ShareAnswer::Done => Err(ShareStateError::NotInitialized.into()),
    }
}

/// Returns the state, and creates it if there is none of this generation.
///
/// # Errors
/// The share coordinator is unavailable, or the request comes too late: states of this generation have been
/// deleted, or a later one has been created.
pub async fn initialize(
    node: &Arc<Node>,
    caller: &Caller,
    key: &SharePartitionKey,
    generation: i64,
) -> Result<KeptState, StateFailure> {
    ask_for_state(node, caller, ShareRequest::Initialize { key: key.clone(), generation }).await
}

/// Creates the missing states of a group's share-partitions. Returns those that exist afterwards.
pub(crate) async fn initialize_all(
    node: &Arc<Node>,
    caller: &Caller,
    group: &Arc<str>,
    generation: i64,
    topics: Vec<(TopicId, Vec<i32>)>,
) -> Vec<(TopicId, Vec<i32>)> {
    let mut made = Vec::with_capacity(topics.len());
    for (topic, partitions) in topics {
        let mut there = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let key = SharePartitionKey { group: Arc::clone(group), topic, partition };
            match initialize(node, caller, &key, generation).await {
                Ok(_) => there.push(partition),
                Err(failure) => {
                    tracing::warn!(share_partition = %key, %failure, "could not create a share-partition's state");
                }
            }
        }
        made.push((topic, there));
    }
    made
}

/// Returns the state, for the leader of the partition in this epoch.
///
/// # Errors
/// There is no state. It is created when the group's coordinator finds that a member reads the topic.
pub(crate) async fn read(
    node: &Arc<Node>,
    caller: &Caller,
    key: &SharePartitionKey,
    leader_epoch: i32,
) -> Result<KeptState, StateFailure> {
    ask_for_state(node, caller, ShareRequest::Read { key: key.clone(), leader_epoch }).await
}

/// Returns the state without its batches. `None` if there is none.
pub async fn summary(
    node: &Arc<Node>,
    caller: &Caller,
    key: &SharePartitionKey,
) -> Result<Option<KeptState>, StateFailure> {
    match ask_for_state(node, caller, ShareRequest::Summary { key: key.clone() }).await {
        Ok(state) => Ok(Some(state)),
        Err(StateFailure::Refused(ShareStateError::NotInitialized)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Invalidates share-partitions in use on all nodes, because their states were reset or deleted.
async fn forget(node: &Arc<Node>, caller: &Caller, keys: &[SharePartitionKey]) {
    keys.iter().for_each(|key| node.share.forget(key));
    forget_share_partitions_elsewhere(node, caller, keys).await;
}

/// Resets an existing state to `start`.
///
/// # Errors
/// The share coordinator is unavailable, or the request comes too late: there is no state of this generation
/// or an earlier one.
pub async fn reset(
    node: &Arc<Node>,
    caller: &Caller,
    key: &SharePartitionKey,
    generation: i64,
    start: Offset,
) -> Result<(), StateFailure> {
    ask(node, caller, ShareRequest::Reset { key: key.clone(), generation, start }).await?;
    forget(node, caller, std::slice::from_ref(key)).await;
    Ok(())
}

/// Deletes states up to a generation, if they exist. Returns one result per key, in the order of the keys.
pub(crate) async fn delete(
    node: &Arc<Node>,
    caller: &Caller,
    keys: &[SharePartitionKey],
    upto: i64,
) -> Vec<Result<(), StateFailure>> {
    // The result if a task panics before it answers.
    let mut answers = vec![Err(CoordinatorFailure::Reloaded.into()); keys.len()];
    let mut by_coordinator: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        match node.coordinators.shares.partition_of(node, caller, &key.coordinator_key()).await {
            Ok(partition) => by_coordinator.entry(partition).or_default().push(index),
            Err(failure) => answers[index] = Err(failure.into()),
        }
    }
    let mut asked = Vec::with_capacity(by_coordinator.len());
    for indexes in by_coordinator.into_values() {
        let own = indexes.iter().map(|index| keys[*index].clone()).collect();
        let deleting = delete_at_one(Arc::clone(node), caller.clone(), own, upto);
        asked.push((indexes, task::spawn(deleting)));
    }
    for (indexes, deleted) in asked {
        let deleted = deleted.await.unwrap_or_default();
        indexes.into_iter().zip(deleted).for_each(|(index, answer)| answers[index] = answer);
    }
    forget(node, caller, keys).await;
    answers
}

/// Deletes the states of one coordinator. Once it is unavailable, it is not asked for the others.
async fn delete_at_one(
    node: Arc<Node>,
    caller: Caller,
    keys: Vec<SharePartitionKey>,
    upto: i64,
) -> Vec<Result<(), StateFailure>> {
    let mut answers: Vec<Result<(), StateFailure>> = Vec::with_capacity(keys.len());
    for some in keys.chunks(DELETIONS_AT_ONCE) {
        let asked: Vec<_> = some
            .iter()
            .map(|key| {
                let (node, caller) = (Arc::clone(&node), caller.clone());
                let request = ShareRequest::Delete { key: key.clone(), upto };
                task::spawn(async move { ask(&node, &caller, request).await.map(drop) })
            })
            .collect();
        for answer in asked {
            answers.push(answer.await.unwrap_or(Err(CoordinatorFailure::Reloaded.into())));
        }
        if let Some(Err(failure)) = answers.iter().find(|answer| answer.is_err()).cloned() {
            answers.resize(keys.len(), Err(failure));
        }
        if answers.len() == keys.len() {
            break;
        }
    }
    answers
}

/// Deletes states that were created for a group that was deleted meanwhile. They were created after the
/// deletion, so otherwise they would stay.
pub async fn take_back(
    node: &Arc<Node>,
    caller: &Caller,
    group: &Arc<str>,
    generation: i64,
    made: &[(TopicId, Vec<i32>)],
) {
    let caller = caller.patient();
    let key = |topic, partition| SharePartitionKey { group: Arc::clone(group), topic, partition };
    let keys: Vec<_> = made
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(move |number| key(*topic, *number)))
        .collect();
    for (key, answer) in keys.iter().zip(delete(node, &caller, &keys, generation).await) {
        if let Err(failure) = answer {
            tracing::warn!(share_partition = %key, %failure, "could not delete a state of a share group that is gone");
        }
    }
}
