//! Splits a subject into words and hashes them, in one pass and without allocation.
//!
//! A pattern's hash is a sum over its literal words of a keyed hash of word and position. So the hash that a
//! subject would have under any shape follows from the sums over its first words by one subtraction per
//! wildcard. The keys are random per matcher: without them an attacker cannot choose words that collide.
#![expect(unsafe_code, reason = "arrays on the path of every lookup are not cleared first")]

#[cfg(not(shuttle))]
use std::hash::{BuildHasher, RandomState};
use std::mem::MaybeUninit;

use crate::scan::{Scanner, eight, short};
use crate::subject::Subject;
use crate::{Dialect, Limits, TextError};

/// Patterns with more words than this have no table. Words beyond are counted but not hashed.
pub(crate) const SHAPE_WORDS_MAX: usize = 32;

/// The keys of the hash.
pub(crate) struct Hasher {
    word: u64,
    finish: u64,
    positions: [u64; SHAPE_WORDS_MAX],
}

impl Hasher {
    /// Creates a hasher with random keys.
    pub(crate) fn new() -> Self {
        #[cfg(not(shuttle))]
        let key = {
            let random = RandomState::new();
            move |index: usize| random.hash_one(index) | 1
        };
        // The model checker's own randomness, so that a schedule that has failed can be run once more.
        #[cfg(shuttle)]
        let key = |_: usize| shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng()) | 1;
        Self { word: key(1_000), finish: key(1_001), positions: std::array::from_fn(key) }
    }

    /// Creates a hasher under which all patterns have the same hash.
    #[cfg(test)]
    pub(crate) fn of_nothing() -> Self {
        Self { word: 0, finish: 0, positions: [0; SHAPE_WORDS_MAX] }
    }

    /// The share of a word at a position in the hash of a pattern.
    #[inline]
    fn word(&self, text: &[u8], start: usize, end: usize, position: usize) -> u64 {
        let length = end - start;
        let key = self.positions[position].wrapping_add((length as u64) << 56);
        if length <= 8 {
            return fold(short(text, start, length) ^ self.word, key);
        }
        let mut state = key;
        let mut at = start;
        while at + 8 < end {
            state = fold(eight(text, at) ^ self.word, state ^ self.finish);
            at += 8;
        }
        fold(eight(text, end - 8) ^ self.word, state)
    }

    /// The share of a word at any position.
    pub(crate) fn share(&self, text: &[u8], start: usize, end: usize, position: usize) -> u64 {
        let round = (position / SHAPE_WORDS_MAX) as u64;
        self.word(text, start, end, position % SHAPE_WORDS_MAX).wrapping_mul(2 * round + 1)
    }

    /// The hash of a pattern or of a subject under a shape, from the sum of its words' shares.
    #[inline]
    pub(crate) fn finish(&self, sum: u64) -> u64 {
        fold(sum ^ self.word, self.finish)
    }

    /// The shape and hash of a valid pattern's text.
    pub(crate) fn pattern(&self, dialect: Dialect, text: &[u8]) -> Measured {
        let mut key = ShapeKey { prefix: 0, stars: 0, tail: false };
        let (mut count, mut sum, mut regular) = (0, 0_u64, true);
        let word = |start: usize, end: usize| {
            let wildcard = if end == start + 1 { text[start] } else { b'a' };
            // Nothing may follow a wildcard of any number of words.
            regular &= !key.tail;
            if wildcard == dialect.many() {
                key.tail = true;
            } else if count < SHAPE_WORDS_MAX {
                if wildcard == dialect.one() {
                    key.stars |= 1 << count;
                } else {
                    sum = sum.wrapping_add(self.word(text, start, end, count));
                }
                key.prefix += 1;
            } else {
                regular = false;
            }
            count += 1;
        };
        if !text.is_empty() {
            Scanner::new(dialect).words(text, word);
        }
        Measured { key: regular.then_some(key), hash: self.finish(sum), words: count }
    }

    /// A hash of a whole text, to tell whether it came from this matcher.
    pub(crate) fn text(&self, text: &[u8]) -> u64 {
        self.finish(self.word(text, 0, text.len(), 0))
    }

    /// The hash of a pattern that has a shape.
    pub(crate) fn hash(&self, dialect: Dialect, text: &[u8]) -> u64 {
        self.pattern(dialect, text).hash
    }
}

/// What is derived from a pattern's text.
pub(crate) struct Measured {
    /// Its shape. `None` if it has too many words, or a wildcard of any number of words before the last.
    pub(crate) key: Option<ShapeKey>,
    /// Its hash, if it has a shape.
    pub(crate) hash: u64,
    pub(crate) words: usize,
}

