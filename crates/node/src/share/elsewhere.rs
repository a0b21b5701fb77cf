//! Questions to the share coordinators of other nodes.

use std::sync::Arc;

use tailrace_coordination::share::{ShareAnswer, SharePartitionKey, ShareRequest};
use tailrace_env::task::JoinSet;
use tailrace_env::time;
use tailrace_types::NodeId;

use super::failure::StateFailure;
use crate::ask::{ShareAnswers, ShareQuestion, ask};
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::deadlines::FORGET_TIMEOUT;
use crate::node::Node;

/// Asks the node that coordinates the share-partition.
pub(crate) async fn ask_share_coordinator(
    here: &Node,
    caller: &Caller,
    node: NodeId,
    request: ShareRequest,
) -> Result<ShareAnswer, StateFailure> {
    let answer = put(here, caller, node, ShareQuestion::One(request)).await?;
    answer.ok_or_else(|| unavailable("a node's answer is empty"))
}

/// Tells the other nodes that their share-partitions in use are no longer valid. A node that misses this
/// finds out when it next keeps a change, or checks ([`LivePartition::check`](super::LivePartition)): by then
/// the state is a different one.
pub(crate) async fn forget_share_partitions_elsewhere(
    here: &Arc<Node>,
    caller: &Caller,
    keys: &[SharePartitionKey],
) {
    let texts: Vec<String> = keys.iter().map(SharePartitionKey::coordinator_key).collect();
    let mut telling = JoinSet::new();
    for node in others(here) {
        let (here, caller, texts) = (Arc::clone(here), caller.clone(), texts.clone());
        telling.spawn(async move {
            if let Err(error) = put(&here, &caller, node, ShareQuestion::Forget(texts)).await {
                tracing::debug!(%node, %error, "could not tell a node to forget share-partitions");
            }
        });
    }
    let told = async { while telling.join_next().await.is_some() {} };
    // A node that does not answer in time will find out by itself.
    let _ = time::timeout(FORGET_TIMEOUT, told).await;
}

/// Returns the other live nodes.
fn others(here: &Node) -> Vec<NodeId> {
    if here.links.peers().is_none() {
        return Vec::new();
    }
    let image = here.image();
    let live = image.nodes().filter(|node| !node.fenced).map(|node| node.registration.node);
    live.filter(|node| *node != here.id()).collect()
}

async fn put(
    here: &Node,
    caller: &Caller,
    node: NodeId,
    question: ShareQuestion,
) -> Result<Option<ShareAnswer>, StateFailure> {
    // The node may have just died, and another one will coordinate soon.
    let answer = ask(&here.links, caller, node, question).await.map_err(|error| {
        tracing::debug!(%node, %error, "could not ask a share coordinator");
        CoordinatorFailure::Elsewhere
    })?;
    match answer {
        ShareAnswers::Done(answer) => Ok(answer),
        ShareAnswers::Refused(error) => Err(error.into()),
        ShareAnswers::Elsewhere => Err(CoordinatorFailure::Elsewhere.into()),
        ShareAnswers::Failed(reason) => Err(unavailable(&reason)),
    }
}

fn unavailable(reason: &str) -> StateFailure {
    CoordinatorFailure::Unavailable(reason.to_owned()).into()
}
