//! Receives a question from another node and has it answered.

use std::sync::Arc;
use tailrace_env::task;

use bytes::Bytes;
use tailrace_peers::RequestError;

use super::answers::Answers;
use super::{AnyQuestion, decode, encode};
use crate::caller::Caller;
use crate::node::Node;

/// Maximum size of a question.
const QUESTION_BYTES_MAX: usize = 16 << 20;

/// Refuses every caller that is not a node of the cluster. This is the only place that checks it.
///
/// # Errors
/// [`RequestError::NotServed`]
pub(crate) fn only_nodes(caller: &Caller) -> Result<(), RequestError> {
    if caller.node().is_some() {
        return Ok(());
    }
    tracing::warn!(%caller, "a question that only nodes may ask is refused");
    Err(RequestError::NotServed)
}

/// Answers a question. `caller` is a node of the cluster, see [`only_nodes`].
pub(crate) async fn serve(node: &Arc<Node>, caller: &Caller, body: &[u8]) -> Result<Bytes, RequestError> {
    if body.len() > QUESTION_BYTES_MAX {
        let reason = format!("a question of {} bytes, expected at most {QUESTION_BYTES_MAX}", body.len());
        return Err(RequestError::Failed(reason));
    }
    match decode(body).map_err(RequestError::Failed)? {
        AnyQuestion::AppendMarkers(question) => answer(node, caller, question).await,
        AnyQuestion::ChangeKnown(question) => answer(node, caller, question).await,
        AnyQuestion::DescribeQuorum(question) => answer(node, caller, question).await,
        AnyQuestion::EnterTransaction(question) => answer(node, caller, question).await,
        AnyQuestion::EpochOf(question) => answer(node, caller, question).await,
        AnyQuestion::Execute(question) => answer(node, caller, *question).await,
        AnyQuestion::ExecuteFor(question) => answer(node, caller, *question).await,
        AnyQuestion::HandOver(question) => answer(node, caller, question).await,
        AnyQuestion::HighWatermarkOf(question) => answer(node, caller, question).await,
        AnyQuestion::Share(question) => answer(node, caller, question).await,
        AnyQuestion::Stream(question) => answer(node, caller, *question).await,
        AnyQuestion::StreamConsumers(question) => answer(node, caller, *question).await,
    }
}

async fn answer<Q: Answers + Send + 'static>(
    node: &Arc<Node>,
    caller: &Caller,
    question: Q,
) -> Result<Bytes, RequestError> {
    let (node, caller) = (Arc::clone(node), caller.clone());
    let answered = task::spawn(async move { question.answer(&node, &caller).await }).await;
    answered.map(|answer| encode(&answer)).map_err(|error| RequestError::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tailrace_types::NodeId;

    use super::*;
    use crate::caller::Door;

    #[test]
    fn clients_users_and_strangers_on_the_links_are_no_nodes() {
        let client = Caller::client(Door::Peers, SocketAddr::from((Ipv4Addr::LOCALHOST, 5000)));
        for caller in
            [&client, &client.clone().as_user("2".into()), &Caller::on_link(None), Caller::internal()]
        {
            assert_eq!(only_nodes(caller), Err(RequestError::NotServed), "{caller}");
        }
        assert_eq!(only_nodes(&Caller::on_link(Some(NodeId(2)))), Ok(()));
    }
}
