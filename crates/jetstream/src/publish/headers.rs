//! The headers of a message that mean something to a stream.
//!
//! Names are matched exactly, at the start of a line. The first of a name counts. Blanks before a value are
//! not part of it. An empty value is none.

use crate::go::{SECOND, parse_duration};

/// What a roll-up deletes when its message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollup {
    /// What came before it on its subject.
    Subject,
    /// All that came before it.
    All,
}

/// How long a message lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// So many seconds. 0 is no limit.
    Seconds(i64),
    /// For ever, whatever the stream says.
    Never,
}

impl Ttl {
    /// Reads a value: seconds, a duration of Go of a second or more, or `never`.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        if value.eq_ignore_ascii_case(b"never") {
            return Some(Self::Never);
        }
        let text = std::str::from_utf8(value).ok()?;
        if let Some(duration) = parse_duration(text) {
            return (duration >= SECOND).then_some(Self::Seconds(duration / SECOND));
        }
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok().map(Self::Seconds))?
    }
}

/// The values of the headers, as they stand in the block. Those that are absent are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is a header of the protocol, whose name it has")]
pub struct PublishHeaders<'a> {
    pub msg_id: &'a [u8],
    pub expected_stream: &'a [u8],
    pub expected_last_sequence: &'a [u8],
    pub expected_last_subject_sequence: &'a [u8],
    pub expected_last_subject_sequence_subject: &'a [u8],
    pub expected_last_msg_id: &'a [u8],
    pub rollup: &'a [u8],
    pub ttl: &'a [u8],
    pub increment: &'a [u8],
    pub batch_id: Option<&'a [u8]>,
    pub batch_sequence: &'a [u8],
    pub batch_commit: &'a [u8],
    pub schedule: &'a [u8],
    pub schedule_target: &'a [u8],
    pub schedule_source: &'a [u8],
    pub schedule_ttl: &'a [u8],
    /// There is a difference between an empty one and none.
    pub schedule_time_zone: Option<&'a [u8]>,
    pub schedule_rollup: &'a [u8],
    pub schedule_next: &'a [u8],
    pub scheduler: &'a [u8],
    pub stream_source: &'a [u8],
    pub counter_sources: &'a [u8],
    pub required_api_level: &'a [u8],
}

impl<'a> PublishHeaders<'a> {
    /// Looks through a header block. Lines that are no headers are passed over.
    #[must_use]
    pub fn parse(block: &'a [u8]) -> Self {
        let mut headers = Self::default();
        let mut seen = 0u32;
        for line in lines(block) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            let Some(at) = NAMES.iter().position(|(known, _)| known.as_bytes() == name) else { continue };
            if seen & 1 << at == 0 {
                seen |= 1 << at;
                (NAMES[at].1)(&mut headers, without_blanks(value));
            }
        }
        headers
    }

    /// What a stored message removes. A value that is no roll-up removes nothing.
    #[must_use]
    pub fn stored_rollup(&self) -> Option<Rollup> {
        self.rollup().ok().flatten()
    }

    /// The roll-up that is asked for; an error is the value that is none.
    pub(super) fn rollup(&self) -> Result<Option<Rollup>, String> {
        match self.rollup.to_ascii_lowercase().as_slice() {
            b"" => Ok(None),
            b"sub" => Ok(Some(Rollup::Subject)),
            b"all" => Ok(Some(Rollup::All)),
            _ => Err(String::from_utf8_lossy(self.rollup).to_lowercase()),
        }
    }

    /// How long the message is to live; an error if the value says nothing.
    pub(super) fn ttl(&self) -> Result<Option<Ttl>, ()> {
        if self.ttl.is_empty() {
            return Ok(None);
        }
        match Ttl::parse(self.ttl) {
            Some(Ttl::Seconds(0)) => Ok(None),
            Some(ttl) => Ok(Some(ttl)),
            None => Err(()),
        }
    }
}

/// An expected sequence. What is no number is a sequence that no message has.
pub(super) fn sequence(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let digits =
        std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    Some(digits.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX))
}

fn without_blanks(value: &[u8]) -> &[u8] {
    let blanks = value.iter().take_while(|byte| **byte == b' ').count();
    &value[blanks..]
}

/// The lines after the first one, without their ends.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(block);
    let lines = std::iter::from_fn(move || {
        let text = rest?;
        let end = text.windows(2).position(|pair| pair == b"\r\n");
        rest = end.map(|end| &text[end + 2..]);
        Some(&text[..end.unwrap_or(text.len())])
    });
    lines.skip(1)
}

type Set = for<'a> fn(&mut PublishHeaders<'a>, &'a [u8]);

const NAMES: [(&str, Set); 23] = [
    ("Nats-Msg-Id", |headers, value| headers.msg_id = value),
    ("Nats-Expected-Stream", |headers, value| headers.expected_stream = value),
    ("Nats-Expected-Last-Sequence", |headers, value| headers.expected_last_sequence = value),
    ("Nats-Expected-Last-Subject-Sequence", |headers, value| headers.expected_last_subject_sequence = value),
    ("Nats-Expected-Last-Subject-Sequence-Subject", |headers, value| {
        headers.expected_last_subject_sequence_subject = value;
    }),
    ("Nats-Expected-Last-Msg-Id", |headers, value| headers.expected_last_msg_id = value),
    ("Nats-Rollup", |headers, value| headers.rollup = value),
    ("Nats-TTL", |headers, value| headers.ttl = value),
    ("Nats-Incr", |headers, value| headers.increment = value),
    ("Nats-Batch-Id", |headers, value| headers.batch_id = Some(value)),
    ("Nats-Batch-Sequence", |headers, value| headers.batch_sequence = value),
    ("Nats-Batch-Commit", |headers, value| headers.batch_commit = value),
    ("Nats-Schedule", |headers, value| headers.schedule = value),
    ("Nats-Schedule-Target", |headers, value| headers.schedule_target = value),
    ("Nats-Schedule-Source", |headers, value| headers.schedule_source = value),
    ("Nats-Schedule-TTL", |headers, value| headers.schedule_ttl = value),
    ("Nats-Schedule-Time-Zone", |headers, value| headers.schedule_time_zone = Some(value)),
    ("Nats-Schedule-Rollup", |headers, value| headers.schedule_rollup = value),
    ("Nats-Schedule-Next", |headers, value| headers.schedule_next = value),
    ("Nats-Scheduler", |headers, value| headers.scheduler = value),
    ("Nats-Stream-Source", |headers, value| headers.stream_source = value),
    ("Nats-Counter-Sources", |headers, value| headers.counter_sources = value),
    ("Nats-Required-Api-Level", |headers, value| headers.required_api_level = value),
];
