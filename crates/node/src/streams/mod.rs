//! Streams of JetStream: topics with one partition, seen as messages with subjects.
//!
//! - [`state`], [`messages`], [`publish`]: what fronts ask, on any node.
//! - [`Translator`]: what a front does for it.

mod face;
mod failure;
mod text;
mod translator;
mod types;

pub use face::{messages, publish, state};
pub use failure::StreamFailure;
pub use translator::{MessageParts, RecordOf, Translator};
pub use types::{
    DELETED_MAX, From, MESSAGES_BYTES_MAX, MESSAGES_MAX, Messages, Publication, Published, ReadBounds,
    Select, StateTerms, StoredMessage, StreamState, SubjectsPage, UpTo,
};
