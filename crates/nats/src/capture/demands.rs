//! JetStream features that a publish demands besides storage: headers `Nats-Expected-*`, `Nats-Rollup` and
//! others.
//!
//! The leader of a stream judges them, if JetStream is enabled ([`demand_of`]). The rest is about topics that
//! are no streams. There only `Nats-Expected-Stream` is supported. A publisher must not be told that another
//! demand was met, so its message is not stored. It is refused with the texts and codes of nats-server
//! (2.15.2) for a stream that does not allow the feature, in the order of a single nats-server. Expected
//! sequences are not checked. They are refused as nats-server does when it cannot check them either (10164).
//!
//! Headers are recognized as by nats-server: the exact name at the start of a line, the first of several, and
//! not empty. `Nats-Msg-Id` demands nothing there. It is stored, and a repeated message is stored again.

use tailrace_jetstream::publish::PublishHeaders;
use tailrace_nats_wire::{Message, loose_lines, mentions};

/// An unmet demand, as JetStream's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unmet {
    pub(super) code: u16,
    pub(super) err_code: u16,
    pub(super) description: &'static str,
}

const fn unmet(code: u16, err_code: u16, description: &'static str) -> Unmet {
    Unmet { code, err_code, description }
}

const WRONG_STREAM: Unmet = unmet(400, 10060, "expected stream does not match");
const WRONG_LAST_ID: Unmet = unmet(400, 10070, "wrong last msg ID: ");
const ROLLUP: Unmet = unmet(500, 10111, "rollup not permitted");
const WRONG_SEQUENCE: Unmet = unmet(400, 10164, "wrong last sequence");
const BAD_TTL: Unmet = unmet(400, 10165, "invalid per-message TTL");
const TTL: Unmet = unmet(400, 10166, "per-message TTL is disabled");
const COUNTER: Unmet = unmet(400, 10168, "message counters is disabled");
const BAD_INCREMENT: Unmet = unmet(400, 10171, "message counter increment is invalid");
const ATOMIC_BATCH: Unmet = unmet(400, 10174, "atomic publish is disabled");
const SCHEDULE: Unmet = unmet(400, 10188, "message schedules is disabled");
const NO_SEQUENCE: Unmet = unmet(400, 10193, "missing sequence for expected last sequence per subject");
const FAST_BATCH: Unmet = unmet(400, 10205, "batch publish is disabled");
const BAD_SCHEDULER: Unmet = unmet(400, 10212, "message schedules invalid scheduler");
const SOURCE: Unmet = unmet(400, 10227, "message stream source header is not allowed");

/// Suffix of the reply subject of a message in a fast batch.
const FAST_BATCH_REPLY: &[u8] = b".$FI";

/// What the leader of a stream has to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// To store it.
    Storage,
    /// To judge it first.
    Judgement,
    /// Nothing: it is refused at once.
    Unmet(Unmet),
}

/// Returns what a message for a stream demands. Batches do not exist yet, and are no matter of a leader.
#[inline]
pub(super) fn demand_of(message: &Message<'_>) -> Demand {
    if is_of_fast_batch(message) {
        return Demand::Unmet(FAST_BATCH);
    }
    let Some(block) = message.headers.filter(|block| mentions(block, b"Nats-")) else {
        return Demand::Storage;
    };
    let headers = PublishHeaders::parse(block);
    if headers.batch_id.is_some_and(|id| !id.is_empty()) {
        return Demand::Unmet(ATOMIC_BATCH);
    }
    if headers == PublishHeaders::default() { Demand::Storage } else { Demand::Judgement }
}

#[inline]
fn is_of_fast_batch(message: &Message<'_>) -> bool {
    let is_it = |reply: &[u8]| reply.len() > FAST_BATCH_REPLY.len() && reply.ends_with(FAST_BATCH_REPLY);
    message.reply.is_some_and(is_it)
}

/// Returns the first unmet demand of a message for a topic that is no stream. `is_stream` tells whether a
/// name is that of the stream that would store it.
#[inline]
pub(super) fn unmet_of(message: &Message<'_>, is_stream: impl FnOnce(&[u8]) -> bool) -> Option<Unmet> {
    if is_of_fast_batch(message) {
        return Some(FAST_BATCH);
    }
    let block = message.headers.filter(|block| mentions(block, b"Nats-"))?;
    Demands::read(block).unmet(message.subject, is_stream)
}

/// The headers with demands.
#[derive(Debug, Default)]
struct Demands<'a> {
    batch: Option<&'a [u8]>,
    increment: Option<&'a [u8]>,
    stream: Option<&'a [u8]>,
    ttl: Option<&'a [u8]>,
    subject_sequence: Option<&'a [u8]>,
    sequence_of: Option<&'a [u8]>,
    sequence: Option<&'a [u8]>,
    schedule: Option<&'a [u8]>,
    time_zone: Option<&'a [u8]>,
    schedule_next: Option<&'a [u8]>,
    scheduler: Option<&'a [u8]>,
    source: Option<&'a [u8]>,
    last_id: Option<&'a [u8]>,
    rollup: Option<&'a [u8]>,
}

