//! Questions to the coordinator that keeps the durable consumers of a stream: in this process, or over the
//! link to the node that leads its partition of `__jetstream_state`.

use std::sync::Arc;

use tailrace_coordination::stream_consumers::{
    ConsumersAnswer, ConsumersError, ConsumersEvent, ConsumersRequest,
};

use crate::ask::{ConsumersAnswers, ConsumersQuestion, ask as ask_node};
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;

/// Why the coordinator did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeepFailure {
    /// It could not answer. It may have done it or not.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorFailure),
    /// It refuses.
    #[error(transparent)]
    Refused(#[from] ConsumersError),
}

/// Asks once. The caller asks again.
pub(super) async fn ask(here: &Arc<Node>, request: ConsumersRequest) -> Result<ConsumersAnswer, KeepFailure> {
    let (caller, name) = (Caller::internal(), request.topic().to_string());
    match here.coordinators.consumers.elsewhere(here, caller, &name).await? {
        Some(node) => {
            let answer = ask_node(&here.links, caller, node, ConsumersQuestion(request)).await;
            // The node may have just died, and another one will coordinate soon.
            match answer.map_err(|_| CoordinatorFailure::Elsewhere)? {
                ConsumersAnswers::Done(answer) => Ok(answer),
                ConsumersAnswers::Refused(error) => Err(error.into()),
                ConsumersAnswers::Elsewhere => Err(CoordinatorFailure::Elsewhere.into()),
                ConsumersAnswers::Failed(reason) => Err(CoordinatorFailure::Unavailable(reason).into()),
            }
        }
        None => ask_here(here, caller, request).await,
    }
}

/// Asks the coordinator on this node.
pub(crate) async fn ask_here(
    node: &Arc<Node>,
    caller: &Caller,
    request: ConsumersRequest,
) -> Result<ConsumersAnswer, KeepFailure> {
    let name = request.topic().to_string();
    let event = move |token| ConsumersEvent { token, request };
    let pending = node.coordinators.consumers.submit(node, caller, &name, event).await?;
    Ok(pending.reply().await??)
}
