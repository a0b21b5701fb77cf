//! One log, two protocols: a NATS message as a record, and a record as a NATS message. docs/mapping.md
//! explains the rules.
//!
//! The functions are pure and work on borrowed bytes. Scratch buffers keep their memory from message to
//! message. Nothing is appended, published or looked up here.
//!
//! What one side cannot represent is marked. It is never dropped silently, and never written raw:
//!
//! | in a NATS header block | means |
//! |---|---|
//! | `Kafka-Key: TEXT` | the record's key, if the subject does not show it |
//! | `Kafka-Key-Base64: BASE64` | the same, for a key that a header cannot carry |
//! | `Kafka-Header-Base64: NAME=VALUE` | a record header that cannot be carried; both parts in base64 |
//! | `Kafka-Header-Base64: NAME` | such a header with a null value |
//! | `Kafka-Value: null` | the record's value is null, not empty |
//!
//! Base64 uses the URL alphabet without padding (RFC 4648, section 5). All of these headers are understood in
//! both directions, so that a message made from a record becomes the same record again.

mod message;
mod record;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tailrace_subjects::{Pattern, PatternWord};

pub(crate) use message::{MessageLimits, MessageScratch, TopicSubjects, Undeliverable};
pub(crate) use record::{RecordParts, RecordScratch, with_own_key};

/// NATS header with the record's key.
const KEY: &[u8] = b"Kafka-Key";
/// NATS header with a key that cannot be written as text.
const KEY_BASE64: &[u8] = b"Kafka-Key-Base64";
/// NATS header with a record header that cannot be written as text.
const HEADER_BASE64: &[u8] = b"Kafka-Header-Base64";
/// NATS header of a record without a value.
const VALUE: &[u8] = b"Kafka-Value";
/// The value of that header.
const NULL: &[u8] = b"null";
/// Record header with the subject, if the key is not the subject.
const SUBJECT: &[u8] = b"Nats-Subject";
/// Record header with a whole header block that could not be parsed.
const BLOCK: &[u8] = b"Nats-Header-Block";

/// NATS header that tells a service who asks. Only the server sets it, and readers do not look at the case.
const REQUEST_INFO: &[u8] = b"Nats-Request-Info";

/// NATS headers with properties of the record. A record header of such a name is marked, so that it is not
/// mistaken for one of these. So is [`REQUEST_INFO`].
const RESERVED: [&[u8]; 4] = [KEY, KEY_BASE64, HEADER_BASE64, VALUE];

/// Appends bytes in base64.
fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    // 4 bytes for every 3. This cannot overflow for anything that fits into a message.
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut out[start..]).expect("there is room");
    out.truncate(start + written);
}

/// Decodes base64 and appends the result. If the text is not base64, appends nothing and returns `None`.
fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<std::ops::Range<usize>> {
    let start = out.len();
    if URL_SAFE_NO_PAD.decode_vec(text, out).is_err() {
        out.truncate(start);
        return None;
    }
    Some(start..out.len())
}

/// Reports whether `pattern` matches the literal `subject`, by NATS's rules.
fn matches(pattern: &Pattern, subject: &[u8]) -> bool {
    let mut words = subject.split(|byte| *byte == b'.');
    for word in pattern.words() {
        match (word, words.next()) {
            (_, None) => return false,
            (PatternWord::Many, Some(_)) => return true,
            (PatternWord::One, Some(_)) => {}
            (PatternWord::Literal(expected), Some(found)) if expected == found => {}
            (PatternWord::Literal(_), Some(_)) => return false,
        }
    }
    words.next().is_none()
}

#[cfg(test)]
mod tests;
