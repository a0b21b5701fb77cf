//! Results for exact subjects, cached by one thread or connection.

use super::TupleSpace;
use super::epoch;
use super::words::Words;
use crate::TextError;
use crate::scan::{eight, short};

/// Misses after which the cache checks whether it helps.
const WINDOW: u32 = 96;
/// It helps if one lookup in three is a hit: this many hits for those misses.
const WORTH: u64 = WINDOW as u64 / 2;
/// Lookups that bypass it if it does not help.
const REST: u32 = 64 * WINDOW;
/// Entries that a subject may be in.
const WAYS: usize = 4;
/// Most values of a result to cache. Compared with the work on more values, another lookup is cheap, and
/// their memory would be unbounded.
const VALUES_MAX: usize = 64;
/// Longest subject to cache, in bytes.
const SUBJECT_BYTES: usize = 256;

/// Most subjects of a cache, about 224 MB: more are of no use to one thread.
const SUBJECTS_MAX: usize = 1 << 20;

/// Remembers the matches of exact subjects. It is never stale: a result is used only while
/// [`TupleSpace::generation`] stays the same, which costs one load. So a hit is as linearizable as a lookup.
///
/// It watches its own hits. If there are few, because subjects do not repeat or subscriptions change all the
/// time, it steps aside and tries again later. Subjects of more than 256 bytes, and those with more than 64
/// values, are looked up each time.
pub struct Cache<V> {
    /// Sixteen bits of each entry's hash, by set. They show which entry to check without touching the others.
    tags: Box<[u64]>,
    entries: Box<[Entry<V>]>,
    /// The rest of each entry, which few hits need.
    rest_of: Box<[Rest<V>]>,
    /// The entry of a set to evict next.
    turn: usize,
    /// Hits since the start, and up to this window.
    hits: u64,
    hits_before: u64,
    /// Misses in this window.
    misses: u32,
    /// Lookups left that bypass it.
    rest: u32,
    spare: Vec<V>,
}

/// One cache line, if values are small.
#[repr(C, align(64))]
struct Entry<V> {
    generation: u64,
    /// The result, if it is a single value. Otherwise it is in [`Rest`].
    only: Option<V>,
    key: Key,
}

struct Rest<V> {
    /// The subject, if its key does not hold all of it.
    subject: Vec<u8>,
    /// The result, if it is not a single value.
    values: Vec<V>,
}

/// The first and the last sixteen bytes of a subject, and its length: all of it up to 32 bytes. The fields
/// are separate so that they stay in registers. An array would be stored and read again in larger pieces, for
/// which the processor has to wait.
#[derive(Clone, Copy)]
struct Key {
    first: u64,
    second: u64,
    last_but_one: u64,
    last: u64,
    length: u64,
}

impl Key {
    const NONE: Self = Self { first: 0, second: 0, last_but_one: 0, last: 0, length: u64::MAX };
    /// Bytes of the longest subject that a key holds.
    const WHOLE: usize = 32;

    #[inline(always)]
    fn of(text: &[u8]) -> Self {
        let length = text.len();
        let mut key = Self { length: length as u64, ..Self::NONE };
        if length >= 16 {
            (key.first, key.second) = (eight(text, 0), eight(text, 8));
            (key.last_but_one, key.last) = (eight(text, length - 16), eight(text, length - 8));
        } else if length >= 8 {
            (key.first, key.second) = (eight(text, 0), eight(text, length - 8));
        } else {
            key.first = short(text, 0, length);
        }
        key
    }

    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        let first = (self.first ^ other.first) | (self.second ^ other.second);
        let last = (self.last_but_one ^ other.last_but_one) | (self.last ^ other.last);
        first | last | (self.length ^ other.length) == 0
    }

    /// A quick hash of both halves side by side, so that the multiplications overlap. It needs no secret:
    /// subjects are compared, and an attacker who makes them collide only loses hits.
    #[inline(always)]
    fn hash(&self) -> u64 {
        const A: u64 = 0x9e37_79b9_7f4a_7c15;
        const B: u64 = 0xc2b2_ae3d_27d4_eb4f;
        let mix = |a: u64, b: u64| {
            let product = u128::from(a ^ A) * u128::from(b ^ B);
            (product as u64) ^ (product >> 64) as u64
        };
        mix(self.first, self.second) ^ mix(self.last_but_one ^ self.length, self.last).rotate_left(32)
    }
}

