//! Streams of JetStream: topics with one partition, seen as messages with subjects.
//!
//! - [`state`], [`messages`], [`purge`]: what fronts ask, on any node. [`Translator`]: what a front does for
//!   it.
//! - `live` is one stream that this node leads: a table of its messages and subjects (`Contents`) beside the
//!   partition. `follow` reads what is committed and applies it; `rules` are the settings that matter for it.
//! - `consumers` has the consumers of a stream; [`Consumers`] asks about them on any node. A [`Deliverer`]
//!   sends what push consumers deliver.
//! - `serve` answers at the leader: it waits until the table has what was committed, selects (`select`), and
//!   reads the messages from the log (`reading`).
//!
//! - `publish` judges, in the order of the log, messages that ask for more than storage. `ids` are those of
//!   the messages within a stream's window.
//!
//! A table is begun at the first question for it, at the start of the log. It is dropped when this node no
//! longer leads the stream. Only limits that follow from the records and the settings are applied so far.
//!
//! Bounds: the messages and subjects of a stream, the memory of all tables (`charge`), the questions that are
//! answered at once, and what one answer has.

mod ask_consumers;
mod charge;
mod consumers;
mod deliverer;
mod face;
mod failure;
mod follow;
mod ids;
mod live;
mod publish;
mod reading;
mod removals;
mod rules;
mod select;
mod serve;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod translator;
mod types;

pub use ask_consumers::Consumers;
pub use consumers::{
    AckAsk, Acked, ConsumerFacts, CreateConsumer, FlowAsk, Pulled, PulledItem, PulledMessage, Reached,
};
pub(crate) use consumers::{
    ConsumerAnswer, ConsumerAsk, KeepFailure, ask_coordinator_here, resume_consumers, save_consumers,
};
pub use deliverer::Deliverer;
pub(crate) use face::answer_here;
pub use face::{messages, purge, state};
pub use failure::StreamFailure;
pub use publish::Published;
pub(crate) use publish::{NotPublished, PublishRequest, PublishedHere, Sender, publish_here};
pub(crate) use serve::NotServed;
pub(crate) use state::Streams;
pub use translator::{MessageParts, Translator};
pub use types::{
    From, Messages, PurgeTerms, ReadBounds, Select, StateTerms, StoredMessage, StreamState, SubjectsPage,
    UpTo,
};
