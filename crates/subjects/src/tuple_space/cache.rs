//! Results of exact subjects, kept by one thread or connection.

use crossbeam_epoch as epoch;

use super::TupleSpace;
use super::words::Words;
use crate::TextError;
use crate::scan::{eight, short};

/// Misses after which the cache asks itself whether it helps.
const WINDOW: u32 = 96;
/// It helps if one lookup in three is a hit: so many hits for those misses.
const WORTH: u32 = WINDOW / 2;
/// Lookups that pass it by when it does not.
const REST: u32 = 64 * WINDOW;
/// Entries that a subject may take.
const WAYS: usize = 4;
/// Bytes of the longest subject that is kept: with what is beside it, a cache line.
const SUBJECT_BYTES: usize = 48;

/// Remembers what exact subjects matched. Never stale: a result is used only while [`TupleSpace::generation`] stays the same, which costs
/// one load, so a hit is as linearizable as a lookup.
///
/// It watches its own hits: where there are few, because subjects do not repeat or subscriptions change all the time, it
/// steps aside and tries again later. Subjects of more than 48 bytes are looked up each time.
pub struct Cache<V> {
    /// Sixteen bits of each entry's hash, by set: they tell which entry to look at without touching the others.
    tags: Box<[u64]>,
    entries: Box<[Entry<V>]>,
    /// The entry of a set to give up next.
    turn: usize,
    /// In this window.
    hits: u32,
    misses: u32,
    /// Lookups left to pass by.
    rest: u32,
    spare: Vec<V>,
}

#[repr(C, align(64))]
struct Entry<V> {
    generation: u64,
    length: u64,
    subject: [u8; SUBJECT_BYTES],
    /// The result, if it is one value; else it is in `values`.
    only: Option<V>,
    values: Vec<V>,
}

impl<V: Clone + Send + Sync + 'static> Cache<V> {
    /// A cache for about so many subjects; 512 suit a connection. It has twice as many entries, in sets of four: so subjects
    /// seldom compete. An entry takes 128 bytes with values of up to 16.
    #[must_use]
    pub fn new(subjects: usize) -> Self {
        let entry = |_| Entry {
            generation: 0,
            length: 0,
            subject: [0; SUBJECT_BYTES],
            only: None,
            values: Vec::new(),
        };
        let sets = (2 * subjects).div_ceil(WAYS).next_power_of_two();
        Self {
            tags: vec![0; sets].into_boxed_slice(),
            entries: (0..sets * WAYS).map(entry).collect(),
            turn: 0,
            hits: 0,
            misses: 0,
            rest: 0,
            spare: Vec::new(),
        }
    }

    /// The values of all matching subscriptions. A cache belongs to one matcher: use another one for another matcher.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed.
    #[inline]
    pub fn matches(&mut self, matcher: &TupleSpace<V>, subject: &[u8]) -> Result<&[V], TextError> {
        if self.rest == 0 {
            let hash = hash(subject);
            let set = self.set(hash);
            if let Some(way) = way_of(self.tags[set], hash) {
                let index = set * WAYS + way;
                let entry = &self.entries[index];
                if entry.is_of(subject) && entry.generation == matcher.generation() {
                    self.hits += 1;
                    return Ok(self.entries[index].values());
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
            self.rest = if self.hits < WORTH { REST } else { 0 };
            (self.hits, self.misses) = (0, 0);
        }
        let mut words = matcher.inner.no_words();
        matcher.inner.read(&mut words, subject)?;
        let hash = hash(subject);
        let set = self.set(hash);
        // Two subjects of a set with the same tag share one entry.
        let way = way_of(self.tags[set], hash).unwrap_or_else(|| {
            self.turn = (self.turn + 1) % WAYS;
            self.turn
        });
        let lane = 16 * way;
        self.tags[set] = self.tags[set] & !(0xffff << lane) | (hash & 0xffff) << lane;
        let entry = &mut self.entries[set * WAYS + way];
        entry.fill(matcher, &words);
        Ok(entry.values())
    }
}

/// Which of four tags is that of the hash: the first lane that is zero after taking the difference.
#[inline]
fn way_of(tags: u64, hash: u64) -> Option<usize> {
    const ONES: u64 = 0x0001_0001_0001_0001;
    const HIGHS: u64 = 0x8000_8000_8000_8000;
    let difference = tags ^ ((hash & 0xffff) * ONES);
    let zeros = difference.wrapping_sub(ONES) & !difference & HIGHS;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 16)
}

impl<V: Clone + Send + Sync + 'static> Entry<V> {
    /// Whether it holds this subject, of at most [`SUBJECT_BYTES`] bytes. Eight bytes at a time, without the call that comparing
    /// slices would be.
    #[inline]
    fn is_of(&self, subject: &[u8]) -> bool {
        let length = subject.len();
        if self.length != length as u64 {
            return false;
        }
        if length < 8 {
            return short(&self.subject, 0, length) == short(subject, 0, length);
        }
        let last = length - 8;
        let mut at = 0;
        while at < last {
            if eight(&self.subject, at) != eight(subject, at) {
                return false;
            }
            at += 8;
        }
        eight(&self.subject, last) == eight(subject, last)
    }

    #[inline]
    fn values(&self) -> &[V] {
        match &self.only {
            Some(only) => std::slice::from_ref(only),
            None => &self.values,
        }
    }

    fn fill(&mut self, matcher: &TupleSpace<V>, words: &Words<'_>) {
        // Nothing can be found here until all of it is new, should a value's clone panic.
        self.generation = 0;
        self.only = None;
        self.values.clear();
        // The generation is that of the moment which the result shows.
        let generation = matcher.inner.matches_again(words, &mut self.values, &epoch::pin());
        if self.values.len() == 1 {
            self.only = self.values.pop();
        }
        let subject = words.subject.as_bytes();
        self.length = subject.len() as u64;
        self.subject[..subject.len()].copy_from_slice(subject);
        self.generation = generation;
    }
}

/// A quick hash of a text of up to [`SUBJECT_BYTES`] bytes: its halves side by side, so that the multiplications overlap. It needs no key: an
/// entry's text is compared, and who makes texts collide only loses hits.
#[inline]
fn hash(text: &[u8]) -> u64 {
    const A: u64 = 0x9e37_79b9_7f4a_7c15;
    const B: u64 = 0xc2b2_ae3d_27d4_eb4f;
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ (product >> 64) as u64
    };
    let length = text.len();
    if length < 16 {
        let low = short(text, 0, length.min(8));
        let high = if length > 8 { eight(text, length - 8) } else { 0 };
        return mix(low ^ A, high ^ B ^ length as u64);
    }
    let ends = mix(eight(text, 0) ^ A, eight(text, length - 8) ^ B);
    let inner = mix(eight(text, 8) ^ B, eight(text, length - 16) ^ A ^ length as u64);
    if length <= 32 {
        return ends ^ inner.rotate_left(32);
    }
    ends ^ inner.rotate_left(32) ^ mix(eight(text, 16) ^ A, eight(text, length - 24) ^ B)
}
