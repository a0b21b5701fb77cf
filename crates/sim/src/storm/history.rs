//! What was offered, and what was told of it.

use std::collections::BTreeMap;

use tailrace_types::Offset;

/// Each writer has so many batches acknowledged once faults have ended.
const AT_THE_END: u32 = 3;

/// A batch: the node that it was offered to, the start of that node, and its number.
pub(super) type BatchName = (usize, u32, u32);

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
    /// Acknowledged since then, of each node.
    at_the_end: BTreeMap<usize, u32>,
}

impl History {
    pub(super) fn offered(&mut self, name: BatchName) {
        self.fates.insert(name, BatchFate::Unknown);
    }

    pub(super) fn told(&mut self, name: BatchName, fate: BatchFate) {
        if self.is_ending && matches!(fate, BatchFate::Stored(_)) {
            *self.at_the_end.entry(name.0).or_default() += 1;
        }
        self.fates.insert(name, fate);
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
