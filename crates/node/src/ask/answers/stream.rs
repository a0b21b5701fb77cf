//! Answers about the streams that this node leads.

use std::sync::Arc;
use tailrace_env::time::Instant;

use super::Answers;
use crate::ask::{StreamAnswer, StreamQuestion};
use crate::caller::Caller;
use crate::deadlines::STREAM_TIMEOUT;
use crate::node::Node;
use crate::streams::{NotServed, answer_here};

impl Answers for StreamQuestion {
    async fn answer(self, node: &Arc<Node>, _: &Caller) -> StreamAnswer {
        let deadline = Instant::now() + STREAM_TIMEOUT;
        match answer_here(node, self.topic, self.what, deadline).await {
            Ok(answer) => answer,
            Err(NotServed::Elsewhere(reason)) => StreamAnswer::Elsewhere(reason),
            Err(NotServed::Failed(failure)) => StreamAnswer::Failed(failure),
        }
    }
}
