//! Takes a question of another node, and has it answered.

use std::sync::Arc;
use tailrace_env::task;

use bytes::Bytes;
use tailrace_peers::RequestError;
use tailrace_types::NodeId;

use super::answers::Answers;
use super::{AnyQuestion, decode, encode};
use crate::node::Node;

/// Bytes of a question.
const QUESTION_BYTES_MAX: usize = 16 << 20;

/// Answers the node `from`.
pub(crate) async fn serve(
    node: &Arc<Node>,
    from: Option<NodeId>,
    body: &[u8],
) -> Result<Bytes, RequestError> {
    from.ok_or(RequestError::NotServed)?;
    if body.len() > QUESTION_BYTES_MAX {
        let reason = format!("a question of {} bytes, expected at most {QUESTION_BYTES_MAX}", body.len());
        return Err(RequestError::Failed(reason));
    }
    match decode(body).map_err(RequestError::Failed)? {
        AnyQuestion::AppendMarkers(question) => answer(node, question).await,
        AnyQuestion::ChangeKnown(question) => answer(node, question).await,
        AnyQuestion::DescribeQuorum(question) => answer(node, question).await,
        AnyQuestion::EnterTransaction(question) => answer(node, question).await,
        AnyQuestion::Execute(question) => answer(node, *question).await,
        AnyQuestion::HandOver(question) => answer(node, question).await,
        AnyQuestion::HighWatermarkOf(question) => answer(node, question).await,
        AnyQuestion::Share(question) => answer(node, question).await,
    }
}

async fn answer<Q: Answers + Send + 'static>(node: &Arc<Node>, question: Q) -> Result<Bytes, RequestError> {
    let node = Arc::clone(node);
    let answered = task::spawn(async move { question.answer(&node).await }).await;
    answered.map(|answer| encode(&answer)).map_err(|error| RequestError::Failed(error.to_string()))
}
