//! What the node that is asked does, a file for each question.

mod change_known;
mod command;
mod epoch;
mod leadership;
mod markers;
mod marks;
mod quorum;
mod share;
mod transactions;

use std::sync::Arc;

pub use self::change_known::known_to_all;
pub use self::transactions::enter_transaction;
use super::Question;
use crate::caller::Caller;
use crate::node::Node;

/// How a question is answered.
pub(super) trait Answers: Question {
    /// What the node that is asked does. It is carried out whole, also if the asker is gone meanwhile.
    fn answer(self, node: &Arc<Node>, caller: &Caller) -> impl Future<Output = Self::Answer> + Send;
}
