//! Results of exact subjects, kept by one thread or connection.

use crossbeam_epoch as epoch;

use super::TupleSpace;
use super::words::Words;
use crate::TextError;
use crate::scan::{eight, short};

/// Lookups after which the cache asks itself whether it helps.
const WINDOW: u32 = 128;
/// It helps if one lookup in so many is a hit.
const WORTH: u32 = 3;
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
    /// Some bits of each entry's hash, by set: they tell which entry to look at without touching the others.
    tags: Box<[[u16; WAYS]]>,
    entries: Box<[Entry<V>]>,
    /// The entry of a set to give up next.
    turn: usize,
    /// Lookups left in this window, and hits so far; or lookups left to pass by.
    left: u32,
    hits: u32,
    resting: bool,
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
            tags: vec![[0; WAYS]; sets].into_boxed_slice(),
            entries: (0..sets * WAYS).map(entry).collect(),
            turn: 0,
            left: WINDOW,
            hits: 0,
            resting: false,
            spare: Vec::new(),
        }
    }

    /// The values of all matching subscriptions. A cache belongs to one matcher: use another one for another matcher.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed.
    #[inline]
    pub fn matches(&mut self, matcher: &TupleSpace<V>, subject: &[u8]) -> Result<&[V], TextError> {
        self.left -= 1;
        if self.left == 0 {
            self.judge();
        }
        if self.resting || subject.len() > SUBJECT_BYTES {
            return self.pass_by(matcher, subject);
        }
        let hash = hash(subject);
        let set = (hash >> 32) as usize & (self.tags.len() - 1);
        let tag = hash as u16;
        let mut way = self.tags[set].iter().position(|own| *own == tag);
        if let Some(at) = way {
            let entry = &self.entries[set * WAYS + at];
            if entry.subject() == subject {
                if entry.generation == matcher.generation() {
                    self.hits += 1;
                    return Ok(self.entries[set * WAYS + at].values());
                }
            } else {
                // Two subjects of a set with the same tag: they share one entry.
                way = Some(at);
            }
        }
        self.fill(matcher, set, way, tag, subject)
    }

    fn fill(
        &mut self,
        matcher: &TupleSpace<V>,
        set: usize,
        way: Option<usize>,
        tag: u16,
        subject: &[u8],
    ) -> Result<&[V], TextError> {
        let mut words = matcher.inner.no_words();
        matcher.inner.read(&mut words, subject)?;
        let way = way.unwrap_or_else(|| {
            self.turn = (self.turn + 1) % WAYS;
            self.turn
        });
        self.tags[set][way] = tag;
        let entry = &mut self.entries[set * WAYS + way];
        entry.fill(matcher, &words);
        Ok(entry.values())
    }

    #[inline(never)]
    fn pass_by(&mut self, matcher: &TupleSpace<V>, subject: &[u8]) -> Result<&[V], TextError> {
        matcher.matches(subject, &mut self.spare)?;
        Ok(&self.spare)
    }

    #[cold]
    fn judge(&mut self) {
        self.resting = !self.resting && self.hits < WINDOW / WORTH;
        (self.left, self.hits) = (if self.resting { REST } else { WINDOW }, 0);
    }
}

impl<V: Clone + Send + Sync + 'static> Entry<V> {
    #[inline]
    fn subject(&self) -> &[u8] {
        &self.subject[..self.length as usize]
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
