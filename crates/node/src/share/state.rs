//! Calls to the share coordinator, which keeps the state of share-partitions in `__share_group_state`.

use std::sync::Arc;
use tailrace_env::time::Duration;

use tailrace_coordination::share::{
    KeptState, ShareAnswer, ShareEvent, SharePartitionKey, ShareRequest, ShareStateError,
};
use tailrace_env::time::Instant;
use tailrace_metadata::SHARE_GROUP_STATE_TOPIC;
use tailrace_types::{Offset, TopicId};

use super::elsewhere::{
    ask_share_coordinator, ask_share_coordinators_elsewhere, forget_share_partition_elsewhere,
};
pub use super::failure::StateFailure;
use crate::coordinators::CoordinatorFailure;
use crate::deadlines::SHARE_COORDINATOR_TIMEOUT;
use crate::node::Node;
use crate::retry::Pauses;

/// Until a coordinator that moves is asked again.
const PAUSES: Pauses = Pauses::steady(Duration::from_millis(50));

/// Asks the coordinator of the share-partition that the request is about, here or at another node, and waits until what it did is
/// committed. While the coordinator moves to another node, this waits and asks again: each request may be put twice.
pub(crate) async fn ask(node: &Arc<Node>, request: ShareRequest) -> Result<ShareAnswer, StateFailure> {
    let mut retry = PAUSES.until(Instant::now() + SHARE_COORDINATOR_TIMEOUT);
    loop {
        let outcome = ask_once(node, request.clone()).await;
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

async fn ask_once(here: &Arc<Node>, request: ShareRequest) -> Result<ShareAnswer, StateFailure> {
    let key = request.key().ok_or(ShareStateError::UnknownPartition)?;
    match here.coordinators.shares.elsewhere(here, &key.coordinator_key()).await? {
        Some(node) => ask_share_coordinator(here, node, request).await,
        None => ask_here(here, request).await,
    }
}

/// Asks the coordinator of one share-partition at this node.
pub(crate) async fn ask_here(node: &Arc<Node>, request: ShareRequest) -> Result<ShareAnswer, StateFailure> {
    let name = request.key().ok_or(ShareStateError::UnknownPartition)?.coordinator_key();
    let event = move |token| ShareEvent { token, request };
    let pending = node.coordinators.shares.submit(node, &name, event).await?;
    Ok(pending.reply().await??)
}

/// Asks every coordinator of this node.
pub(crate) async fn ask_all_here(
    node: &Arc<Node>,
    request: &ShareRequest,
) -> Result<Vec<ShareAnswer>, StateFailure> {
    let request = request.clone();
    let event = move |token| ShareEvent { token, request: request.clone() };
    let replies = node.coordinators.shares.submit_all(node, event).await;
    replies.into_iter().map(|reply| Ok(reply??)).collect()
}

/// Asks every coordinator.
///
/// # Errors
/// That of the first one that could not be asked; or a partition of their topic has no leader just now.
async fn ask_all(node: &Arc<Node>, request: ShareRequest) -> Result<Vec<ShareAnswer>, StateFailure> {
    let mut answers = ask_all_here(node, &request).await?;
    answers.extend(ask_share_coordinators_elsewhere(node, &request).await?);
    let topic = node.topics().by_name(SHARE_GROUP_STATE_TOPIC);
    if answers.len() < topic.map_or(0, |topic| topic.partitions.len()) {
        return Err(CoordinatorFailure::Elsewhere.into());
    }
    Ok(answers)
}

async fn ask_for_state(node: &Arc<Node>, request: ShareRequest) -> Result<KeptState, StateFailure> {
    match ask(node, request).await? {
        ShareAnswer::State(state) => Ok(state),
        ShareAnswer::Done | ShareAnswer::Partitions(_) => Err(ShareStateError::NotInitialized.into()),
    }
}

/// The state, made if there is none.
pub(crate) async fn initialize(node: &Arc<Node>, key: &SharePartitionKey) -> Result<KeptState, StateFailure> {
    let request = ShareRequest::Initialize { key: key.clone(), state_epoch: 0, start: None };
    ask_for_state(node, request).await
}

/// Makes states of a group's share-partitions, where there are none. Returns those that are there then.
pub(crate) async fn initialize_all(
    node: &Arc<Node>,
    group: &Arc<str>,
    topics: Vec<(TopicId, Vec<i32>)>,
) -> Vec<(TopicId, Vec<i32>)> {
    let mut made = Vec::with_capacity(topics.len());
    for (topic, partitions) in topics {
        let mut there = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let key = SharePartitionKey { group: Arc::clone(group), topic, partition };
            match initialize(node, &key).await {
                Ok(_) => there.push(partition),
                Err(failure) => {
                    tracing::warn!(share_partition = %key, %failure, "a share-partition's state was not made");
                }
            }
        }
        made.push((topic, there));
    }
    made
}

/// The state, for the leader of the partition in this epoch.
///
/// # Errors
/// There is none: it is made when the group's coordinator finds that a member reads the topic.
pub(crate) async fn read(
    node: &Arc<Node>,
    key: &SharePartitionKey,
    leader_epoch: i32,
) -> Result<KeptState, StateFailure> {
    ask_for_state(node, ShareRequest::Read { key: key.clone(), leader_epoch }).await
}

/// The state without its batches, `None` if there is none.
pub async fn summary(node: &Arc<Node>, key: &SharePartitionKey) -> Result<Option<KeptState>, StateFailure> {
    match ask_for_state(node, ShareRequest::Summary { key: key.clone() }).await {
        Ok(state) => Ok(Some(state)),
        Err(StateFailure::Refused(ShareStateError::NotInitialized)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Everything that a group has a state of, in order.
///
/// # Errors
/// That of the first coordinator that could not be reached.
pub async fn partitions_of(
    node: &Arc<Node>,
    group: &Arc<str>,
) -> Result<Vec<SharePartitionKey>, StateFailure> {
    let mut all = Vec::new();
    for answer in ask_all(node, ShareRequest::List { group: Arc::clone(group) }).await? {
        if let ShareAnswer::Partitions(partitions) = answer {
            all.extend(partitions);
        }
    }
    all.sort();
    Ok(all)
}

/// What any node has in use of the share-partition counts no more.
async fn forget(node: &Arc<Node>, key: &SharePartitionKey) {
    node.share.forget(key);
    forget_share_partition_elsewhere(node, key).await;
}

/// Begins anew at `start`.
pub async fn reset(node: &Arc<Node>, key: &SharePartitionKey, start: Offset) -> Result<(), StateFailure> {
    forget(node, key).await;
    ask(node, ShareRequest::Reset { key: key.clone(), start }).await.map(drop)
}

/// Forgets the state, if there is any.
pub async fn delete(node: &Arc<Node>, key: &SharePartitionKey) -> Result<(), StateFailure> {
    forget(node, key).await;
    ask(node, ShareRequest::Delete { key: key.clone() }).await.map(drop)
}

/// Forgets everything about a group that was deleted.
///
/// # Errors
/// That of the first coordinator that could not be reached; the others have forgotten.
pub(crate) async fn delete_group(node: &Arc<Node>, group: &str) -> Result<(), StateFailure> {
    node.share.forget_group(group);
    ask_all(node, ShareRequest::GroupDeleted { group: group.into() }).await.map(drop)
}
