//! Asks the share coordinators of this node on behalf of another node.

use std::sync::Arc;

use tailrace_coordination::share::SharePartitionKey;

use super::Answers;
use crate::ask::{ShareAnswers, ShareQuestion};
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;
use crate::share::state::{StateFailure, ask_here};

impl Answers for ShareQuestion {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> ShareAnswers {
        let answer = match self {
            Self::One(request) => ask_here(node, caller, request).await.map(Some),
            Self::Forget(texts) => {
                let keys = texts.iter().filter_map(|text| SharePartitionKey::parse(text));
                keys.for_each(|key| node.share.forget(&key));
                Ok(None)
            }
        };
        match answer {
            Ok(answer) => ShareAnswers::Done(answer),
            Err(StateFailure::Refused(error)) => ShareAnswers::Refused(error),
            Err(StateFailure::Coordinator(CoordinatorFailure::Elsewhere | CoordinatorFailure::Reloaded)) => {
                ShareAnswers::Elsewhere
            }
            Err(failure) => ShareAnswers::Failed(failure.to_string()),
        }
    }
}
