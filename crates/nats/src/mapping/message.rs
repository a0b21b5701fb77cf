//! From a record to a NATS message.

use tailrace_config::CapturedSubjects;
use tailrace_identity::acl::{AUDIT_TOPIC, is_silent, subject_of_topic};
use tailrace_nats_wire::{HEADER_LINE, Message, write_header};
use tailrace_records::Record;
use tailrace_subjects::{Dialect, Limits, PatternWord, Subject};

use super::{HEADER_BASE64, KEY, KEY_BASE64, NULL, REQUEST_INFO, RESERVED, SUBJECT, VALUE, encode, matches};

/// Memory that is kept for the next record: enough for all but unusual headers.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The reason why a record cannot be delivered to NATS subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undeliverable {
    /// With its headers, the record is larger than `tailrace.nats.max.payload.bytes`.
    TooLarge,
    /// The topic's name is no subject: it would place the record among replies to requests.
    Reserved,
}

/// The subjects under which the records of a topic appear.
#[derive(Debug)]
pub(crate) struct TopicSubjects {
    /// The topic's name as a subject.
    name: Box<[u8]>,
    reserved: bool,
    bindings: CapturedSubjects,
    /// Any subject is one of the topic's own.
    takes_any: bool,
    /// First words of all possible subjects.
    first_words: Vec<Box<[u8]>>,
}

/// Limits of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageLimits<'a> {
    /// Most bytes of headers and payload.
    pub(crate) payload_bytes_max: usize,
    /// Limits of subjects.
    pub(crate) subject: &'a Limits,
}

impl MessageLimits<'_> {
    /// Length above which a record is [`Undeliverable::TooLarge`] regardless of its content, not counting its
    /// length prefix. Two of its bytes may become 24. None of them disappear, except those of a key and a
    /// header that the subject shows, and of the lengths.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let lengths = 64 + self.payload_bytes_max / 1024;
        self.payload_bytes_max + lengths + 2 * self.subject.bytes_max
    }
}

/// Memory that is reused for every record.
#[derive(Debug, Default)]
pub(crate) struct MessageScratch {
    subject: Vec<u8>,
    headers: Vec<u8>,
}

impl MessageScratch {
    /// A scratch that uses this memory for a subject and a header block.
    pub(crate) fn with(subject: Vec<u8>, headers: Vec<u8>) -> Self {
        Self { subject, headers }
    }

    /// The subject and the header block of the last message.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.subject, self.headers)
    }
}

#[cfg(test)]
impl MessageScratch {
    pub(super) fn capacity(&self) -> usize {
        self.subject.capacity() + self.headers.capacity()
    }
}

/// The source of a record's subject.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The record's first header `Nats-Subject`.
    Header,
    /// The record's key, if the bindings match it, or else the topic's name followed by the key.
    Key,
    /// The topic's name alone.
    Topic,
}

impl TopicSubjects {
    pub(crate) fn new(topic: &str, bindings: &CapturedSubjects) -> Self {
        let name = subject_of_topic(topic);
        let first_word = |text: &str| text.split('.').next().unwrap_or_default().as_bytes().into();
        let mut first_words: Vec<Box<[u8]>> = vec![first_word(&name)];
        for pattern in bindings.patterns() {
            if let Some(PatternWord::Literal(word)) = pattern.words().next() {
                first_words.push(word.into());
            }
        }
        first_words.sort();
        first_words.dedup();
        if topic == AUDIT_TOPIC {
            first_words.clear();
        }
        let reserved = is_silent(topic);
        let (bindings, takes_any) = (bindings.clone(), false);
        Self { name: name.as_bytes().into(), reserved, bindings, takes_any, first_words }
    }

    /// The subjects of what is stored in a stream. They stay when its patterns change, so they do not depend
    /// on these: the subject is what the record says, if that is one.
    pub(crate) fn of_stream(topic: &str) -> Self {
        Self { takes_any: true, ..Self::new(topic, &CapturedSubjects::default()) }
    }

    /// The name of the topic, as a subject.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Reports whether the topic has bound a subject.
    pub(crate) fn binds(&self, subject: &[u8]) -> bool {
        self.bindings.patterns().iter().any(|pattern| matches(pattern, subject))
    }

    /// First words of the subjects that a record of the topic may get.
    pub(crate) fn first_words(&self) -> impl Iterator<Item = &[u8]> {
        self.first_words.iter().map(|word| &**word)
    }

    /// Converts a record to a NATS message.
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

    /// Reports whether the topic captures messages on this subject.
    fn captures(&self, subject: &[u8], limits: &Limits) -> bool {
        let is_own =
            self.takes_any || self.bindings.patterns().iter().any(|pattern| matches(pattern, subject));
        is_own && is_literal(subject, limits)
    }
}

/// Returns the value of the first header `Nats-Subject`. Later ones are a publisher's own.
fn given_subject<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let mut headers = record.headers;
    headers.find(|header| header.key == SUBJECT)?.value
}

/// Reports whether this is a NATS subject without wildcards that can be written to the protocol. The router
/// accepts any bytes, because a NATS client cannot send any that end a word. A Kafka client can.
fn is_literal(subject: &[u8], limits: &Limits) -> bool {
    let limits = Limits { any_bytes: false, ..*limits };
    let mut words = subject.split(|byte| *byte == b'.');
    !words.any(|word| matches!(word, b"*" | b">")) && Subject::parse(Dialect::Nats, subject, &limits).is_ok()
}

/// Writes the header block, if there is anything to write.
///
/// # Errors
/// [`Undeliverable::TooLarge`] as soon as the block exceeds `bytes_max`, so that it never grows to gigabytes
/// first.
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

/// Reports whether every NATS client reads this header name unchanged.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b':')
        && !RESERVED.contains(&name)
        && !name.eq_ignore_ascii_case(REQUEST_INFO)
}

/// Reports whether every NATS client reads this value unchanged: text without line ends, control characters
/// and surrounding blanks, which readers remove.
fn is_value(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    // Some clients treat these two as line ends.
    let ends_a_line = |c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}');
    text.trim().len() == text.len() && !text.contains(ends_a_line)
}
