//! Many lookups at once. Their cache misses overlap: all slots are prefetched before the first is read, and
//! all leaves before the first is compared.

use super::clock::Time;
use super::conflict::is_late;
use super::core::LeafLocation;
use super::directory::Entry;
use super::epoch::{self, Guard};
use super::inner::Inner;
use super::leaf::LeafRef;
use super::slot::Slot;
use super::sync::prefetch;
use super::table::Table;
use super::words::Words;
use crate::TextError;

/// Subjects whose memory accesses overlap.
const GROUP: usize = 16;
/// Probes to have room for at once, before more memory is allocated.
const PROBES: usize = 64 * GROUP;
/// Subjects per pin of a thread.
const PART: usize = 256;

/// Reusable results of [`TupleSpace::matches_many`](crate::TupleSpace::matches_many).
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
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of subjects looked up.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reports whether no subject was looked up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The matches of one of the subjects.
    ///
    /// # Errors
    /// [`TextError`] if that subject is malformed.
    ///
    /// # Panics
    /// There were fewer subjects.
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

/// One probe in progress.
struct Probe<'g, V: Clone + Send + 'static> {
    entry: &'g Entry<V>,
    table: &'g Table<V>,
    hash: u64,
    state: ProbeState<'g, V>,
}

#[derive(Clone, Copy)]
enum ProbeState<'g, V> {
    /// Absent, and no sign of anything newer.
    Absent,
    /// This leaf may be the one.
    Candidate(LeafRef<'g, V>),
    /// A quick look cannot tell: a full search is needed.
    Unclear,
}

impl<V: Clone + Send + Sync + 'static> Inner<V> {
    pub(crate) fn matches_many<S: AsRef<[u8]>>(&self, subjects: &[S], batch: &mut Batch<V>) {
        batch.values.clear();
        batch.ends.clear();
        for part in subjects.chunks(PART) {
            let guard = &epoch::pin();
            let mut words: [Words<'_>; GROUP] = std::array::from_fn(|_| self.no_words());
            let mut probes = Vec::with_capacity(PROBES);
            for group in part.chunks(GROUP) {
                self.match_group(group, &mut words, &mut probes, batch, guard);
            }
        }
    }

    #[inline]
    fn match_group<'a, 'g, S: AsRef<[u8]>>(
        &self,
        group: &'a [S],
        words: &mut [Words<'a>; GROUP],
        probes: &mut Vec<Probe<'g, V>>,
        batch: &mut Batch<V>,
        guard: &'g Guard,
    ) {
        // Each result shows the matcher at this time, or later if something was written since.
        let time = self.core.clock.certain();
        let directory = self.directory(guard);
        let simple = !is_late(directory.dropped(), time) && self.overflow_is_empty(time, guard);
        let mut errors = [const { None }; GROUP];
        let mut counts = [0_u16; GROUP];
        probes.clear();
        for (index, subject) in group.iter().enumerate() {
            let words = &mut words[index];
            if let Err(error) = self.read(words, subject.as_ref()) {
                errors[index] = Some(error);
                continue;
            }
            let hidden = words.subject.is_hidden();
            let before = probes.len();
            for entry in directory.plan(words.count) {
                if !simple || hidden && entry.starts_wild {
                    continue;
                }
                let hash = entry.hash(&self.core, words);
                let table = entry.shape.head(guard);
                table.prefetch_home(hash);
                probes.push(Probe { entry, table, hash, state: ProbeState::Absent });
            }
            counts[index] = (probes.len() - before) as u16;
        }
        for probe in probes.iter_mut() {
            probe.state = peek(probe.table, probe.hash, time, guard);
        }
        let mut next = 0;
        for (index, error) in errors.into_iter().enumerate().take(group.len()) {
            if let Some(error) = error {
                batch.ends.push(Err(error));
                continue;
            }
            let (words, start) = (&words[index], batch.values.len());
            let own = &probes[next..next + usize::from(counts[index])];
            next += own.len();
            if !simple || !own.iter().all(|probe| self.collect(probe, words, time, &mut batch.values)) {
                batch.values.truncate(start);
                self.matches(words, &mut batch.values, guard);
            }
            batch.ends.push(Ok(batch.values.len()));
        }
    }

    /// Adds what a probe has found. Returns false if it needs a full search.
    #[inline]
    fn collect(&self, probe: &Probe<'_, V>, words: &Words<'_>, time: Time, values: &mut Vec<V>) -> bool {
        let leaf = match probe.state {
            ProbeState::Absent => return true,
            ProbeState::Unclear => return false,
            ProbeState::Candidate(leaf) => leaf,
        };
        if !probe.entry.key.matches(leaf.text(), words)
            || is_late(self.core.settle(leaf, LeafLocation::Table(probe.entry.key, probe.hash)), time)
        {
            return false;
        }
        leaf.view().for_each(|value| values.push(value.clone()));
        true
    }
}

/// What a table says about a hash without comparing texts.
#[inline]
fn peek<'g, V: Clone + Send + 'static>(
    table: &'g Table<V>,
    hash: u64,
    time: Time,
    guard: &'g Guard,
) -> ProbeState<'g, V> {
    if is_late(table.dropped(), time) {
        return ProbeState::Unclear;
    }
    let home = table.home(hash);
    for index in home..home + table.capacity() {
        let word = table.load(index, guard);
        if word.is_empty() {
            return ProbeState::Absent;
        }
        if word.is_candidate(hash) {
            let (Slot::Leaf(leaf) | Slot::Frozen(leaf)) = word.decode() else { return ProbeState::Unclear };
            prefetch(leaf.as_ptr());
            prefetch(leaf.as_ptr().wrapping_byte_add(48));
            return ProbeState::Candidate(leaf);
        }
        match word.decode() {
            Slot::Leaf(_) | Slot::Frozen(_) => {}
            Slot::Deleted(removed) if !is_late(removed, time) => {}
            _ => return ProbeState::Unclear,
        }
    }
    ProbeState::Unclear
}
