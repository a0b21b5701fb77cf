//! Whether a message is stored. The order is that of a clustered nats-server.

use super::counter::{Number, stored};
use super::headers::{PublishHeaders, Rollup, Ttl, sequence};
use super::schedule::Schedule;
use super::view::StreamView;
use crate::api::PubAck;
use crate::error::{ApiError, ErrorKind};
use crate::go::{SECOND, quote};
use crate::limits::HEADER_BYTES_MAX;
use crate::stream::{Discard, Retention, Storage, StreamConfig};
use crate::subject::{collide, is_publishable};

/// A message on its way into a stream.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Its subject, as the stream's transform made it.
    pub subject: &'a str,
    /// Its header block, without a status.
    pub headers: &'a [u8],
    /// Its payload.
    pub payload: &'a [u8],
    /// Another stream had it first, and checked it.
    pub is_sourced: bool,
}

/// A header that is stored besides those that were sent. One of the same name is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderEdit {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// How a message is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// How long it lives, if that is not for the stream to say.
    pub ttl: Option<Ttl>,
    /// What goes when it is stored.
    pub rollup: Option<Rollup>,
    /// Headers that change.
    pub edits: Vec<HeaderEdit>,
    /// A counter's sum, which is the payload that is stored and the `val` of the acknowledgement.
    pub sum: Option<String>,
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is stored under the next sequence.
    Store(Store),
    /// It takes a sequence and is acknowledged, but nobody wants it. A roll-up works all the same.
    Skip {
        /// What goes.
        rollup: Option<Rollup>,
    },
    /// It is there already, with this sequence.
    Duplicate(u64),
    /// It is not stored.
    Refused(ApiError),
}

impl Verdict {
    /// The acknowledgement, if the message got this sequence. Whether anybody hears of it is for the caller:
    /// without a reply subject, or with `no_ack`, nobody does.
    #[must_use]
    pub fn ack(&self, stream: &str, domain: Option<&str>, sequence: u64) -> String {
        let ack = PubAck { stream, domain, sequence, is_duplicate: false, value: None };
        match self {
            Self::Store(store) => PubAck { value: store.sum.as_deref(), ..ack }.to_json(),
            Self::Skip { .. } => ack.to_json(),
            Self::Duplicate(first) => PubAck { sequence: *first, is_duplicate: true, ..ack }.to_json(),
            Self::Refused(error) => refusal(error, stream),
        }
    }
}

/// The answer to a message that was not stored.
#[must_use]
pub fn refusal(error: &ApiError, stream: &str) -> String {
    #[derive(serde::Serialize)]
    struct Refusal<'a> {
        error: &'a ApiError,
        stream: &'a str,
        seq: u64,
    }
    serde_json::to_string(&Refusal { error, stream, seq: 0 }).unwrap_or_default()
}

/// Judges a message.
#[must_use]
pub fn judge(publish: &Publish<'_>, view: &dyn StreamView) -> Verdict {
    let headers = PublishHeaders::parse(publish.headers);
    let mut judge = Judge { publish, view, config: view.config(), headers, store: Store::default() };
    match judge.run() {
        Ok(End::Stored) => Verdict::Store(judge.store),
        Ok(End::Skipped) => Verdict::Skip { rollup: judge.store.rollup },
        Ok(End::Duplicate(first)) => Verdict::Duplicate(first),
        Err(error) => Verdict::Refused(error),
    }
}

enum End {
    Stored,
    Skipped,
    Duplicate(u64),
}

struct Judge<'a> {
    publish: &'a Publish<'a>,
    view: &'a dyn StreamView,
    config: &'a StreamConfig,
    headers: PublishHeaders<'a>,
    store: Store,
}

