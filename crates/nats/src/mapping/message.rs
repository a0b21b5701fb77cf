//! From a record to a NATS message.

use tailrace_config::CapturedSubjects;
use tailrace_nats_wire::{HEADER_LINE, Message, write_header};
use tailrace_records::Record;
use tailrace_subjects::{Dialect, Limits, PatternWord, Subject};

use super::{HEADER_BASE64, KEY, KEY_BASE64, NULL, RESERVED, SUBJECT, VALUE, encode, matches};

/// First word of the subjects that answers to requests come back on. No Kafka client may write there by naming a topic so.
const INBOX: &str = "_INBOX";

/// Memory that is kept for the next record: what all but unusual headers need.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Why a record cannot be delivered to NATS subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undeliverable {
    /// With its headers it is larger than `tailrace.nats.max.payload.bytes`.
    TooLarge,
    /// Its topic's name would put it among the answers to requests.
    Reserved,
}

/// Under which subjects the records of one topic appear.
#[derive(Debug)]
pub(crate) struct TopicSubjects {
    /// The topic's name as a subject.
    name: Box<[u8]>,
    reserved: bool,
    bindings: CapturedSubjects,
    /// First words of all subjects that are possible.
    first_words: Vec<Box<[u8]>>,
}

/// Bounds of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageLimits<'a> {
    /// Bytes of headers and payload.
    pub(crate) payload_bytes_max: usize,
    /// Of subjects.
    pub(crate) subject: &'a Limits,
}

impl MessageLimits<'_> {
    /// A record that is longer (behind its length, as it is written) is [`Undeliverable::TooLarge`], whatever is in it: two bytes of it
    /// may become 24, and none fewer than are here, but for a key and a header that the subject shows, and for the lengths.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let lengths = 64 + self.payload_bytes_max / 1024;
        self.payload_bytes_max + lengths + 2 * self.subject.bytes_max
    }
}

/// Memory that is used again for every record.
#[derive(Debug, Default)]
pub(crate) struct MessageScratch {
    subject: Vec<u8>,
    headers: Vec<u8>,
}

#[cfg(test)]
impl MessageScratch {
    pub(super) fn capacity(&self) -> usize {
        self.subject.capacity() + self.headers.capacity()
    }
}

/// Where a record's subject came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Its first header `Nats-Subject`.
    Header,
    /// Its key, which lies within the bindings; or the topic's name and the key.
    Key,
    /// The topic's name alone.
    Topic,
}

impl TopicSubjects {
    pub(crate) fn new(topic: &str, bindings: &CapturedSubjects) -> Self {
        let literal = !topic.split('.').any(str::is_empty);
        // Kafka allows names like `a..b`, which are no subjects. They appear as JetStream shows them, which is unique.
        let name = if literal { topic.to_owned() } else { topic.replace('.', "_") };
        let first_word = |text: &str| text.split('.').next().unwrap_or_default().as_bytes().into();
        let mut first_words: Vec<Box<[u8]>> = vec![first_word(&name)];
        for pattern in bindings.patterns() {
            if let Some(PatternWord::Literal(word)) = pattern.words().next() {
                first_words.push(word.into());
            }
        }
        first_words.sort();
        first_words.dedup();
        let reserved = topic.split('.').next() == Some(INBOX);
        Self { name: name.into_bytes().into(), reserved, bindings: bindings.clone(), first_words }
    }

    /// First words of the subjects that a record of the topic may get.
    pub(crate) fn first_words(&self) -> impl Iterator<Item = &[u8]> {
        self.first_words.iter().map(|word| &**word)
    }