impl<V: Clone + Send + Sync + 'static> Cache<V> {
    /// Creates a cache for about this many subjects; 512 suit a connection. It has twice as many entries, in
    /// sets of four, so that subjects seldom compete. An entry takes 112 bytes with values of up to 8. Longer
    /// subjects, and results of several values (at most 64), take extra memory. The number of subjects is
    /// clamped to 2^20.
    #[must_use]
    pub fn new(subjects: usize) -> Self {
        let entry = |_| Entry { generation: 0, only: None, key: Key::NONE };
        let rest = |_| Rest { subject: Vec::new(), values: Vec::new() };
        let sets = (2 * subjects.min(SUBJECTS_MAX)).div_ceil(WAYS).next_power_of_two();
        Self {
            tags: vec![0; sets].into_boxed_slice(),
            entries: (0..sets * WAYS).map(entry).collect(),
            rest_of: (0..sets * WAYS).map(rest).collect(),
            turn: 0,
            hits: 0,
            hits_before: 0,
            misses: 0,
            rest: 0,
            spare: Vec::new(),
        }
    }

    /// Lookups answered from the cache so far.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Takes the result of the last lookup if it was too large to cache. Empty otherwise.
    #[must_use]
    pub fn take(&mut self) -> Vec<V> {
        std::mem::take(&mut self.spare)
    }

    /// The values of all matching subscriptions. A cache belongs to one matcher: use a different cache for
    /// another matcher.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed.
    #[inline]
    pub fn matches(&mut self, matcher: &TupleSpace<V>, subject: &[u8]) -> Result<&[V], TextError> {
        if self.rest == 0 {
            let key = Key::of(subject);
            let hash = key.hash();
            let set = self.set(hash);
            if let Some(way) = way_of(self.tags[set], hash) {
                let index = set * WAYS + way;
                let entry = &self.entries[index];
                let whole = || subject.len() <= Key::WHOLE || self.rest_of[index].subject == subject;
                if entry.key.is(&key) && entry.generation == matcher.generation() && whole() {
                    self.hits += 1;
                    return Ok(self.values(index));
                }
            }
        }
        self.miss(matcher, subject)
    }

    #[inline]
    fn set(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.tags.len() - 1)
    }

    #[inline(never)]
    fn miss(&mut self, matcher: &TupleSpace<V>, subject: &[u8]) -> Result<&[V], TextError> {
        if self.rest > 0 || subject.len() > SUBJECT_BYTES {
            self.rest = self.rest.saturating_sub(1);
            matcher.matches(subject, &mut self.spare)?;
            return Ok(&self.spare);
        }
        self.misses += 1;
        if self.misses == WINDOW {
            self.rest = if self.hits - self.hits_before < WORTH { REST } else { 0 };
            (self.hits_before, self.misses) = (self.hits, 0);
        }
        let mut words = matcher.inner.no_words();
        matcher.inner.read(&mut words, subject)?;
        let hash = Key::of(subject).hash();
        let set = self.set(hash);
        // Two subjects of a set with the same tag share one entry.
        let way = way_of(self.tags[set], hash).unwrap_or_else(|| {
            self.turn = (self.turn + 1) % WAYS;
            self.turn
        });
        let lane = 16 * way;
        self.tags[set] = self.tags[set] & !(0xffff << lane) | (hash & 0xffff) << lane;
        let index = set * WAYS + way;
        self.fill(index, matcher, &words);
        if self.rest_of[index].values.len() > VALUES_MAX {
            self.spare = std::mem::take(&mut self.rest_of[index].values);
            self.entries[index].generation = 0;
            return Ok(&self.spare);
        }
        Ok(self.values(index))
    }

    #[inline]
    fn values(&self, index: usize) -> &[V] {
        match &self.entries[index].only {
            Some(only) => std::slice::from_ref(only),
            None => &self.rest_of[index].values,
        }
    }

    fn fill(&mut self, index: usize, matcher: &TupleSpace<V>, words: &Words<'_>) {
        let (entry, rest) = (&mut self.entries[index], &mut self.rest_of[index]);
        // Invalidates the entry until all of it is new, in case a value's clone panics.
        entry.generation = 0;
        entry.only = None;
        rest.values.clear();
        // The generation is that of the moment that the result shows.
        let generation = matcher.inner.matches_again(words, &mut rest.values, &epoch::pin());
        if rest.values.len() == 1 {
            entry.only = rest.values.pop();
        }
        let subject = words.subject.as_bytes();
        entry.key = Key::of(subject);
        rest.subject.clear();
        if subject.len() > Key::WHOLE {
            rest.subject.extend_from_slice(subject);
        }
        entry.generation = generation;
    }
}

/// Which of four tags equals that of the hash: the first lane that is zero after taking the difference.
#[inline]
fn way_of(tags: u64, hash: u64) -> Option<usize> {
    const ONES: u64 = 0x0001_0001_0001_0001;
    const HIGHS: u64 = 0x8000_8000_8000_8000;
    let difference = tags ^ ((hash & 0xffff) * ONES);
    let zeros = difference.wrapping_sub(ONES) & !difference & HIGHS;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 16)
}
