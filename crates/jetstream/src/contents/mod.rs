//! What a stream contains, as every replica computes it from the records of its topic.
//!
//! [`Contents`] has a row for each message, and a table of subjects. It gets committed records in the order
//! of their sequences, and applies the stream's limits to them. It holds no headers and no payload: these
//! are in the log.
//!
//! # Costs
//! A message takes 16 bytes. A subject takes 24 bytes, its name, and 5 to 10 bytes of an index. A publish,
//! and a search for one subject, take the same time however many messages there are. So does a deletion,
//! unless the message is the last of its subject: then the one before it is searched. A filter with
//! wildcards compares every subject. To count its messages from some sequence on reads 4 bytes for each
//! message there.

mod filter;
mod rows;
mod search;
mod subjects;

#[cfg(test)]
mod model;

pub use filter::Filter;

use rows::{Next, Row, Rows};
use std::ops::ControlFlow;
use subjects::{Entry, SubjectId, Subjects};

/// The limits of a stream that remove messages. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Messages in the stream.
    pub messages_max: Option<u64>,
    /// Their sizes together, as JetStream counts them.
    pub bytes_max: Option<u64>,
    /// Messages of one subject.
    pub per_subject_max: Option<u64>,
}

/// A committed message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its sequence, which is above those of all earlier messages.
    pub seq: u64,
    /// The subject under which it is stored.
    pub subject: &'a [u8],
    /// Its size, as JetStream counts it.
    pub bytes: u32,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// What it removes once it is stored.
    pub rollup: Option<Rollup>,
}

/// What a message with `Nats-Rollup` removes: messages before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollup {
    /// Those of its subject.
    Subject,
    /// All.
    All,
}

/// What a purge removes.
#[derive(Clone, Copy, Default)]
pub struct Purge<'a> {
    /// Only subjects that it matches.
    pub filter: Option<&'a Filter>,
    /// Only messages below this sequence.
    pub below: Option<u64>,
    /// All but this many, the newest.
    pub keep: u64,
}

/// The summary that STREAM.INFO shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Messages.
    pub messages: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// The first message; one above `last_seq` if there is none.
    pub first_seq: u64,
    /// The highest sequence that was ever used.
    pub last_seq: u64,
    /// The time of the first message.
    pub first_time_ms: Option<i64>,
    /// The time of the newest message that was stored, even if it is gone.
    pub last_time_ms: Option<i64>,
    /// Subjects that have messages.
    pub subjects: u64,
    /// Sequences between the first and the last without a message.
    pub deleted: u64,
}

/// A message as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its sequence.
    pub seq: u64,
    /// Its size, as JetStream counts it.
    pub bytes: u32,
    /// Milliseconds since 1970.
    pub time_ms: i64,
}

/// The messages of a stream.
pub struct Contents {
    rows: Rows,
    subjects: Subjects,
    limits: Limits,
    messages: u64,
    bytes: u64,
    /// No message is below it.
    first_seq: u64,
    last_seq: u64,
    last_time_ms: Option<i64>,
}

impl Contents {
    /// An empty stream whose first message gets `first_seq`.
    ///
    /// # Panics
    /// If `first_seq` is 0.
    pub fn new(limits: Limits, first_seq: u64) -> Self {
        assert!(first_seq > 0, "sequences start at 1");
        Self {
            rows: Rows::default(),
            subjects: Subjects::default(),
            limits,
            messages: 0,
            bytes: 0,
            first_seq,
            last_seq: first_seq - 1,
            last_time_ms: None,
        }
    }

    /// Adds a message, and applies the limits. `removed` is called with each message that goes.
    ///
    /// # Panics
    /// If its sequence is not above those of all earlier messages.
    pub fn append(&mut self, message: &Message<'_>, removed: &mut impl FnMut(u64)) {
        let Message { seq, subject, bytes, time_ms, rollup } = *message;
        assert!(seq > self.last_seq, "sequence {seq} comes after {}", self.last_seq);
        let id = self.subjects.find_or_add(subject);
        self.rows.push(seq, Row { subject: id, bytes, time_ms });
        let Entry { first, last, count } = self.subjects.entry(id);
        let first = if count == 0 { seq } else { first };
        self.subjects.set(id, Entry { first, last: seq, count: count + 1 });
        if count > 0 {
            self.rows.link(last, Some(seq));
        }
        if self.messages == 0 {
            self.first_seq = seq;
        }
        (self.messages, self.bytes) = (self.messages + 1, self.bytes + u64::from(bytes));
        (self.last_seq, self.last_time_ms) = (seq, Some(time_ms));
        match rollup {
            Some(Rollup::All) => self.remove_head(removed, |contents| contents.first_seq < seq),
            Some(Rollup::Subject) => self.remove_oldest_of(id, 1, removed),
            None => {}
        }
        if let Some(max) = self.limits.per_subject_max {
            self.remove_oldest_of(id, max, removed);
        }
        self.apply_limits(removed);
    }

