//! What nodes ask the leader of a stream about its consumers, and what it answers. All of it goes between
//! nodes as JSON.

use serde::{Deserialize, Serialize};

use super::super::types::StoredMessage;

/// A question about the consumers of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConsumerAsk {
    /// Create or change one.
    Create(CreateConsumer),
    /// Tell of this one.
    Info(String),
    /// Delete this one.
    Delete(String),
    /// Pause or resume this one.
    Pause {
        /// The consumer.
        consumer: String,
        /// The client's request.
        body: String,
    },
    /// Their names from here on.
    Names {
        /// How many come before.
        offset: i64,
    },
    /// What there is to tell of them, from here on.
    List {
        /// How many come before.
        offset: i64,
    },
    /// A client wants messages of this one.
    Pull {
        /// The consumer.
        consumer: String,
        /// The client's request.
        body: String,
    },
    /// What has come for a pull since?
    More(u64),
    /// The client of a pull is gone. These messages have not reached it.
    Gone {
        /// The consumer.
        consumer: String,
        /// The pull.
        pull: u64,
        /// Sequences of messages.
        undelivered: Vec<u64>,
    },
    /// Acknowledgements.
    Acks(Vec<AckAsk>),
    /// The client of a push consumer has handled what came before a request of flow control.
    Flow(FlowAsk),
}

/// An answer to a request of flow control.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowAsk {
    /// The consumer.
    pub consumer: String,
    /// The subject of the answer.
    pub subject: String,
    /// The message of the stream that the client has handled last, and the number of its delivery, if it says
    /// so.
    pub handled: Option<(u64, u64)>,
}

/// A request to create a consumer, as the client has sent it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateConsumer {
    /// The subject of the request.
    pub subject: String,
    /// Its body.
    pub body: String,
    /// The stream's configuration, as it is kept.
    pub stream: String,
    /// Whether there is one server only.
    pub is_single: bool,
}

/// An acknowledgement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AckAsk {
    /// The consumer.
    pub consumer: String,
    /// The message.
    pub stream_seq: u64,
    /// The number of the delivery.
    pub consumer_seq: u64,
    /// How often the message had been delivered.
    pub deliveries: u64,
    /// What it says.
    pub payload: String,
    /// Whether the client wants an answer.
    pub wants_answer: bool,
}

/// What becomes of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acked {
    /// Nothing is to be said.
    Silent,
    /// The client gets its answer.
    Answered,
    /// There is no such consumer, or it takes none.
    Nobody,
}

/// The leader's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsumerAnswer {
    Facts(Box<ConsumerFacts>),
    Deleted,
    Names { total: usize, names: Vec<String> },
    List { total: usize, list: Vec<ConsumerFacts> },
    Pulled(Pulled),
    Gone,
    Acked(Vec<Acked>),
    Flowed,
}

/// What there is to tell of a consumer. Times are in nanoseconds since 1970; 0 is never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerFacts {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_ns: i64,
    /// Its configuration, as it is kept.
    pub config: String,
    /// The last delivery.
    pub delivered: Reached,
    /// Everything up to here is done.
    pub ack_floor: Reached,
    /// Messages that were delivered and are not done.
    pub num_ack_pending: u64,
    /// Those of them that were delivered more than once.
    pub num_redelivered: u64,
    /// Pull requests that wait.
    pub num_waiting: u64,
    /// Whether somebody listens to a push consumer.
    pub push_bound: bool,
    /// Matching messages that were not delivered yet.
    pub num_pending: u64,
    /// Until when it is paused.
    pub paused_until_ns: i64,
    /// The group that is pinned, to whom, and since when.
    pub pin: Option<(String, String, i64)>,
}

/// A place in both sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// In the stream.
    pub stream: u64,
    /// In the consumer's deliveries.
    pub consumer: u64,
    /// When.
    pub at_ns: i64,
}

/// What has come for a pull.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    /// The pull.
    pub pull: u64,
    /// In the order in which the client gets them.
    pub items: Vec<PulledItem>,
    /// Nothing more comes.
    pub is_over: bool,
}

/// One thing for a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PulledItem {
    /// A message.
    Message(Box<PulledMessage>),
    /// A status.
    Status {
        /// Its header block.
        block: String,
        /// Where it is answered, if it asks for that.
        reply: Option<String>,
    },
}

impl PulledItem {
    /// The sequence of a message.
    pub(super) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Message(message) => Some(message.message.sequence),
            Self::Status { .. } => None,
        }
    }
}

/// A message, and how it is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledMessage {
    /// The message. Without its payload if that is left out.
    pub message: StoredMessage,
    /// Where it is acknowledged.
    pub reply: String,
    /// The length of a payload that is left out.
    pub left_out: Option<u64>,
    /// The pin of its priority group.
    pub pin: Option<String>,
}
