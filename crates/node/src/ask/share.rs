//! The state of share groups across nodes: questions to the node that leads a partition of `__share_group_state`.
//!
//! Kafka has requests between brokers for this (83 to 87). What nodes ask here is more: everything that a group has a state of,
//! and that it was deleted.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tailrace_coordination::share::{ShareAnswer, SharePartitionKey, ShareRequest, ShareStateError};
use tailrace_types::NodeId;

use super::{AnyQuestion, Question, STEP_TIMEOUT, ask};
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;
use crate::share::state::{StateFailure, ask_all_here, ask_here};

/// About the state of share groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareQuestion {
    /// To the coordinator of one share-partition.
    One(ShareRequest),
    /// To all coordinators of the node.
    All(ShareRequest),
    /// The state of a share-partition is about to be set anew or deleted. The text is its key.
    Forget(String),
}

/// What the coordinators say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareAnswers {
    /// From each coordinator that was asked.
    Done(Vec<ShareAnswer>),
    Refused(ShareStateError),
    /// This node coordinates it no more, or not yet.
    Elsewhere,
    Failed(String),
}

/// Asks the node that coordinates.
pub(crate) async fn ask_share_coordinator(
    here: &Node,
    node: NodeId,
    request: ShareRequest,
) -> Result<ShareAnswer, StateFailure> {
    let mut answers = put(here, node, ShareQuestion::One(request)).await?;
    answers.pop().ok_or_else(|| unavailable("a node's answer is empty"))
}

/// Asks all coordinators that other nodes have.
pub(crate) async fn ask_share_coordinators_elsewhere(
    here: &Node,
    request: &ShareRequest,
) -> Result<Vec<ShareAnswer>, StateFailure> {
    let mut answers = Vec::new();
    for node in others(here) {
        answers.extend(put(here, node, ShareQuestion::All(request.clone())).await?);
    }
    Ok(answers)
}

/// Tells the other nodes that what they have in use of a share-partition counts no more. One that does not hear it finds out when
/// it next keeps something: the state's epoch is another one then.
pub(crate) async fn forget_share_partition_elsewhere(here: &Node, key: &SharePartitionKey) {
    for node in others(here) {
        if let Err(error) = put(here, node, ShareQuestion::Forget(key.coordinator_key())).await {
            tracing::debug!(%node, %error, share_partition = %key, "a node does not forget a share-partition");
        }
    }
}

/// The other nodes that are there.
fn others(here: &Node) -> Vec<NodeId> {
    if here.links.peers().is_none() {
        return Vec::new();
    }
    let image = here.image();
    let live = image.nodes().filter(|node| !node.fenced).map(|node| node.registration.node);
    live.filter(|node| *node != here.id()).collect()
}

async fn put(here: &Node, node: NodeId, question: ShareQuestion) -> Result<Vec<ShareAnswer>, StateFailure> {
    // It may have died just now, and another one coordinates soon.
    let answer = ask(&here.links, node, question).await.map_err(|error| {
        tracing::debug!(%node, %error, "a share coordinator could not be asked");
        CoordinatorFailure::Elsewhere
    })?;
    match answer {
        ShareAnswers::Done(answers) => Ok(answers),
        ShareAnswers::Refused(error) => Err(error.into()),
        ShareAnswers::Elsewhere => Err(CoordinatorFailure::Elsewhere.into()),
        ShareAnswers::Failed(reason) => Err(unavailable(&reason)),
    }
}

fn unavailable(reason: &str) -> StateFailure {
    CoordinatorFailure::Unavailable(reason.to_owned()).into()
}

impl Question for ShareQuestion {
    type Answer = ShareAnswers;

    const TIMEOUT: Duration = STEP_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::Share(self)
    }

    async fn answer(self, node: &Arc<Node>) -> ShareAnswers {
        let answers = match self {
            Self::One(request) => ask_here(node, request).await.map(|answer| vec![answer]),
            Self::All(request) => {
                if let ShareRequest::GroupDeleted { group } = &request {
                    node.share.forget_group(group);
                }
                ask_all_here(node, &request).await
            }
            Self::Forget(text) => {
                if let Some(key) = SharePartitionKey::parse(&text) {
                    node.share.forget(&key);
                }
                Ok(Vec::new())
            }
        };
        match answers {
            Ok(answers) => ShareAnswers::Done(answers),
            Err(StateFailure::Refused(error)) => ShareAnswers::Refused(error),
            Err(StateFailure::Coordinator(CoordinatorFailure::Elsewhere | CoordinatorFailure::Reloaded)) => {
                ShareAnswers::Elsewhere
            }
            Err(failure) => ShareAnswers::Failed(failure.to_string()),
        }
    }
}