/// The product of two numbers, with its halves combined: every bit of the result depends on every bit of
/// both.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// A subject, validated, split and hashed.
///
/// It is created empty and then filled, so that its arrays are neither cleared nor moved. Entries beyond what
/// was read have no meaning.
pub(crate) struct Words<'a> {
    pub(crate) subject: Subject<'a>,
    /// The number of words; only the first [`SHAPE_WORDS_MAX`] are in the other fields.
    pub(crate) count: usize,
    /// The end of each word.
    ends: [MaybeUninit<u16>; SHAPE_WORDS_MAX],
    /// Each word's share of the hash.
    shares: [MaybeUninit<u64>; SHAPE_WORDS_MAX],
    /// The sum of the shares of all words up to each.
    sums: [MaybeUninit<u64>; SHAPE_WORDS_MAX],
}

impl<'a> Words<'a> {
    /// No words.
    #[inline]
    pub(crate) fn none(dialect: Dialect) -> Self {
        Words {
            subject: Subject::unchecked(dialect, b""),
            count: 0,
            ends: [const { MaybeUninit::uninit() }; SHAPE_WORDS_MAX],
            shares: [const { MaybeUninit::uninit() }; SHAPE_WORDS_MAX],
            sums: [const { MaybeUninit::uninit() }; SHAPE_WORDS_MAX],
        }
    }

    /// Reads a subject.
    #[inline]
    pub(crate) fn read(
        &mut self,
        hasher: &Hasher,
        scanner: Scanner,
        text: &'a [u8],
        limits: &Limits,
    ) -> Result<(), TextError> {
        let dialect = self.subject.dialect();
        self.subject = Subject::unchecked(dialect, text);
        let clean = text.len() <= limits.bytes_max && self.split(hasher, scanner, text);
        if !clean || self.count > limits.words_max {
            // Something is unusual: a full check finds out what, and whether it is an error.
            by_the_book(dialect, text, limits)?;
        }
        Ok(())
    }

    /// Finds the words and hashes them. Returns false if the text may be malformed.
    #[inline]
    fn split(&mut self, hasher: &Hasher, scanner: Scanner, text: &[u8]) -> bool {
        let dialect = self.subject.dialect();
        self.count = 0;
        if text.is_empty() {
            return dialect.empty_text();
        }
        let (mut count, mut sum, mut empty) = (0, 0_u64, false);
        let unusual = scanner.words(text, |start, end| {
            if count < SHAPE_WORDS_MAX {
                let share = hasher.word(text, start, end, count);
                sum = sum.wrapping_add(share);
                self.ends[count].write(end as u16);
                self.shares[count].write(share);
                self.sums[count].write(sum);
            }
            count += 1;
            empty |= end == start;
        });
        self.count = count;
        unusual == 0 && (!empty || dialect.empty_words())
    }

    #[inline]
    fn word_end(&self, position: usize) -> usize {
        assert!(position < self.count);
        // SAFETY: the ends of the first `count` words are written, up to the length of the array.
        usize::from(unsafe { self.ends[position].assume_init() })
    }

    /// The sum of shares under a shape.
    ///
    /// # Safety
    /// The shape fits the number of words.
    #[inline]
    pub(crate) unsafe fn sum(&self, key: ShapeKey) -> u64 {
        let (prefix, mut stars) = (usize::from(key.prefix), key.stars);
        if prefix == 0 {
            return 0;
        }
        debug_assert!(prefix <= self.count && u64::from(stars) >> prefix == 0);
        // SAFETY: shares and sums of the first `count` words are written, up to the length of the arrays; the
        // caller promises that prefix and stars are among them.
        let mut sum = unsafe { self.sums[prefix - 1].assume_init() };
        while stars != 0 {
            let position = stars.trailing_zeros() as usize;
            // SAFETY: as above; a shape's stars are below its prefix.
            sum = sum.wrapping_sub(unsafe { self.shares[position].assume_init() });
            stars &= stars - 1;
        }
        sum
    }

    /// Where the first `prefix` words end.
    #[inline]
    pub(crate) fn end(&self, prefix: usize) -> usize {
        if prefix == 0 { 0 } else { self.word_end(prefix - 1) }
    }

    /// Where a word starts.
    #[inline]
    pub(crate) fn start(&self, position: usize) -> usize {
        if position == 0 { 0 } else { self.word_end(position - 1) + 1 }
    }
}

#[cold]
fn by_the_book(dialect: Dialect, text: &[u8], limits: &Limits) -> Result<(), TextError> {
    Subject::parse(dialect, text, limits).map(|_| ())
}

