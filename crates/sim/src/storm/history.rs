//! What was offered, and what was told of it.

use std::collections::BTreeMap;
use std::fmt;

use tailrace_types::Offset;

/// Each writer has so many batches acknowledged once faults have ended.
const AT_THE_END: u32 = 3;

/// A batch by who offered it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchName {
    /// The node that it was offered to.
    pub(super) node: usize,
    /// Which start of that.
    pub(super) start: u32,
    /// Which of the writers there.
    pub(super) writer: u32,
    /// How many that one offered before.
    pub(super) number: u32,
}

impl BatchName {
    /// What stands in the log.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.split('.');
        let name = Self {
            node: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
            writer: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }
}

impl fmt::Display for BatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.node, self.start, self.writer, self.number)
    }
}

/// What was told of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BatchFate {
    /// Nothing, or that it may be stored.
    Unknown,
    /// It is stored, from this offset on.
    Stored(Offset),
    /// It is not stored.
    Refused,
}

#[derive(Debug, Default)]
pub(super) struct History {
    fates: BTreeMap<BatchName, BatchFate>,
    /// The faults have ended.
    is_ending: bool,
    /// What should not have happened, found on the way.
    anomaly: Option<String>,
    /// Acknowledged since then, of each node.
    at_the_end: BTreeMap<usize, u32>,
}

impl History {
    pub(super) fn offered(&mut self, name: BatchName) {
        self.fates.insert(name, BatchFate::Unknown);
    }

    pub(super) fn told(&mut self, name: BatchName, fate: BatchFate) {
        if self.is_ending && matches!(fate, BatchFate::Stored(_)) {
            *self.at_the_end.entry(name.node).or_default() += 1;
        }
        self.fates.insert(name, fate);
    }

    /// Something should not have happened. The first one counts.
    pub(super) fn found(&mut self, anomaly: String) {
        self.anomaly.get_or_insert(anomaly);
    }

    pub(super) fn anomaly(&self) -> Option<&str> {
        self.anomaly.as_deref()
    }

    pub(super) fn fates(&self) -> &BTreeMap<BatchName, BatchFate> {
        &self.fates
    }

    /// The faults have ended: a few more batches of each writer.
    pub(super) fn begin_end(&mut self) {
        self.is_ending = true;
    }

    /// The writer of a node has had enough acknowledged since.
    pub(super) fn has_ended(&self, index: usize) -> bool {
        self.at_the_end.get(&index).is_some_and(|count| *count >= AT_THE_END)
    }
}