impl Judge<'_> {
    fn run(&mut self) -> Result<End, ApiError> {
        if self.config.sealed {
            return Err(ErrorKind::StreamSealed.into());
        }
        self.view.has_room(self.stored_bytes(self.publish.payload.len()))?;
        self.check_size()?;
        let increment = self.increment()?;
        self.check_expected_stream()?;
        self.check_ttl()?;
        if let Some(first) = self.duplicate() {
            return Ok(End::Duplicate(first));
        }
        if !self.publish.is_sourced && !self.headers.stream_source.is_empty() {
            return Err(ErrorKind::MessageSourceHdrNotAllowed.into());
        }
        self.count(increment)?;
        self.check_expected_sequences()?;
        if !self.publish.is_sourced {
            self.check_schedule()?;
            self.check_scheduler()?;
        }
        self.check_rollup()?;
        self.check_discard_new()?;
        self.check_last_id()?;
        let unwanted =
            self.config.retention == Retention::Interest && !self.view.has_interest(self.publish.subject);
        Ok(if unwanted { End::Skipped } else { End::Stored })
    }

    /// Bytes of the message in the stream, as nats-server counts them.
    fn stored_bytes(&self, payload: usize) -> u64 {
        let (subject, headers) = (self.publish.subject.len(), self.publish.headers.len());
        let bytes = match (self.config.storage, headers) {
            (Storage::Memory, _) => subject + headers + payload + 16,
            (Storage::File, 0) => 22 + subject + payload + 8,
            (Storage::File, _) => 22 + subject + 4 + headers + payload + 8,
        };
        bytes as u64
    }

    fn check_size(&self) -> Result<(), ApiError> {
        let size = self.publish.headers.len() + self.publish.payload.len();
        if usize::try_from(self.config.max_msg_size).is_ok_and(|most| size > most) {
            return Err(ErrorKind::StreamMessageExceedsMaximum.into());
        }
        if self.publish.headers.len() > HEADER_BYTES_MAX {
            return Err(ErrorKind::StreamHeaderExceedsMaximum.into());
        }
        Ok(())
    }

    fn increment(&self) -> Result<Option<Number>, ApiError> {
        let headers = &self.headers;
        if headers.increment.is_empty() {
            return Ok(None);
        }
        let invalid = || ApiError::new(ErrorKind::MessageIncrInvalid);
        let number = Number::parse(headers.increment).ok_or_else(invalid)?;
        if self.publish.is_sourced {
            return Ok(Some(number));
        }
        if !self.config.allow_msg_counter {
            return Err(ErrorKind::MessageIncrDisabled.into());
        }
        if !self.publish.payload.is_empty() {
            return Err(ErrorKind::MessageIncrPayload.into());
        }
        let others = [
            headers.rollup,
            headers.expected_stream,
            headers.expected_last_msg_id,
            headers.expected_last_subject_sequence_subject,
            headers.expected_last_sequence,
            headers.expected_last_subject_sequence,
        ];
        if others.iter().any(|value| !value.is_empty()) { Err(invalid()) } else { Ok(Some(number)) }
    }

    fn check_expected_stream(&self) -> Result<(), ApiError> {
        let expected = self.headers.expected_stream;
        if expected.is_empty() || expected == self.config.name.as_bytes() {
            return Ok(());
        }
        Err(ErrorKind::StreamNotMatch.into())
    }

    fn check_ttl(&mut self) -> Result<(), ApiError> {
        let ttl = self.headers.ttl();
        if !self.publish.is_sourced && ttl != Ok(None) && !self.config.allow_msg_ttl {
            return Err(ErrorKind::MessageTtlDisabled.into());
        }
        let ttl = ttl.map_err(|()| ApiError::new(ErrorKind::MessageTtlInvalid))?;
        let least = self.config.subject_delete_marker_ttl / SECOND;
        self.store.ttl = match ttl {
            // A marker must not outlive what it marks. A subject that has one message needs none.
            Some(Ttl::Seconds(seconds)) if seconds < least && self.config.max_msgs_per_subject != 1 => {
                self.edit("Nats-TTL", least.to_string());
                Some(Ttl::Seconds(least))
            }
            other => other,
        };
        Ok(())
    }

    fn edit(&mut self, name: &'static str, value: String) {
        self.store.edits.push(HeaderEdit { name, value });
    }

    /// Messages of other streams are not looked for: their origin did.
    fn duplicate(&self) -> Option<u64> {
        let looks = !self.headers.msg_id.is_empty() && self.config.mirror.is_none();
        looks.then(|| self.view.duplicate_of(self.headers.msg_id)).flatten()
    }

    fn count(&mut self, increment: Option<Number>) -> Result<(), ApiError> {
        if !self.config.allow_msg_counter {
            return Ok(());
        }
        let Some(increment) = increment else { return Err(ErrorKind::MessageIncrMissing.into()) };
        let mut before = Number::default();
        if let Some(last) = self.view.last_message(self.publish.subject) {
            let broken = || ApiError::new(ErrorKind::MessageCounterBroken);
            before = stored(&last.payload).ok_or_else(broken)?;
            let sources = PublishHeaders::parse(&last.headers).counter_sources;
            if !sources.is_empty() {
                let sources = std::str::from_utf8(sources).map_err(|_| broken())?;
                self.edit("Nats-Counter-Sources", sources.to_owned());
            }
        }
        let sum = format!(r#"{{"val":"{}"}}"#, before.plus(&increment));
        let size = self.publish.headers.len() + sum.len();
        let most = usize::try_from(self.config.max_msg_size).unwrap_or(usize::MAX);
        if size > most.min(self.view.max_payload()) {
            return Err(ErrorKind::StreamMessageExceedsMaximum.into());
        }
        self.store.sum = Some(before.plus(&increment).to_string());
        Ok(())
    }

    fn check_expected_sequences(&self) -> Result<(), ApiError> {
        let wrong = |found: u64| {
            let found = found.to_string();
            Err(ApiError::with(ErrorKind::StreamWrongLastSequence, &[("{seq}", &found)]))
        };
        let headers = &self.headers;
        let last = self.view.last_sequence();
        if sequence(headers.expected_last_sequence).is_some_and(|expected| expected != last) {
            return wrong(last);
        }
        let other = headers.expected_last_subject_sequence_subject;
        let Some(expected) = sequence(headers.expected_last_subject_sequence) else {
            let alone = !other.is_empty();
            return if alone {
                Err(ErrorKind::StreamExpectedLastSeqPerSubjectInvalid.into())
            } else {
                Ok(())
            };
        };
        let other = String::from_utf8_lossy(other);
        let subject = if other.is_empty() { self.publish.subject } else { &other };
        let found = self.view.last_sequence_of(subject).unwrap_or(0);
        if found == expected { Ok(()) } else { wrong(found) }
    }

    fn check_schedule(&mut self) -> Result<(), ApiError> {
        match self.schedule() {
            Ok(true) if self.config.allow_msg_schedules => {}
            Ok(false) => return Ok(()),
            Ok(true) | Err(_) if !self.config.allow_msg_schedules => {
                return Err(ErrorKind::MessageSchedulesDisabled.into());
            }
            Ok(true) => {}
            Err(kind) => return Err(kind.into()),
        }
        let headers = &self.headers;
        let ttl = headers.schedule_ttl;
        if !ttl.is_empty() && Ttl::parse(ttl).is_none() {
            return Err(ErrorKind::MessageSchedulesTtlInvalid.into());
        }
        if !matches!(headers.schedule_rollup, b"" | b"sub") {
            return Err(ErrorKind::MessageSchedulesRollupInvalid.into());
        }
        if !ttl.is_empty() && !self.config.allow_msg_ttl {
            return Err(ErrorKind::MessageTtlDisabled.into());
        }
        self.check_schedule_subjects()?;
        match headers.rollup() {
            Ok(None) => self.edit("Nats-Rollup", "sub".to_owned()),
            Ok(Some(Rollup::Subject)) => {}
            _ => return Err(ErrorKind::MessageSchedulesRollupInvalid.into()),
        }
        Ok(())
    }

    /// Whether the message is a schedule.
    fn schedule(&self) -> Result<bool, ErrorKind> {
        let zone = self.headers.schedule_time_zone;
        if let Some(zone) = zone {
            let name = std::str::from_utf8(zone).ok().filter(|name| !name.is_empty());
            if !name.is_some_and(|name| self.view.has_time_zone(name)) {
                return Err(ErrorKind::MessageSchedulesTimeZoneInvalid);
            }
        }
        if self.headers.schedule.is_empty() {
            return Ok(false);
        }
        let pattern = std::str::from_utf8(self.headers.schedule).ok();
        let schedule = pattern.and_then(|pattern| Schedule::parse(pattern, zone.is_some()).ok());
        let schedule = schedule.ok_or(ErrorKind::MessageSchedulesPatternInvalid)?;
        let now = self.view.now_nanos();
        schedule.next(now, now).ok_or(ErrorKind::MessageSchedulesPatternInvalid)?;
        Ok(!matches!(schedule, Schedule::At(time) if time.is_zero()))
    }

    fn check_schedule_subjects(&self) -> Result<(), ApiError> {
        let text = |value| String::from_utf8_lossy(value);
        let (target, source) = (text(self.headers.schedule_target), text(self.headers.schedule_source));
        let subject = self.publish.subject;
        if !is_publishable(&target) || target == subject {
            return Err(ErrorKind::MessageSchedulesTargetInvalid.into());
        }
        let legal = source != target && source != subject && is_publishable(&source);
        if !source.is_empty() && !legal {
            return Err(ErrorKind::MessageSchedulesSourceInvalid.into());
        }
        let ours = |subject: &str| self.config.subjects.iter().any(|pattern| collide(pattern, subject));
        if !ours(&target) {
            return Err(ErrorKind::MessageSchedulesTargetInvalid.into());
        }
        if !source.is_empty() && !ours(&source) {
            return Err(ErrorKind::MessageSchedulesSourceInvalid.into());
        }
        Ok(())
    }

    /// Clients may end a schedule, and only so name it.
    fn check_scheduler(&self) -> Result<(), ApiError> {
        let invalid = || Err(ErrorKind::MessageSchedulesSchedulerInvalid.into());
        let scheduler = String::from_utf8_lossy(self.headers.scheduler);
        if self.headers.schedule_next.is_empty() {
            return if scheduler.is_empty() { Ok(()) } else { invalid() };
        }
        if self.headers.schedule_next != b"purge" {
            return invalid();
        }
        if scheduler.is_empty() || scheduler == self.publish.subject || !is_publishable(&scheduler) {
            return invalid();
        }
        if !self.config.allow_msg_schedules {
            return Err(ErrorKind::MessageSchedulesDisabled.into());
        }
        match self.view.last_message(&scheduler) {
            Some(last) if PublishHeaders::parse(&last.headers).schedule.is_empty() => invalid(),
            _ => Ok(()),
        }
    }

    fn check_rollup(&mut self) -> Result<(), ApiError> {
        let rollup = self.headers.rollup();
        let permitted = self.config.allow_rollup_hdrs && !self.config.deny_purge;
        if rollup != Ok(None) && !permitted && !self.publish.is_sourced {
            return Err(ApiError::because(ErrorKind::StreamRollupFailed, "rollup not permitted"));
        }
        let invalid = |value: String| {
            let text = format!("rollup value invalid: {}", quote(value.as_bytes()));
            ApiError::because(ErrorKind::StreamRollupFailed, text)
        };
        let scheduled = self.store.edits.iter().any(|edit| edit.name == "Nats-Rollup");
        self.store.rollup = rollup.map_err(invalid)?.or(scheduled.then_some(Rollup::Subject));
        Ok(())
    }

    /// Where new messages give way, one of a subject that is full replaces that subject's oldest, unless
    /// the stream says otherwise. Key-value buckets rely on it.
    fn check_discard_new(&self) -> Result<(), ApiError> {
        let config = self.config;
        if config.discard != Discard::New {
            return Ok(());
        }
        let full = |text: &str| Err(ApiError::because(ErrorKind::StreamStoreFailed, text));
        let per_subject = u64::try_from(config.max_msgs_per_subject).ok().filter(|most| *most > 0);
        let replaces = per_subject.is_some_and(|most| self.view.messages_of(self.publish.subject) >= most);
        if replaces && config.discard_new_per_subject && self.store.rollup.is_none() {
            return full("maximum messages per subject exceeded");
        }
        let most = |limit: i64| u64::try_from(limit).ok().filter(|most| *most > 0);
        if most(config.max_msgs).is_some_and(|most| self.view.messages() >= most) && !replaces {
            return full("maximum messages exceeded");
        }
        let payload = self.store.sum.as_ref().map_or(self.publish.payload.len(), |sum| sum.len() + 10);
        let bytes = self.stored_bytes(payload);
        let over = most(config.max_bytes).is_some_and(|most| self.view.bytes() + bytes > most);
        if over && (!replaces || self.view.oldest_bytes_of(self.publish.subject) < bytes) {
            return full("maximum bytes exceeded");
        }
        Ok(())
    }

    fn check_last_id(&self) -> Result<(), ApiError> {
        let expected = self.headers.expected_last_msg_id;
        let last = self.view.last_id();
        if expected.is_empty() || expected == last {
            return Ok(());
        }
        let last = String::from_utf8_lossy(last);
        Err(ApiError::with(ErrorKind::StreamWrongLastMsgId, &[("{id}", &last)]))
    }
}