/// The shape of a pattern that the hash tables can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShapeKey {
    /// Words before the tail wildcard, or all of them.
    pub(crate) prefix: u8,
    /// The positions of one-word wildcards, as bits.
    pub(crate) stars: u32,
    /// Whether a wildcard for any number of words comes last.
    pub(crate) tail: bool,
}

impl ShapeKey {
    /// Reports whether the first word is a wildcard.
    pub(crate) fn starts_wild(&self) -> bool {
        self.stars & 1 == 1 || (self.prefix == 0 && self.tail)
    }

    /// Reports whether a subject of this many words can match.
    pub(crate) fn fits(&self, dialect: Dialect, count: usize) -> bool {
        let prefix = usize::from(self.prefix);
        if self.tail { count >= prefix + dialect.many_min() } else { count == prefix }
    }

    /// Reports whether a pattern's text, which must have this shape, matches a subject that fits this shape.
    #[inline]
    pub(crate) fn matches(&self, text: &[u8], words: &Words<'_>) -> bool {
        let prefix = usize::from(self.prefix);
        let subject = words.subject.as_bytes();
        let end = words.end(prefix);
        if self.stars == 0 && !self.tail {
            return text == subject;
        }
        // Without its tail: `.>` or, if it is the whole text, `>`.
        let tail = if self.tail { 1 + usize::from(prefix > 0) } else { 0 };
        let Some(mut pattern) = text.get(..text.len().wrapping_sub(tail)) else { return false };
        let mut at = 0;
        let mut stars = self.stars;
        while stars != 0 {
            let position = stars.trailing_zeros() as usize;
            stars &= stars - 1;
            let literal = &subject[at..words.start(position)];
            let Some(rest) = pattern.strip_prefix(literal) else { return false };
            let Some((_, rest)) = rest.split_first() else { return false };
            pattern = rest;
            at = words.end(position + 1);
        }
        pattern == &subject[at..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_and_shapes_of_patterns_and_subjects_agree() {
        let hasher = Hasher::new();
        let limits = Limits::default();
        let cases = [
            (Dialect::Nats, "a.bcdefgh.ijklmnopq.rstuvwxyzabcdefghijkl.m", "a.*.ijklmnopq.*.m"),
            (Dialect::Nats, "one.two.three.four", "one.*.>"),
            (Dialect::Nats, "abc", "abc"),
            (Dialect::Nats, "abcdefgh.x", "*.x"),
            (Dialect::Amqp, "", "#"),
            (Dialect::Amqp, "", ""),
            (Dialect::Amqp, "a..b", "a.*.b"),
            (Dialect::Mqtt, "/a/", "+/a/+"),
            (Dialect::Mqtt, "/a/", "/a/#"),
            (Dialect::Mqtt, "a", "a/#"),
        ];
        for (dialect, subject, pattern) in cases {
            let measured = hasher.pattern(dialect, pattern.as_bytes());
            let key = measured.key.expect("it has a shape");
            let mut words = Words::none(dialect);
            words.read(&hasher, Scanner::new(dialect), subject.as_bytes(), &limits).expect("valid");
            assert!(key.fits(dialect, words.count), "{pattern} {subject}");
            // SAFETY: asserted above.
            let sum = unsafe { words.sum(key) };
            assert_eq!(hasher.finish(sum), measured.hash, "{pattern} {subject}");
            assert!(key.matches(pattern.as_bytes(), &words), "{pattern} {subject}");
        }
    }

    #[test]
    fn the_fast_check_lets_nothing_pass_that_the_slow_one_refuses() {
        let hasher = Hasher::new();
        let limits = Limits { words_max: 40, bytes_max: 100, subscriptions_max: 1, ..Limits::default() };
        for dialect in Dialect::ALL {
            for byte in 0..=255_u8 {
                for position in [0, 1, 6, 7, 8, 9, 15, 16] {
                    let mut text = b"abcd.efg.ijklmnop".to_vec();
                    text[position] = byte;
                    let slow = Subject::parse(dialect, &text, &limits).map(|_| ());
                    let fast = Words::none(dialect).read(&hasher, Scanner::new(dialect), &text, &limits);
                    assert_eq!(fast, slow, "{dialect} {byte:#x} at {position}");
                }
            }
            for words in [1, 31, 32, 33, 40, 41, 60] {
                let text = vec!["w"; words].join(if dialect == Dialect::Mqtt { "/" } else { "." });
                let slow = Subject::parse(dialect, text.as_bytes(), &limits).map(|_| ());
                let fast =
                    Words::none(dialect).read(&hasher, Scanner::new(dialect), text.as_bytes(), &limits);
                assert_eq!(fast, slow, "{dialect} {words}");
            }
        }
    }
}