impl<'a> Demands<'a> {
    fn read(block: &'a [u8]) -> Self {
        let mut demands = Self::default();
        for (name, value) in loose_lines(block) {
            if let Some(place) = demands.place(name) {
                place.get_or_insert(value);
            }
        }
        demands
    }

    fn place(&mut self, name: &[u8]) -> Option<&mut Option<&'a [u8]>> {
        Some(match name.strip_prefix(b"Nats-")? {
            b"Batch-Id" => &mut self.batch,
            b"Incr" => &mut self.increment,
            b"Expected-Stream" => &mut self.stream,
            b"TTL" => &mut self.ttl,
            b"Expected-Last-Subject-Sequence" => &mut self.subject_sequence,
            b"Expected-Last-Subject-Sequence-Subject" => &mut self.sequence_of,
            b"Expected-Last-Sequence" => &mut self.sequence,
            b"Schedule" => &mut self.schedule,
            b"Schedule-Time-Zone" => &mut self.time_zone,
            b"Schedule-Next" => &mut self.schedule_next,
            b"Scheduler" => &mut self.scheduler,
            b"Stream-Source" => &mut self.source,
            b"Expected-Last-Msg-Id" => &mut self.last_id,
            b"Rollup" => &mut self.rollup,
            _ => return None,
        })
    }

    fn unmet(&self, subject: &[u8], is_stream: impl FnOnce(&[u8]) -> bool) -> Option<Unmet> {
        let there = |value: Option<&'a [u8]>| value.filter(|value| !value.is_empty());
        if there(self.batch).is_some() {
            return Some(ATOMIC_BATCH);
        }
        if let Some(increment) = there(self.increment) {
            return Some(if is_integer(increment) { COUNTER } else { BAD_INCREMENT });
        }
        if there(self.stream).is_some_and(|name| !is_stream(name)) {
            return Some(WRONG_STREAM);
        }
        let ttl = there(self.ttl).map_or(Ttl::None, Ttl::of);
        if ttl == Ttl::Legal {
            return Some(TTL);
        }
        if there(self.subject_sequence).is_some() {
            return Some(WRONG_SEQUENCE);
        }
        if there(self.sequence_of).is_some() {
            return Some(NO_SEQUENCE);
        }
        if there(self.sequence).is_some() {
            return Some(WRONG_SEQUENCE);
        }
        if let Some(unmet) = self.schedule(subject) {
            return Some(unmet);
        }
        if there(self.source).is_some() {
            return Some(SOURCE);
        }
        if there(self.last_id).is_some() {
            return Some(WRONG_LAST_ID);
        }
        if there(self.rollup).is_some() {
            return Some(ROLLUP);
        }
        (ttl == Ttl::Illegal).then_some(BAD_TTL)
    }

    fn schedule(&self, subject: &[u8]) -> Option<Unmet> {
        // An empty time zone is checked even without a schedule.
        if self.schedule.is_some_and(|value| !value.is_empty())
            || self.time_zone.is_some_and(<[u8]>::is_empty)
        {
            return Some(SCHEDULE);
        }
        let scheduler = self.scheduler.unwrap_or_default();
        match self.schedule_next.unwrap_or_default() {
            b"" => (!scheduler.is_empty()).then_some(BAD_SCHEDULER),
            b"purge" if scheduler != subject && is_literal(scheduler) => Some(SCHEDULE),
            _ => Some(BAD_SCHEDULER),
        }
    }
}

/// Reports whether messages can be published to the subject.
fn is_literal(subject: &[u8]) -> bool {
    let is_word = |word: &[u8]| {
        !matches!(word, b"" | b"*" | b">")
            && !word.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
    };
    subject.split(|&byte| byte == b'.').all(is_word)
}

/// Reports whether the text is a decimal integer, with or without a sign.
fn is_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// The time for which a message is to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ttl {
    /// The stream's default.
    None,
    Legal,
    Illegal,
}

impl Ttl {
    /// Parses seconds, a duration in Go's notation of at least a second, or `never`.
    fn of(text: &[u8]) -> Self {
        if text.eq_ignore_ascii_case(b"never") {
            return Self::Legal;
        }
        if let Some(seconds) = std::str::from_utf8(text).ok().and_then(go_duration) {
            return if seconds >= 1.0 { Self::Legal } else { Self::Illegal };
        }
        if !text.iter().all(u8::is_ascii_digit) {
            return Self::Illegal;
        }
        if text.iter().all(|&digit| digit == b'0') { Self::None } else { Self::Legal }
    }
}

