//! What the checks of a publish need to know of the stream.

use crate::error::ApiError;
use crate::stream::StreamConfig;

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredParts {
    /// Its header block.
    pub headers: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A stream as the next message finds it: with what was taken before, whether that is on disk or not.
pub trait StreamView {
    /// Its configuration.
    fn config(&self) -> &StreamConfig;

    /// The last sequence that was given.
    fn last_sequence(&self) -> u64;

    /// The sequence of the last message that a subject or a pattern matches.
    fn last_sequence_of(&self, pattern: &str) -> Option<u64>;

    /// The last message of a subject.
    fn last_message(&self, subject: &str) -> Option<StoredParts>;

    /// The sequence of the message with this id, if it came within the window.
    fn duplicate_of(&self, id: &[u8]) -> Option<u64>;

    /// The id of the last message; empty if it has none.
    fn last_id(&self) -> &[u8];

    /// How many messages there are.
    fn messages(&self) -> u64;

    /// Their bytes, as nats-server counts them.
    fn bytes(&self) -> u64;

    /// How many messages a subject has.
    fn messages_of(&self, subject: &str) -> u64;

    /// The bytes of the oldest message of a subject.
    fn oldest_bytes_of(&self, subject: &str) -> u64;

    /// Whether a consumer wants messages of a subject.
    fn has_interest(&self, subject: &str) -> bool;

    /// Whether server and account have room for so many bytes more.
    ///
    /// # Errors
    /// 10023 or 10002.
    fn has_room(&self, bytes: u64) -> Result<(), ApiError>;

    /// Whether there is a time zone of this name.
    fn has_time_zone(&self, name: &str) -> bool;

    /// The most bytes of any message.
    fn max_payload(&self) -> usize;

    /// Nanoseconds since 1970.
    fn now_nanos(&self) -> i64;
}
