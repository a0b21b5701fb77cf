//! Many lookups at once: their cache misses overlap, since all slots are asked for before the first is read, and all leaves
//! before the first is compared.

use crossbeam_epoch::{self as epoch, Guard};

use super::Inner;
use super::clock::Time;
use super::core::Place;
use super::directory::Entry;
use super::leaf::LeafRef;
use super::lookup::is_late;
use super::sync::prefetch;
use super::table::{Slot, Table, decode, is_candidate};
use super::words::Words;
use crate::TextError;

/// Subjects whose memory accesses overlap.
const GROUP: usize = 16;

/// The results of [`TupleSpace::matches_many`](crate::TupleSpace::matches_many), reusable.
#[derive(Debug)]
pub struct Batch<V> {
    values: Vec<V>,
    ends: Vec<Result<usize, TextError>>,
}

impl<V> Default for Batch<V> {
    fn default() -> Self {
        Self { values: Vec::new(), ends: Vec::new() }
    }
}

impl<V> Batch<V> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of subjects that were looked up.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no subject was looked up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What one of the subjects matched.
    ///
    /// # Errors
    /// [`TextError`] if that subject is malformed.
    ///
    /// # Panics
    /// If there were not so many subjects.
    pub fn get(&self, subject: usize) -> Result<&[V], &TextError> {
        let end = *self.ends[subject].as_ref()?;
        let before = self.ends[..subject].iter().rev().find_map(|end| end.as_ref().ok());
        Ok(&self.values[before.copied().unwrap_or(0)..end])
    }

    /// The values of all subjects, one after the other.
    #[must_use]
    pub fn values(&self) -> &[V] {
        &self.values
    }
}

/// One probe under way.
struct Probe<'a, 'g, V: Clone + Send + 'static> {
    entry: &'g Entry<V>,
    table: &'g Table<V>,
    hash: u64,
    words: &'a Words<'a>,
    subject: usize,
    state: State<'g, V>,
}

#[derive(Clone, Copy)]
enum State<'g, V> {
    /// Nothing there, and no sign of anything newer.
    Absent,
    /// This may be it.
    Candidate(LeafRef<'g, V>),
    /// Something that a simple look does not tell: search by the book.
    Unclear,
}

impl<V: Clone + Send + Sync + 'static> Inner<V> {
    pub(crate) fn matches_many<S: AsRef<[u8]>>(&self, subjects: &[S], batch: &mut Batch<V>) {
        batch.values.clear();
        batch.ends.clear();
        for group in subjects.chunks(GROUP) {
            let guard = &epoch::pin();
            // Each result shows the matcher at this time, or later if something was written since.
            let time = self.core.clock.certain();
            self.match_group(group, time, batch, guard);
        }
    }

    fn match_group<S: AsRef<[u8]>>(&self, group: &[S], time: Time, batch: &mut Batch<V>, guard: &Guard) {
        let words: [_; GROUP] =
            std::array::from_fn(|index| group.get(index).map(|subject| self.parse(subject.as_ref())));
        let directory = self.directory(guard);
        let simple = directory.dropped() <= time && self.trie_root(guard).is_none();
        let mut probes: Vec<Probe<'_, '_, V>> = Vec::with_capacity(GROUP * 8);
        for (subject, words) in words.iter().enumerate() {
            let Some(Ok(words)) = words else { continue };
            let hidden = words.subject.is_hidden();
            for entry in directory.plan(words.count) {
                if !simple || hidden && entry.starts_wild {
                    continue;
                }
                let hash = self.core.hasher.finish(words.sum(usize::from(entry.key.prefix), entry.key.stars));
                let table = entry.shape.head(guard);
                prefetch(table.slot(table.home(hash)));
                probes.push(Probe { entry, table, hash, words, subject, state: State::Unclear });
            }
        }
        for probe in &mut probes {
            probe.state = peek(probe.table, probe.hash, time);
        }
        let mut probes = probes.into_iter().peekable();
        for (subject, words) in words.iter().enumerate() {
            let words = match words {
                None => break,
                Some(Ok(words)) => words,
                Some(Err(error)) => {
                    batch.ends.push(Err(error.clone()));
                    continue;
                }
            };
            let start = batch.values.len();
            let mut clear = simple;
            while let Some(probe) = probes.next_if(|probe| probe.subject == subject) {
                clear = clear && self.collect(&probe, time, &mut batch.values);
            }
            if !clear {
                batch.values.truncate(start);
                self.matches(words, &mut batch.values, guard);
            }
            batch.ends.push(Ok(batch.values.len()));
        }
    }

    /// Adds what a probe has found; false if it needs a search by the book.
    #[inline]
    fn collect(&self, probe: &Probe<'_, '_, V>, time: Time, values: &mut Vec<V>) -> bool {
        let leaf = match probe.state {
            State::Absent => return true,
            State::Unclear => return false,
            State::Candidate(leaf) => leaf,
        };
        if !probe.entry.key.matches(leaf.text(), probe.words)
            || is_late(self.core.settle(leaf, Place::Table(probe.entry.key, probe.hash)), time)
        {
            return false;
        }
        leaf.view().for_each(|value| values.push(value.clone()));
        true
    }
}

/// What a table says about a hash without comparing texts.
#[inline]
fn peek<'g, V: Clone + Send + 'static>(table: &'g Table<V>, hash: u64, time: Time) -> State<'g, V> {
    if table.dropped() > time {
        return State::Unclear;
    }
    let home = table.home(hash);
    for index in home..home + table.capacity() {
        let raw = table.load(index);
        if is_candidate(raw, hash) {
            let (Slot::Leaf(leaf) | Slot::Frozen(leaf)) = decode(raw) else { return State::Unclear };
            prefetch(leaf.as_ptr());
            prefetch(leaf.as_ptr().wrapping_byte_add(64));
            return State::Candidate(leaf);
        }
        match decode(raw) {
            Slot::<V>::Empty => return State::Absent,
            Slot::Leaf(_) | Slot::Frozen(_) => {}
            Slot::Deleted(removed) if removed <= time => {}
            Slot::Deleted(_) | Slot::Moved | Slot::End => return State::Unclear,
        }
    }
    State::Unclear
}
