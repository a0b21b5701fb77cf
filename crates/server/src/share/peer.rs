//! The state of share groups across nodes: questions to the node that leads a partition of `__share_group_state`.
//!
//! Kafka has requests between brokers for this (83 to 87). What nodes ask here is more: everything that a group has a state of,
//! and that it was deleted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tailrace_coordination::share::{ShareAnswer, SharePartitionKey, ShareRequest, ShareStateError};
use tailrace_types::NodeId;

use super::state::{StateFailure, ask_all_here, ask_here};
use crate::broker::Broker;
use crate::coordinators::CoordinatorFailure;
use crate::peers::RequestKind;

/// How long another node may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a node asks another one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Question {
    /// To the coordinator of one share-partition.
    One(ShareRequest),
    /// To all coordinators of the node.
    All(ShareRequest),
    /// The state of a share-partition is about to be set anew or deleted. The text is its key.
    Forget(String),
}

/// What it is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    /// From each coordinator that was asked.
    Done(Vec<ShareAnswer>),
    Refused(ShareStateError),
    /// This node coordinates it no more, or not yet.
    Elsewhere,
    Failed(String),
}

/// Asks the node that coordinates.
pub(super) async fn ask(
    broker: &Arc<Broker>,
    node: NodeId,
    request: ShareRequest,
) -> Result<ShareAnswer, StateFailure> {
    let mut answers = put(broker, node, &Question::One(request)).await?;
    answers.pop().ok_or_else(|| unavailable("a node's answer is empty"))
}

/// Asks all coordinators that other nodes have.
pub(super) async fn ask_all_elsewhere(
    broker: &Arc<Broker>,
    request: &ShareRequest,
) -> Result<Vec<ShareAnswer>, StateFailure> {
    let mut answers = Vec::new();
    for node in others(broker) {
        answers.extend(put(broker, node, &Question::All(request.clone())).await?);
    }
    Ok(answers)
}

/// Tells the other nodes that what they have in use of a share-partition counts no more. One that does not hear it finds out when
/// it next keeps something: the state's epoch is another one then.
pub(super) async fn forget_elsewhere(broker: &Arc<Broker>, key: &SharePartitionKey) {
    for node in others(broker) {
        if let Err(error) = put(broker, node, &Question::Forget(key.coordinator_key())).await {
            tracing::debug!(%node, %error, share_partition = %key, "a node does not forget a share-partition");
        }
    }
}

/// The other nodes that are there.
fn others(broker: &Broker) -> Vec<NodeId> {
    if broker.links.peers().is_none() {
        return Vec::new();
    }
    let image = broker.image();
    let live = image.nodes().filter(|node| !node.fenced).map(|node| node.registration.node);
    live.filter(|node| *node != broker.node()).collect()
}

async fn put(
    broker: &Arc<Broker>,
    node: NodeId,
    question: &Question,
) -> Result<Vec<ShareAnswer>, StateFailure> {
    let peers = broker.links.peers().ok_or(CoordinatorFailure::Elsewhere)?;
    // Numbers, texts and lists always serialize.
    let body = serde_json::to_vec(question).expect("questions serialize");
    let answer = peers.request(node, RequestKind::Share, body.into(), PATIENCE).await;
    // It may have died just now, and another one coordinates soon.
    let answer = answer.map_err(|error| {
        tracing::debug!(%node, %error, "a share coordinator could not be asked");
        CoordinatorFailure::Elsewhere
    })?;
    match serde_json::from_slice(&answer) {
        Ok(Answer::Done(answers)) => Ok(answers),
        Ok(Answer::Refused(error)) => Err(error.into()),
        Ok(Answer::Elsewhere) => Err(CoordinatorFailure::Elsewhere.into()),
        Ok(Answer::Failed(reason)) => Err(unavailable(&reason)),
        Err(error) => Err(unavailable(&error.to_string())),
    }
}

fn unavailable(reason: &str) -> StateFailure {
    CoordinatorFailure::Unavailable(reason.to_owned()).into()
}

/// Answers another node.
pub(crate) async fn serve(broker: &Arc<Broker>, body: &[u8]) -> Bytes {
    let answer = match serde_json::from_slice(body) {
        Ok(question) => {
            // Spawned: what was begun is carried out whole.
            let (broker, work) = (Arc::clone(broker), question);
            let answered = tokio::spawn(async move { answer(&broker, work).await }).await;
            answered.unwrap_or_else(|error| Answer::Failed(error.to_string()))
        }
        Err(error) => Answer::Failed(error.to_string()),
    };
    serde_json::to_vec(&answer).expect("answers serialize").into()
}

async fn answer(broker: &Arc<Broker>, question: Question) -> Answer {
    let answers = match question {
        Question::One(request) => ask_here(broker, request).await.map(|answer| vec![answer]),
        Question::All(request) => {
            if let ShareRequest::GroupDeleted { group } = &request {
                broker.share.forget_group(group);
            }
            ask_all_here(broker, &request).await
        }
        Question::Forget(text) => {
            if let Some(key) = SharePartitionKey::parse(&text) {
                broker.share.forget(&key);
            }
            Ok(Vec::new())
        }
    };
    match answers {
        Ok(answers) => Answer::Done(answers),
        Err(StateFailure::Refused(error)) => Answer::Refused(error),
        Err(StateFailure::Coordinator(CoordinatorFailure::Elsewhere | CoordinatorFailure::Reloaded)) => {
            Answer::Elsewhere
        }
        Err(failure) => Answer::Failed(failure.to_string()),
    }
}