    /// Changes the limits, and applies the new ones.
    pub fn set_limits(&mut self, limits: Limits, removed: &mut impl FnMut(u64)) {
        let is_lower = match (self.limits.per_subject_max, limits.per_subject_max) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => new < old,
        };
        self.limits = limits;
        if let (true, Some(max)) = (is_lower, limits.per_subject_max) {
            let over = |id: &SubjectId| u64::from(self.subjects.entry(*id).count) > max;
            let mut over: Vec<_> = self.subjects.all().filter(over).collect();
            over.sort_unstable_by_key(|id| self.subjects.entry(*id).first);
            for id in over {
                self.remove_oldest_of(id, max, removed);
            }
        }
        self.apply_limits(removed);
    }

    fn apply_limits(&mut self, removed: &mut impl FnMut(u64)) {
        let Limits { messages_max, bytes_max, .. } = self.limits;
        self.remove_head(removed, |contents| {
            messages_max.is_some_and(|max| contents.messages > max)
                || bytes_max.is_some_and(|max| contents.bytes > max)
        });
    }

    /// Removes the first message while `goes_on`.
    fn remove_head(&mut self, removed: &mut impl FnMut(u64), goes_on: impl Fn(&Self) -> bool) {
        while self.messages > 0 && goes_on(self) {
            self.remove(self.first_seq, removed);
        }
    }

    /// Removes the oldest messages of a subject until it has `keep`.
    fn remove_oldest_of(&mut self, id: SubjectId, keep: u64, removed: &mut impl FnMut(u64)) {
        while u64::from(self.subjects.entry(id).count) > keep {
            self.remove(self.subjects.entry(id).first, removed);
        }
    }

    /// Notes that all sequences up to this one are taken, by messages or by something else.
    pub fn reach(&mut self, seq: u64) {
        if seq > self.last_seq {
            self.last_seq = seq;
            if self.messages == 0 {
                self.first_seq = seq + 1;
            }
        }
    }

    /// Removes a message. Returns whether it was there.
    pub fn delete(&mut self, seq: u64, removed: &mut impl FnMut(u64)) -> bool {
        self.remove(seq, removed)
    }

    /// Removes messages that are older than `time_ms`, from the first on, and up to the first that is not.
    pub fn expire(&mut self, time_ms: i64, removed: &mut impl FnMut(u64)) {
        self.remove_head(removed, |contents| {
            contents.rows.get(contents.first_seq).is_some_and(|row| row.time_ms < time_ms)
        });
    }

    /// Removes what `purge` says, and returns how many messages that were. If all of the stream goes, and
    /// `below` is above its end, the next message gets `below`.
    pub fn purge(&mut self, purge: Purge<'_>, removed: &mut impl FnMut(u64)) -> u64 {
        let before = self.messages;
        let below = purge.below.unwrap_or(u64::MAX);
        match purge.filter.filter(|filter| !filter.is_everything()) {
            Some(filter) => {
                for seq in self.matching_below(filter, below, purge.keep) {
                    self.remove(seq, removed);
                }
            }
            None => {
                let keep = purge.keep;
                self.remove_head(removed, |contents| contents.messages > keep && contents.first_seq < below);
                if let Some(below) = purge.below.filter(|below| keep == 0 && *below > self.last_seq + 1) {
                    (self.last_seq, self.first_seq) = (below - 1, below);
                }
            }
        }
        before - self.messages
    }

    fn remove(&mut self, seq: u64, removed: &mut impl FnMut(u64)) -> bool {
        let next = self.rows.next(seq);
        let Some(row) = self.rows.remove(seq) else { return false };
        self.messages -= 1;
        self.bytes -= u64::from(row.bytes);
        self.unlink(seq, row.subject, next);
        if seq == self.first_seq {
            self.first_seq = self.rows.at_or_after(seq + 1).map_or(self.last_seq + 1, |(first, _)| first);
        }
        removed(seq);
        true
    }

    /// Takes a message out of what the table says of its subject.
    fn unlink(&mut self, seq: u64, id: SubjectId, next: Next) {
        let entry = self.subjects.entry(id);
        if entry.count == 1 {
            return self.subjects.remove(id);
        }
        let Entry { mut first, mut last, count } = entry;
        if seq == first {
            first = self.next_of(id, seq, next).unwrap_or(last);
        } else if seq == last {
            last = self.last_of(id, seq).unwrap_or(first);
            self.rows.link(last, None);
        }
        self.subjects.set(id, Entry { first, last, count: count - 1 });
    }

    /// The message of the subject after `seq`. `next` is what the row of `seq` told.
    fn next_of(&self, id: SubjectId, seq: u64, mut next: Next) -> Option<u64> {
        let mut from = seq + 1;
        while let Next::At(at) = next {
            if self.rows.get(at).is_some_and(|row| row.subject == id) {
                return Some(at);
            }
            // It was deleted since.
            (from, next) = (at + 1, self.rows.next(at));
        }
        if next == Next::None {
            return None;
        }
        let mut found = None;
        self.rows.scan_subjects(from, |at, subject| {
            if subject == id {
                found = Some(at);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// The newest message of the subject before `before`.
    fn last_of(&self, id: SubjectId, before: u64) -> Option<u64> {
        let mut found = None;
        self.rows.scan_subjects_back(before, |at, subject| {
            if subject == id {
                found = Some(at);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// What STREAM.INFO shows.
    pub fn summary(&self) -> Summary {
        Summary {
            messages: self.messages,
            bytes: self.bytes,
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            first_time_ms: self.rows.get(self.first_seq).map(|row| row.time_ms),
            last_time_ms: self.last_time_ms,
            subjects: self.subjects.len() as u64,
            deleted: (self.last_seq + 1 - self.first_seq) - self.messages,
        }
    }

    /// Memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + self.subjects.memory_bytes()
    }
}
