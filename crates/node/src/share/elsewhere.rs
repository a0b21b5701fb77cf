//! Questions to the share coordinators of other nodes.

use tailrace_coordination::share::{ShareAnswer, SharePartitionKey, ShareRequest};
use tailrace_types::NodeId;

use super::failure::StateFailure;
use crate::ask::{ShareAnswers, ShareQuestion, ask};
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;

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
