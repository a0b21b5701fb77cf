//! Questions about a stream, to the node that leads it.

use serde::{Deserialize, Serialize};

use crate::streams::{
    ConsumerAnswer, ConsumerAsk, Messages, PurgeTerms, ReadBounds, Select, StateTerms, StreamFailure,
    StreamState,
};

/// A question about a stream. From level 2 of the protocol on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StreamQuestion {
    pub(crate) topic: [u8; 16],
    pub(crate) what: StreamAsk,
}

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StreamAsk {
    /// What is in it.
    State(StateTerms),
    /// Some of its messages.
    Messages(Select, ReadBounds),
    /// About its consumers.
    Consumer(ConsumerAsk),
    /// Some of its messages are removed.
    Purge(PurgeTerms),
}

/// The answer of its leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamAnswer {
    State(StreamState),
    Messages(Messages),
    Consumer(Box<ConsumerAnswer>),
    /// So many messages are gone.
    Purged(u64),
    Failed(StreamFailure),
    /// This node does not lead the stream, or no longer does.
    Elsewhere(String),
}