    /// The NATS message that a record becomes.
    ///
    /// # Errors
    /// [`Undeliverable`].
    pub(crate) fn message<'a>(
        &self,
        record: &Record<'a>,
        limits: &MessageLimits<'_>,
        scratch: &'a mut MessageScratch,
    ) -> Result<Message<'a>, Undeliverable> {
        if self.reserved {
            return Err(Undeliverable::Reserved);
        }
        let payload = record.value.unwrap_or_default();
        if payload.len() > limits.payload_bytes_max {
            return Err(Undeliverable::TooLarge);
        }
        let MessageScratch { subject, headers } = scratch;
        for used in [&mut *subject, &mut *headers] {
            used.clear();
            used.shrink_to(KEPT_BYTES_MAX);
        }
        let source = self.write_subject(record, limits.subject, subject);
        write_headers(record, source, subject, limits.payload_bytes_max - payload.len(), headers)?;
        let headers = (!headers.is_empty()).then_some(&**headers);
        Ok(Message { subject, reply: None, headers, payload })
    }

    fn write_subject(&self, record: &Record<'_>, limits: &Limits, out: &mut Vec<u8>) -> Source {
        if let Some(given) = given_subject(record)
            && self.captures(given, limits)
        {
            out.extend_from_slice(given);
            return Source::Header;
        }
        if let Some(key) = record.key {
            if self.captures(key, limits) {
                out.extend_from_slice(key);
                return Source::Key;
            }
            out.extend_from_slice(&self.name);
            out.push(b'.');
            out.extend_from_slice(key);
            if is_literal(out, limits) {
                return Source::Key;
            }
            out.clear();
        }
        out.extend_from_slice(&self.name);
        Source::Topic
    }

    /// True if a message published there would be captured by the topic.
    fn captures(&self, subject: &[u8], limits: &Limits) -> bool {
        self.bindings.patterns().iter().any(|pattern| matches(pattern, subject))
            && is_literal(subject, limits)
    }
}

/// Value of the first header `Nats-Subject`: later ones are a publisher's own.
fn given_subject<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let mut headers = record.headers;
    headers.find(|header| header.key == SUBJECT)?.value
}

/// True for a subject of NATS in which no word is a wildcard, and that can be written into the protocol. The router takes any
/// bytes, since none that end a word can arrive there from a NATS client; from a Kafka client they can.
fn is_literal(subject: &[u8], limits: &Limits) -> bool {
    let limits = Limits { any_bytes: false, ..*limits };
    let mut words = subject.split(|byte| *byte == b'.');
    !words.any(|word| matches!(word, b"*" | b">")) && Subject::parse(Dialect::Nats, subject, &limits).is_ok()
}

/// Writes the header block; nothing if there is nothing to say.
///
/// # Errors
/// [`Undeliverable::TooLarge`], as soon as it is longer than `bytes_max`: what could become gigabytes is not written first.
fn write_headers(
    record: &Record<'_>,
    source: Source,
    subject: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Undeliverable> {
    out.extend_from_slice(HEADER_LINE);
    out.extend_from_slice(b"\r\n");
    let start = out.len();
    let fits = |out: &Vec<u8>, more: usize| {
        if out.len() + more > bytes_max { Err(Undeliverable::TooLarge) } else { Ok(()) }
    };
    if let Some(key) = record.key
        && source != Source::Key
        && key != subject
    {
        fits(out, key.len())?;
        write_key(key, out);
    }
    let mut shown_by_subject = source == Source::Header;
    for header in record.headers {
        if header.key == SUBJECT && std::mem::take(&mut shown_by_subject) {
            continue;
        }
        fits(out, header.key.len() + header.value.map_or(0, <[u8]>::len))?;
        write_one(header.key, header.value, out);
    }
    if record.value.is_none() {
        write_header(out, VALUE, NULL);
    }
    if out.len() == start {
        out.clear();
        return Ok(());
    }
    out.extend_from_slice(b"\r\n");
    fits(out, 0)
}

fn write_key(key: &[u8], out: &mut Vec<u8>) {
    if is_value(key) {
        return write_header(out, KEY, key);
    }
    out.extend_from_slice(KEY_BASE64);
    out.extend_from_slice(b": ");
    encode(key, out);
    out.extend_from_slice(b"\r\n");
}

fn write_one(name: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(value) = value
        && is_name(name)
        && is_value(value)
    {
        return write_header(out, name, value);
    }
    out.extend_from_slice(HEADER_BASE64);
    out.extend_from_slice(b": ");
    encode(name, out);
    if let Some(value) = value {
        out.push(b'=');
        encode(value, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// True for the name of a header that every NATS client reads as it is.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b':')
        && !RESERVED.contains(&name)
}

/// True for a value that every NATS client reads as it is: text without line ends and control characters, and without blanks
/// around it, which readers take away.
fn is_value(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    // Some clients take these two for line ends.
    let ends_a_line = |c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}');
    text.trim().len() == text.len() && !text.contains(ends_a_line)
}
