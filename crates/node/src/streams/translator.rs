//! What a node asks the front that knows NATS: how a record is a message.

use tailrace_records::Record;

use crate::partitions::Topic;

/// A record as a message. The memory is used again for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageParts {
    /// Its subject.
    pub subject: Vec<u8>,
    /// Its header block as on the wire. Empty if it has none.
    pub headers: Vec<u8>,
}

/// Speaks NATS for the streams of a node. It is pure: for a stream that JetStream's API has made, the answer
/// is the same on every node, whatever the topic's patterns are by now. Tables are made again from old
/// records.
pub trait Translator: Send + Sync {
    /// Writes the message that a record of the topic is. The payload is the record's value, or empty. False
    /// if it is none: then its sequence is a hole.
    fn message(&self, topic: &Topic, record: &Record<'_>, parts: &mut MessageParts) -> bool;
}
