//! Asks the share coordinators of this node, for another one.

use std::sync::Arc;

use tailrace_coordination::share::{SharePartitionKey, ShareRequest};

use super::Answers;
use crate::ask::{ShareAnswers, ShareQuestion};
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;
use crate::share::state::{StateFailure, ask_all_here, ask_here};

impl Answers for ShareQuestion {
    async fn answer(self, node: &Arc<Node>, _: &Caller) -> ShareAnswers {
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
