//! The durable consumers of streams across nodes: questions to the node that leads a partition of
//! `__jetstream_state`.

use serde::{Deserialize, Serialize};
use tailrace_coordination::stream_consumers::{ConsumersAnswer, ConsumersError, ConsumersRequest};

/// A question for the coordinator of a stream's durable consumers. From level 2 of the protocol on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsumersQuestion(pub(crate) ConsumersRequest);

/// The coordinator's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsumersAnswers {
    /// It has done what was asked.
    Done(ConsumersAnswer),
    /// It refuses.
    Refused(ConsumersError),
    /// This node does not coordinate the stream's consumers, or no longer does.
    Elsewhere,
    /// It could not answer.
    Failed(String),
}
