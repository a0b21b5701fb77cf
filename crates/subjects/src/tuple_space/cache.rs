//! Results of exact subjects, kept by one thread or connection.

use super::TupleSpace;
use super::words::Words;
use crate::TextError;
use crossbeam_epoch as epoch;

/// Lookups after which the cache asks itself whether it helps.
const WINDOW: u32 = 256;
/// It helps if one lookup in so many is a hit.
const WORTH: u32 = 4;
/// Lookups that pass it by when it does not.
const REST: u32 = 16 * WINDOW;

/// Entries that a subject may take.
const WAYS: usize = 4;

/// Remembers what exact subjects matched. Never stale: a result is used only while [`TupleSpace::generation`] stays the same, which costs
/// one load, so a hit is as linearizable as a lookup.
///
/// It watches its own hits: where there are few, because subjects do not repeat or subscriptions change all the time, it
/// steps aside and tries again later.
pub struct Cache<V> {
    sets: Box<[Set<V>]>,
    /// Lookups left in this window, and hits so far; or lookups left to pass by.
    left: u32,
    hits: u32,
    resting: bool,
    spare: Vec<V>,
}

/// The entries of the subjects whose hashes share some bits.
struct Set<V> {
    /// Each entry's hash, so that one cache line tells where to look.
    hashes: [u64; WAYS],
    entries: [Entry<V>; WAYS],
    /// The entry to give up next.
    oldest: usize,
}

struct Entry<V> {
    generation: u64,
    subject: Vec<u8>,
    values: Vec<V>,
}

impl<V: Clone + Send + Sync + 'static> Cache<V> {
    /// A cache for about so many subjects; 512 suit a connection. It has twice as many entries, in sets of four: so subjects
    /// seldom compete. An entry takes 64 bytes, its subject and its values.
    #[must_use]
    pub fn new(subjects: usize) -> Self {
        let entry = |_| Entry { generation: 0, subject: Vec::new(), values: Vec::new() };
        let set = |_| Set { hashes: [0; WAYS], entries: std::array::from_fn(entry), oldest: 0 };
        let sets = (0..(2 * subjects).div_ceil(WAYS).next_power_of_two()).map(set).collect();
        Self { sets, left: WINDOW, hits: 0, resting: false, spare: Vec::new() }
    }

    /// The values of all matching subscriptions. A cache belongs to one matcher: use another one for another matcher.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed.
    #[inline]
    pub fn matches(&mut self, matcher: &TupleSpace<V>, subject: &[u8]) -> Result<&[V], TextError> {
        if self.resting {
            return self.pass_by(matcher, subject);
        }
        let hash = hash(subject);
        let generation = matcher.generation();
        self.left -= 1;
        if self.left == 0 {
            self.judge();
        }
        let index = (hash >> 32) as usize & (self.sets.len() - 1);
        let set = &mut self.sets[index];
        let way = set.hashes.iter().position(|own| *own == hash);
        let way = way.filter(|way| set.entries[*way].subject == subject);
        let way = match way {
            Some(way) if set.entries[way].generation == generation => {
                self.hits += 1;
                way
            }
            way => {
                let mut words = matcher.inner.no_words();
                matcher.inner.read(&mut words, subject)?;
                let way = way.unwrap_or_else(|| set.give_up(hash));
                set.entries[way].fill(matcher, &words);
                way
            }
        };
        Ok(&set.entries[way].values)
    }

    fn pass_by(&mut self, matcher: &TupleSpace<V>, subject: &[u8]) -> Result<&[V], TextError> {
        self.left -= 1;
        if self.left == 0 {
            (self.resting, self.left, self.hits) = (false, WINDOW, 0);
        }
        matcher.matches(subject, &mut self.spare)?;
        Ok(&self.spare)
    }

    #[cold]
    fn judge(&mut self) {
        self.resting = self.hits < WINDOW / WORTH;
        (self.left, self.hits) = (if self.resting { REST } else { WINDOW }, 0);
    }
}

impl<V> Set<V> {
    fn give_up(&mut self, hash: u64) -> usize {
        let way = self.oldest;
        self.oldest = (way + 1) % WAYS;
        self.hashes[way] = hash;
        way
    }
}

impl<V: Clone + Send + Sync + 'static> Entry<V> {
    fn fill(&mut self, matcher: &TupleSpace<V>, words: &Words<'_>) {
        // Nothing can be found here until all of it is new, should a value's clone panic.
        self.generation = 0;
        self.values.clear();
        // The generation is that of the moment which the result shows.
        self.generation = matcher.inner.matches_again(words, &mut self.values, &epoch::pin());
        self.subject.clear();
        self.subject.extend_from_slice(words.subject.as_bytes());
    }
}

/// A quick hash of a whole text. It needs no key: an entry's text is compared, and who makes texts collide only loses hits.
#[inline]
fn hash(text: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, chunk: u64| {
        let product = u128::from(state ^ chunk) * u128::from(K);
        (product as u64) ^ (product >> 64) as u64
    };
    let mut state = text.len() as u64;
    let (chunks, rest) = text.as_chunks::<8>();
    for chunk in chunks {
        state = mix(state, u64::from_le_bytes(*chunk));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state, u64::from_le_bytes(last))
}
