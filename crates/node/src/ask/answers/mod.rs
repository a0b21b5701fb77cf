//! What the asked node does, one file per question.

mod change_known;
mod command;
mod epoch;
mod leadership;
mod markers;
mod marks;
mod quorum;
mod share;
mod stream;
mod stream_consumers;
mod transactions;

use std::sync::Arc;

pub use self::change_known::known_to_all;
pub use self::transactions::enter_transaction;
use super::Question;
use crate::caller::Caller;
use crate::node::Node;

/// How a node answers a question.
pub(super) trait Answers: Question {
    /// Answers the question. Runs to completion even if the asker goes away.
    fn answer(self, node: &Arc<Node>, caller: &Caller) -> impl Future<Output = Self::Answer> + Send;
}