/// Parses a duration in Go's notation, such as `1h2.5m`. Returns seconds.
fn go_duration(text: &str) -> Option<f64> {
    /// Largest duration of Go's type, in seconds.
    const SECONDS_MAX: f64 = i64::MAX as f64 / 1e9;
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|&end| end > 0)?;
        let (number, behind) = rest.split_at(number);
        let unit = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, next) = behind.split_at(unit);
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        rest = next;
    }
    (!text.ends_with(['+', '-']) && seconds <= SECONDS_MAX).then_some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmet(lines: &str) -> Option<u16> {
        let block = format!("NATS/1.0\r\n{lines}\r\n");
        let message =
            Message { subject: b"cap.a", reply: None, headers: Some(block.as_bytes()), payload: b"x" };
        unmet_of(&message, |name| name == b"S").map(|unmet| unmet.err_code)
    }

    /// Each line was published to a stream of nats-server 2.15.2. Where that checks sequences, it answered
    /// 10071.
    #[test]
    fn what_is_demanded_is_refused_as_nats_server_refuses_it() {
        for (lines, expected) in [
            ("", None),
            ("Nats-Msg-Id: 7\r\n", None),
            ("Nats-Expected-Stream: S\r\n", None),
            ("Nats-Expected-Stream:    S\r\nNats-Expected-Stream: T\r\n", None),
            ("Nats-Expected-Stream: T\r\n", Some(10060)),
            ("Nats-Expected-Stream: S \r\n", Some(10060)),
            ("Nats-Expected-Stream:\r\n", None),
            ("Nats-Expected-Last-Sequence: 77\r\n", Some(10164)),
            ("Nats-Expected-Last-Sequence: x\r\n", Some(10164)),
            ("Nats-Expected-Last-Sequence: \r\n", None),
            ("Nats-Expected-Last-Subject-Sequence: 0\r\n", Some(10164)),
            ("Nats-Expected-Last-Subject-Sequence-Subject: cap.z\r\n", Some(10193)),
            ("Nats-Expected-Last-Msg-Id: 77\r\n", Some(10070)),
            ("Nats-Rollup: sub\r\n", Some(10111)),
            ("Nats-Rollup: foo\r\n", Some(10111)),
            ("Nats-TTL: 5\r\n", Some(10166)),
            ("Nats-TTL: 1h2m\r\n", Some(10166)),
            ("Nats-TTL: Never\r\n", Some(10166)),
            ("Nats-TTL: 999999999999999999999\r\n", Some(10166)),
            ("Nats-TTL: 0\r\n", Some(10165)),
            ("Nats-TTL: 500ms\r\n", Some(10165)),
            ("Nats-TTL: -1\r\n", Some(10165)),
            ("Nats-TTL: -5s\r\n", Some(10165)),
            ("Nats-TTL: abc\r\n", Some(10165)),
            ("Nats-TTL: 00\r\n", None),
            ("Nats-Incr: +1\r\n", Some(10168)),
            ("Nats-Incr: 1_0\r\n", Some(10171)),
            ("Nats-Incr: 1\r\nNats-Rollup: sub\r\n", Some(10168)),
            ("Nats-Batch-Id: a\r\nNats-Batch-Sequence: 1\r\n", Some(10174)),
            ("Nats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n", None),
            ("Nats-Schedule: @every 5s\r\n", Some(10188)),
            ("Nats-Schedule: xx\r\n", Some(10188)),
            ("Nats-Schedule-Time-Zone: \r\n", Some(10188)),
            ("Nats-Schedule-Time-Zone: Europe/Berlin\r\n", None),
            ("Nats-Schedule-Target: cap.b\r\nNats-Schedule-TTL: 5\r\n", None),
            ("Nats-Schedule-Next: purge\r\n", Some(10212)),
            ("Nats-Schedule-Next: purge\r\nNats-Scheduler: cap.z\r\n", Some(10188)),
            ("Nats-Schedule-Next: purge\r\nNats-Scheduler: cap.a\r\n", Some(10212)),
            ("Nats-Schedule-Next: x\r\nNats-Scheduler: cap.z\r\n", Some(10212)),
            ("Nats-Scheduler: cap.z\r\n", Some(10212)),
            ("Nats-Stream-Source: x\r\n", Some(10227)),
            ("Nats-Counter-Sources: x\r\n", None),
            ("nats-rollup: sub\r\nX-Nats-Rollup: sub\r\n", None),
            ("no colon\r\nNats-Rollup: sub\r\n", Some(10111)),
            ("Nats-Rollup: sub\r\nNats-TTL: 5\r\n", Some(10166)),
            ("Nats-Expected-Stream: T\r\nNats-Rollup: sub\r\n", Some(10060)),
        ] {
            assert_eq!(unmet(lines), expected, "{lines}");
        }
    }

    #[test]
    fn a_fast_batch_is_known_by_its_reply_subject() {
        let message = |reply| Message { subject: b"cap.a", reply: Some(reply), headers: None, payload: b"x" };
        assert_eq!(unmet_of(&message(b"x.u.10.ok.1.0.$FI"), |_| true), Some(FAST_BATCH));
        assert_eq!(unmet_of(&message(b".$FI"), |_| true), None);
        assert_eq!(unmet_of(&message(b"_INBOX.x"), |_| true), None);
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("1h2.5m", Some(3750.0)),
            ("-1.5s", Some(-1.5)),
            ("+90s", Some(90.0)),
            ("1s500ms", Some(1.5)),
            (".5s", Some(0.5)),
            ("0", Some(0.0)),
            ("5", None),
            ("s", None),
            ("", None),
            ("+", None),
            ("1d", None),
            ("1.2.3s", None),
            ("9999999h", None),
        ] {
            assert_eq!(go_duration(text), expected, "{text}");
        }
    }
}
