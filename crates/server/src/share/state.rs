//! Calls to the share coordinator, which keeps the state of share-partitions in `__share_group_state`.

use std::sync::Arc;

use tailrace_broker::SHARE_GROUP_STATE_TOPIC;
use tailrace_broker::share::{
    KeptState, ShareAnswer, ShareCoordinator, ShareEvent, SharePartitionKey, ShareRequest, ShareStateError,
};
use tailrace_kafka_wire::ErrorCode;
use tailrace_types::{Offset, TopicId};

use crate::broker::Broker;
use crate::coordinators::{CoordinatorFailure, Kind};
use crate::kafka::share_state_code;

/// Share coordinators.
pub(crate) static SHARES: Kind<ShareCoordinator> = Kind {
    name: "share",
    topic: SHARE_GROUP_STATE_TOPIC,
    partitions: |config| config.share_coordinator_state_topic_num_partitions,
    settings: |config| {
        let segment_bytes = config.share_coordinator_state_topic_segment_bytes.to_string();
        vec![("cleanup.policy", "compact".to_owned()), ("segment.bytes", segment_bytes)]
    },
    new: ShareCoordinator::new,
    perform: |_, _, work| match work {},
};

/// Why the share coordinator did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateFailure {
    #[error(transparent)]
    Coordinator(#[from] CoordinatorFailure),
    #[error(transparent)]
    Refused(#[from] ShareStateError),
}

impl StateFailure {
    /// What administrators are told; members of groups see `share_state_code`.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Coordinator(failure) => failure.code(),
            Self::Refused(_) => share_state_code(self),
        }
    }
}

/// Asks the coordinator of `key`, and waits until what it did is committed.
pub(crate) async fn ask(
    broker: &Arc<Broker>,
    key: &SharePartitionKey,
    request: ShareRequest,
) -> Result<ShareAnswer, StateFailure> {
    let name = key.coordinator_key();
    let event = move |token| ShareEvent { token, request };
    let pending = broker.coordinators.shares.submit(broker, &name, event).await?;
    Ok(pending.reply().await??)
}

async fn ask_for_state(
    broker: &Arc<Broker>,
    key: &SharePartitionKey,
    request: ShareRequest,
) -> Result<KeptState, StateFailure> {
    match ask(broker, key, request).await? {
        ShareAnswer::State(state) => Ok(state),
        ShareAnswer::Done | ShareAnswer::Partitions(_) => Err(ShareStateError::NotInitialized.into()),
    }
}

/// The state, made if there is none.
pub(crate) async fn initialize(
    broker: &Arc<Broker>,
    key: &SharePartitionKey,
) -> Result<KeptState, StateFailure> {
    let request = ShareRequest::Initialize { key: key.clone(), state_epoch: 0, start: None };
    ask_for_state(broker, key, request).await
}

/// Makes states of a group's share-partitions, where there are none. Returns those that are there then.
pub(crate) async fn initialize_all(
    broker: &Arc<Broker>,
    group: &Arc<str>,
    topics: Vec<(TopicId, Vec<i32>)>,
) -> Vec<(TopicId, Vec<i32>)> {
    let mut made = Vec::with_capacity(topics.len());
    for (topic, partitions) in topics {
        let mut there = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let key = SharePartitionKey { group: Arc::clone(group), topic, partition };
            match initialize(broker, &key).await {
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
    broker: &Arc<Broker>,
    key: &SharePartitionKey,
    leader_epoch: i32,
) -> Result<KeptState, StateFailure> {
    ask_for_state(broker, key, ShareRequest::Read { key: key.clone(), leader_epoch }).await
}

/// The state without its batches, `None` if there is none.
pub(crate) async fn summary(
    broker: &Arc<Broker>,
    key: &SharePartitionKey,
) -> Result<Option<KeptState>, StateFailure> {
    match ask_for_state(broker, key, ShareRequest::Summary { key: key.clone() }).await {
        Ok(state) => Ok(Some(state)),
        Err(StateFailure::Refused(ShareStateError::NotInitialized)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Everything that a group has a state of, in order.
///
/// # Errors
/// That of the first coordinator that could not be reached.
pub(crate) async fn partitions_of(
    broker: &Arc<Broker>,
    group: &Arc<str>,
) -> Result<Vec<SharePartitionKey>, StateFailure> {
    let group = Arc::clone(group);
    let event = move |token| {
        let request = ShareRequest::List { group: Arc::clone(&group) };
        ShareEvent { token, request }
    };
    let mut all = Vec::new();
    for reply in broker.coordinators.shares.submit_all(broker, event).await {
        if let ShareAnswer::Partitions(partitions) = reply?? {
            all.extend(partitions);
        }
    }
    all.sort();
    Ok(all)
}

/// Begins anew at `start`.
pub(crate) async fn reset(
    broker: &Arc<Broker>,
    key: &SharePartitionKey,
    start: Offset,
) -> Result<(), StateFailure> {
    broker.share.forget(key);
    ask(broker, key, ShareRequest::Reset { key: key.clone(), start }).await.map(drop)
}

/// Forgets the state, if there is any.
pub(crate) async fn delete(broker: &Arc<Broker>, key: &SharePartitionKey) -> Result<(), StateFailure> {
    broker.share.forget(key);
    ask(broker, key, ShareRequest::Delete { key: key.clone() }).await.map(drop)
}

/// Forgets everything about a group that was deleted.
///
/// # Errors
/// That of the first coordinator that could not be reached; the others have forgotten.
pub(crate) async fn delete_group(broker: &Arc<Broker>, group: &str) -> Result<(), StateFailure> {
    broker.share.forget_group(group);
    let group: Arc<str> = group.into();
    let event = move |token| {
        let request = ShareRequest::GroupDeleted { group: Arc::clone(&group) };
        ShareEvent { token, request }
    };
    for reply in broker.coordinators.shares.submit_all(broker, event).await {
        reply??;
    }
    Ok(())
}
