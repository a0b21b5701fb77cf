//! Asks the coordinators of streams' durable consumers of this node on behalf of another node.

use std::sync::Arc;

use super::Answers;
use crate::ask::{ConsumersAnswers, ConsumersQuestion};
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;
use crate::streams::{KeepFailure, ask_coordinator_here};

impl Answers for ConsumersQuestion {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> ConsumersAnswers {
        match ask_coordinator_here(node, caller, self.0).await {
            Ok(answer) => ConsumersAnswers::Done(answer),
            Err(KeepFailure::Refused(error)) => ConsumersAnswers::Refused(error),
            Err(KeepFailure::Coordinator(CoordinatorFailure::Elsewhere | CoordinatorFailure::Reloaded)) => {
                ConsumersAnswers::Elsewhere
            }
            Err(failure) => ConsumersAnswers::Failed(failure.to_string()),
        }
    }
}
