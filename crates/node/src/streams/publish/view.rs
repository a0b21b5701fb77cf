//! The stream as the next message finds it: its table, and the tail behind it.

use std::cell::Cell;

use tailrace_jetstream::contents::Filter;
use tailrace_jetstream::error::ApiError;
use tailrace_jetstream::publish::{StoredParts, StreamView};
use tailrace_jetstream::stream::StreamConfig;
use tailrace_subjects::{Dialect, Limits, Pattern};

use super::tail::{Of, Tail};
use crate::streams::ids::IdKey;
use crate::streams::live::Table;

/// The stream as one message finds it.
pub(super) struct View<'a> {
    pub(super) table: &'a Table,
    pub(super) tail: &'a Tail,
    pub(super) config: &'a StreamConfig,
    /// The subject of the message, as it is stored, and its size there.
    pub(super) subject: &'a [u8],
    pub(super) size: u64,
    /// The sequence before that of the message.
    pub(super) last_sequence: u64,
    pub(super) id_key: IdKey,
    pub(super) now_ms: i64,
    /// Set if an answer may be wrong, because it is not known what limits and roll-ups will have removed.
    pub(super) is_unsure: Cell<bool>,
}

fn limit(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|value| *value > 0)
}

impl View<'_> {
    fn of(&self, subject: &[u8]) -> Of {
        self.tail.subject(subject).unwrap_or_default()
    }

    fn per_subject_max(&self) -> u64 {
        limit(self.config.max_msgs_per_subject).unwrap_or(u64::MAX)
    }

    /// How many messages a subject has, if nothing but its own limit and roll-ups removes any.
    fn count(&self, subject: &[u8], of: Of) -> u64 {
        let before = if of.rolled.is_some() { 0 } else { self.table.contents.count_of_subject(subject) };
        (before + of.count).min(self.per_subject_max())
    }

    /// Reports whether a message of the table may be removed by what is in the tail, if not by its subject.
    fn may_go(&self, seq: u64) -> bool {
        let (tail, summary) = (self.tail, self.table.contents.summary());
        if tail.len() == 0 {
            return false;
        }
        if tail.rolls_up_all() {
            return true;
        }
        let limits = self.table.rules.limits();
        if limits.bytes_max.is_some_and(|most| summary.bytes + tail.bytes() > most) {
            return true;
        }
        let behind = (summary.last_seq + 1).saturating_sub(seq).min(summary.messages);
        limits.messages_max.is_some_and(|most| {
            let gone = (summary.messages + tail.len()).saturating_sub(most);
            summary.messages - behind < gone
        })
    }

    fn checked(&self, seq: Option<u64>) -> Option<u64> {
        if seq.is_some_and(|seq| self.may_go(seq)) {
            self.is_unsure.set(true);
        }
        seq
    }

    /// Messages of the tail go, too, if there are more than the stream may have.
    fn is_tail_whole(&self) -> bool {
        let limits = self.table.rules.limits();
        !self.tail.rolls_up_all()
            && limits.messages_max.is_none_or(|most| self.tail.len() <= most)
            && limits.bytes_max.is_none_or(|most| self.tail.bytes() <= most)
    }
}

impl StreamView for View<'_> {
    fn config(&self) -> &StreamConfig {
        self.config
    }

    fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    fn last_sequence_of(&self, pattern: &str) -> Option<u64> {
        let own = pattern.as_bytes() == self.subject || pattern == String::from_utf8_lossy(self.subject);
        let subject = if own { self.subject } else { pattern.as_bytes() };
        if !self.is_tail_whole() {
            self.is_unsure.set(true);
        }
        if let Some(of) = self.tail.subject(subject) {
            return Some(of.last);
        }
        let has_wildcards = subject.split(|byte| *byte == b'.').any(|word| matches!(word, b"*" | b">"));
        if own || !has_wildcards {
            return self.checked(self.table.contents.last_of_subject(subject));
        }
        let limits = Limits { any_bytes: true, ..Limits::widest() };
        let pattern = Pattern::parse(Dialect::Nats, pattern, &limits).ok()?;
        let filter = Filter::new(&pattern);
        let matching = self.tail.subjects().filter(|(subject, _)| filter.matches(subject));
        let behind = matching.map(|(_, of)| of.last).max();
        behind.or_else(|| self.checked(self.table.contents.last_matching(&filter)))
    }

    /// Only counters and schedules ask for it, which do not exist yet.
    fn last_message(&self, _: &str) -> Option<StoredParts> {
        None
    }

    fn duplicate_of(&self, id: &[u8]) -> Option<u64> {
        let hash = self.id_key.hash(id)?;
        let forgotten = self.now_ms.saturating_sub(self.table.rules.window_ms());
        self.tail.id(hash).or_else(|| self.table.ids.find(hash, forgotten))
    }

    fn last_id(&self) -> &[u8] {
        self.tail.last_id().unwrap_or(&self.table.last_id)
    }

    fn messages(&self) -> u64 {
        let Some(most) = limit(self.config.max_msgs) else { return 0 };
        let upper = self.table.contents.summary().messages + self.tail.len();
        if upper < most {
            return upper;
        }
        if self.tail.rolls_up_all() {
            self.is_unsure.set(true);
            return upper;
        }
        let mut messages = self.table.contents.summary().messages;
        for (subject, of) in self.tail.subjects() {
            messages -= self.table.contents.count_of_subject(subject);
            messages += self.count(subject, of);
        }
        messages
    }

    fn bytes(&self) -> u64 {
        let bytes = self.table.contents.summary().bytes + self.tail.bytes();
        let is_exact = !self.tail.has_rollups() && limit(self.config.max_msgs_per_subject).is_none();
        let is_over = limit(self.config.max_bytes).is_some_and(|most| bytes + self.size > most);
        if self.tail.len() > 0 && !is_exact && is_over {
            self.is_unsure.set(true);
        }
        bytes
    }

    fn messages_of(&self, _: &str) -> u64 {
        if self.tail.rolls_up_all() {
            self.is_unsure.set(true);
        }
        self.count(self.subject, self.of(self.subject))
    }

    fn oldest_bytes_of(&self, _: &str) -> u64 {
        if self.tail.subject(self.subject).is_some() {
            self.is_unsure.set(true);
        }
        self.table.contents.first_of_subject(self.subject).map_or(0, |found| u64::from(found.bytes))
    }

    /// There are no streams by interest yet.
    fn has_interest(&self, _: &str) -> bool {
        true
    }

    fn has_room(&self, _: u64) -> Result<(), ApiError> {
        Ok(())
    }

    /// Which zones there are matters once there are schedules.
    fn has_time_zone(&self, _: &str) -> bool {
        true
    }

    fn max_payload(&self) -> usize {
        usize::MAX
    }

    fn now_nanos(&self) -> i64 {
        self.now_ms.saturating_mul(1_000_000)
    }
}
