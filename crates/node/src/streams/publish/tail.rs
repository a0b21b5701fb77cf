//! The messages of a stream that were appended and are not in its table yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tailrace_jetstream::publish::Rollup;

use crate::streams::ids::IdHash;

/// Most messages of a tail, and most bytes of their subjects. A table is far behind then.
const MESSAGES_MAX: usize = 65_536;
const BYTES_MAX: usize = 8 << 20;

/// A message as the tail knows it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) subject: Arc<[u8]>,
    /// Its size as JetStream counts it.
    pub(super) bytes: u32,
    pub(super) id: Option<IdHash>,
    pub(super) rollup: Option<Rollup>,
}

/// What the tail knows of a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Of {
    /// Its last message.
    pub(super) last: u64,
    /// How many it has in the tail, from its last roll-up on.
    pub(super) count: u64,
    /// That roll-up: whatever is in the table of the subject is gone.
    pub(super) rolled: Option<u64>,
    /// How many it has in all.
    all: u64,
}

/// The tail. Empty until it is begun.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Messages above this sequence are in the tail, or in the table by now. `None`: it is not kept.
    base: Option<u64>,
    entries: VecDeque<Entry>,
    subjects: HashMap<Arc<[u8]>, Of>,
    ids: HashMap<IdHash, u64>,
    subject_bytes: usize,
    bytes: u64,
    rollups: usize,
    rollup_of_all: Option<u64>,
    /// The id of the last message. `None` if the tail has had no message.
    last_id: Option<Vec<u8>>,
    /// When something was last judged, in milliseconds.
    pub(super) used_at: i64,
}

impl Tail {
    /// Begins behind this sequence.
    pub(super) fn begin(&mut self, base: u64) {
        *self = Self { base: Some(base), used_at: self.used_at, ..Self::default() };
    }

    /// Ends. Messages that were in it are in the table only.
    pub(super) fn end(&mut self) {
        *self = Self { used_at: self.used_at, ..Self::default() };
    }

    /// The table has to have everything up to this sequence.
    pub(super) fn base(&self) -> Option<u64> {
        self.base
    }

    /// Adds a message.
    pub(super) fn push(&mut self, entry: Entry, id: &[u8]) {
        let Entry { seq, bytes, rollup, .. } = entry;
        let of = self.subjects.entry(Arc::clone(&entry.subject)).or_default();
        if rollup == Some(Rollup::Subject) {
            (of.rolled, of.count) = (Some(seq), 0);
        }
        (of.last, of.count, of.all) = (seq, of.count + 1, of.all + 1);
        self.rollups += usize::from(rollup.is_some());
        if rollup == Some(Rollup::All) {
            self.rollup_of_all = Some(seq);
        }
        if let Some(id) = entry.id {
            self.ids.insert(id, seq);
        }
        self.bytes += u64::from(bytes);
        self.subject_bytes += entry.subject.len();
        self.last_id.get_or_insert_default().clear();
        self.last_id.get_or_insert_default().extend_from_slice(id);
        self.entries.push_back(entry);
    }

    /// Forgets what is in the table: everything up to this sequence.
    pub(super) fn prune(&mut self, upto: u64) {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.seq <= upto) {
            self.forget(&entry);
        }
        if self.rollup_of_all.is_some_and(|seq| seq <= upto) {
            self.rollup_of_all = None;
        }
        // What is in the table stays there.
        self.base = self.base.map(|base| base.max(upto));
    }

    fn forget(&mut self, entry: &Entry) {
        let Entry { seq, bytes, rollup, .. } = *entry;
        self.bytes -= u64::from(bytes);
        self.subject_bytes -= entry.subject.len();
        self.rollups -= usize::from(rollup.is_some());
        if let Some(id) = entry.id
            && self.ids.get(&id) == Some(&seq)
        {
            self.ids.remove(&id);
        }
        let Some(of) = self.subjects.get_mut(&entry.subject) else { return };
        of.all -= 1;
        if of.rolled.is_none_or(|rolled| seq >= rolled) {
            of.count -= 1;
        }
        of.rolled = of.rolled.filter(|rolled| *rolled > seq);
        if of.all == 0 {
            self.subjects.remove(&entry.subject);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= MESSAGES_MAX || self.subject_bytes >= BYTES_MAX
    }

    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn has_rollups(&self) -> bool {
        self.rollups > 0
    }

    /// Reports whether one of its messages removes all before it.
    pub(super) fn rolls_up_all(&self) -> bool {
        self.rollup_of_all.is_some()
    }

    pub(super) fn subject(&self, subject: &[u8]) -> Option<Of> {
        self.subjects.get(subject).copied()
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = (&[u8], Of)> {
        self.subjects.iter().map(|(subject, of)| (&**subject, *of))
    }

    pub(super) fn id(&self, id: IdHash) -> Option<u64> {
        self.ids.get(&id).copied()
    }

    pub(super) fn ids(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn last_id(&self) -> Option<&[u8]> {
        self.last_id.as_deref().filter(|_| !self.entries.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, subject: &str, rollup: Option<Rollup>) -> Entry {
        Entry { seq, subject: subject.as_bytes().into(), bytes: 10, id: None, rollup }
    }

    #[test]
    fn what_the_table_has_is_not_counted_twice() {
        let mut tail = Tail::default();
        assert_eq!(tail.base(), None);
        tail.begin(4);
        tail.push(entry(5, "a", None), b"one");
        tail.push(entry(6, "b", None), b"");
        tail.push(entry(7, "a", Some(Rollup::Subject)), b"");
        tail.push(entry(8, "a", None), b"two");
        let of = tail.subject(b"a").unwrap();
        assert_eq!((of.last, of.count, of.rolled), (8, 2, Some(7)));
        assert_eq!((tail.len(), tail.bytes(), tail.last_id()), (4, 40, Some(&b"two"[..])));
        tail.prune(5);
        let of = tail.subject(b"a").unwrap();
        assert_eq!((of.count, of.rolled, tail.len(), tail.base()), (2, Some(7), 3, Some(5)));
        tail.prune(7);
        let of = tail.subject(b"a").unwrap();
        assert_eq!((of.last, of.count, of.rolled), (8, 1, None));
        assert!(tail.subject(b"b").is_none() && !tail.has_rollups());
        tail.prune(8);
        assert_eq!((tail.len(), tail.bytes(), tail.subjects().count(), tail.last_id()), (0, 0, 0, None));
    }

    #[test]
    fn a_tail_that_is_too_long_says_so() {
        let mut tail = Tail::default();
        tail.begin(0);
        for seq in 1..=MESSAGES_MAX as u64 {
            assert!(!tail.is_full());
            tail.push(entry(seq, "a", None), b"");
        }
        assert!(tail.is_full());
        tail.end();
        assert!(!tail.is_full() && tail.base().is_none());
    }
}
