//! Says to the node how a record of a stream is a message.

use tailrace_node::partitions::Topic;
use tailrace_node::streams::{MessageParts, Translator};
use tailrace_records::Record;
use tailrace_subjects::Limits;

use crate::front::NatsFront;
use crate::mapping::{MessageLimits, MessageScratch};

impl Translator for NatsFront {
    /// No setting of this node matters: a stream has the same messages on every node.
    fn message(&self, topic: &Topic, record: &Record<'_>, parts: &mut MessageParts) -> bool {
        let Some(subjects) = self.live().subjects.stored(topic.id) else { return false };
        let limits = MessageLimits { payload_bytes_max: usize::MAX, subject: &Limits::widest() };
        let MessageParts { subject, headers } = std::mem::take(parts);
        let mut scratch = MessageScratch::with(subject, headers);
        let is_message = subjects.message(record, &limits, &mut scratch).is_ok();
        (parts.subject, parts.headers) = scratch.into_parts();
        is_message
    }
}
