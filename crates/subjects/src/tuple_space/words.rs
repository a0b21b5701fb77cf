//! Splits a subject into words and hashes them, in one pass and without allocation.
//!
//! A pattern's hash is a sum over its literal words of a keyed hash of word and position. So the hash that a
//! subject would have under any shape follows from the sums over its first words by one subtraction per wildcard. The keys are random
//! per matcher: who does not know them cannot choose words that collide.

use std::hash::{BuildHasher, RandomState};

use crate::pattern::{PatternWord, words};
use crate::subject::Subject;
use crate::{Dialect, Limits, TextError};

/// Patterns with more words than this are kept in the trie. Words beyond are counted but not hashed.
pub(crate) const SHAPE_WORDS_MAX: usize = 32;

/// The keys of the hash.
pub(crate) struct Hasher {
    word: u64,
    finish: u64,
    positions: [u64; SHAPE_WORDS_MAX],
}

impl Hasher {
    /// With random keys.
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        let key = |index: usize| random.hash_one(index) | 1;
        Self { word: key(1_000), finish: key(1_001), positions: std::array::from_fn(key) }
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

    /// The hash of a pattern or of a subject under a shape, from the sum of its words' shares.
    #[inline]
    pub(crate) fn finish(&self, sum: u64) -> u64 {
        fold(sum ^ self.word, self.finish)
    }

    /// The hash of a pattern, which must have a shape.
    pub(crate) fn pattern(&self, dialect: Dialect, text: &[u8]) -> u64 {
        let mut sum = 0_u64;
        let mut start = 0;
        for (position, word) in words(dialect, text).enumerate() {
            start += match word {
                PatternWord::Literal(word) => {
                    sum = sum.wrapping_add(self.word(text, start, start + word.len(), position));
                    word.len() + 1
                }
                PatternWord::One | PatternWord::Many => 2,
            };
        }
        self.finish(sum)
    }
}

/// The product of two numbers, its halves joined: every bit of the result depends on every bit of both.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[inline]
fn eight(text: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&text[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// At most eight bytes as a number; reads eight where the text has them.
#[inline]
fn short(text: &[u8], start: usize, length: usize) -> u64 {
    let mask = if length == 0 { 0 } else { u64::MAX >> (64 - 8 * length) };
    if start + 8 <= text.len() {
        eight(text, start) & mask
    } else if text.len() >= 8 {
        let past = start + 8 - text.len();
        (eight(text, text.len() - 8) >> (8 * past as u32).min(63)) & mask
    } else {
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(&text[start..start + length]);
        u64::from_le_bytes(bytes)
    }
}

/// A subject, checked, split and hashed.
pub(crate) struct Words<'a> {
    pub(crate) subject: Subject<'a>,
    /// How many words there are; only the first [`SHAPE_WORDS_MAX`] are in the other fields.
    pub(crate) count: usize,
    /// Where each word ends.
    ends: [u16; SHAPE_WORDS_MAX],
    /// Each word's share of the hash.
    shares: [u64; SHAPE_WORDS_MAX],
    /// The sum of the shares of so many first words.
    sums: [u64; SHAPE_WORDS_MAX + 1],
}

impl<'a> Words<'a> {
    #[inline]
    pub(crate) fn parse(
        hasher: &Hasher,
        dialect: Dialect,
        text: &'a [u8],
        limits: &Limits,
    ) -> Result<Self, TextError> {
        let mut this = Words {
            subject: Subject::unchecked(dialect, text),
            count: 0,
            ends: [0; SHAPE_WORDS_MAX],
            shares: [0; SHAPE_WORDS_MAX],
            sums: [0; SHAPE_WORDS_MAX + 1],
        };
        if text.len() > limits.bytes_max {
            return Err(TextError::TooLong { bytes: text.len(), bytes_max: limits.bytes_max });
        }
        let clean = this.split(dialect, text);
        if !clean || this.count > limits.words_max {
            // Something is unusual: find out by the book what it is, if it is wrong at all.
            Subject::parse(dialect, text, limits)?;
        }
        this.hash(hasher, text);
        Ok(this)
    }

    /// Finds the words; false if the text may be malformed.
    #[inline]
    fn split(&mut self, dialect: Dialect, text: &[u8]) -> bool {
        if text.is_empty() {
            return dialect.empty_text();
        }
        let separator = dialect.separator();
        let mut suspicious = 0_u64;
        let (mut count, mut start, mut empty) = (0, 0, false);
        let mut push = |end: usize| {
            if count < SHAPE_WORDS_MAX {
                self.ends[count] = end as u16;
            }
            empty |= end == start;
            start = end + 1;
            count += 1;
        };
        let mut at = 0;
        while at < text.len() {
            let left = text.len() - at;
            // The padding is a letter: neither a separator nor suspicious.
            let chunk =
                if left >= 8 { eight(text, at) } else { short(text, at, left) | PADDING << (8 * left) };
            suspicious |= unusual(dialect, chunk);
            let mut separators = equal(chunk, separator);
            while separators != 0 {
                push(at + separators.trailing_zeros() as usize / 8);
                separators &= separators - 1;
            }
            at += 8;
        }
        push(text.len());
        self.count = count;
        suspicious == 0 && (!empty || dialect.empty_words())
    }

    #[inline]
    fn hash(&mut self, hasher: &Hasher, text: &[u8]) {
        let mut start = 0;
        let mut sum = 0_u64;
        for position in 0..self.count.min(SHAPE_WORDS_MAX) {
            let end = usize::from(self.ends[position]);
            let share = hasher.word(text, start, end, position);
            sum = sum.wrapping_add(share);
            self.shares[position] = share;
            self.sums[position + 1] = sum;
            start = end + 1;
        }
    }

    /// The sum of shares under a shape: the first `prefix` words without those at `stars`.
    #[inline]
    pub(crate) fn sum(&self, prefix: usize, mut stars: u32) -> u64 {
        let mut sum = self.sums[prefix];
        while stars != 0 {
            sum = sum.wrapping_sub(self.shares[stars.trailing_zeros() as usize]);
            stars &= stars - 1;
        }
        sum
    }

    /// Where the first `prefix` words end.
    #[inline]
    pub(crate) fn end(&self, prefix: usize) -> usize {
        if prefix == 0 { 0 } else { usize::from(self.ends[prefix - 1]) }
    }

    /// Where a word starts.
    #[inline]
    pub(crate) fn start(&self, position: usize) -> usize {
        if position == 0 { 0 } else { usize::from(self.ends[position - 1]) + 1 }
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
/// The letter `a` in every byte.
const PADDING: u64 = b'a' as u64 * ONES;

/// The high bit of each byte that equals `byte`, exactly.
#[inline]
fn equal(chunk: u64, byte: u8) -> u64 {
    let zeros = chunk ^ (ONES * u64::from(byte));
    !(((zeros & !HIGHS) + !HIGHS) | zeros) & HIGHS
}

/// Not zero if a byte is not ASCII, forbidden, or a wildcard where subjects must not hold one; may also be so for others.
#[inline]
fn unusual(dialect: Dialect, chunk: u64) -> u64 {
    let below = |limit: u8| chunk.wrapping_sub(ONES * u64::from(limit)) & HIGHS;
    let common = (chunk & HIGHS) | equal(chunk, 0x7f);
    common
        | match dialect {
            Dialect::Nats => below(b' ' + 1),
            Dialect::Amqp => below(1),
            Dialect::Mqtt => below(b' ') | equal(chunk, dialect.one()) | equal(chunk, dialect.many()),
        }
}

/// The shape of a pattern that the hash tables can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShapeKey {
    /// Words before the tail wildcard, or all of them.
    pub(crate) prefix: u8,
    /// The positions of one-word wildcards, as bits.
    pub(crate) stars: u32,
    /// Whether a wildcard for any number of words stands last.
    pub(crate) tail: bool,
}

impl ShapeKey {
    /// The shape of a pattern; `None` if it has too many words, or a wildcard of any number of words before the last.
    pub(crate) fn of(dialect: Dialect, text: &[u8]) -> Option<Self> {
        let mut key = Self { prefix: 0, stars: 0, tail: false };
        for word in words(dialect, text) {
            if key.tail {
                return None;
            }
            match word {
                PatternWord::Many => key.tail = true,
                _ if usize::from(key.prefix) == SHAPE_WORDS_MAX => return None,
                PatternWord::One => {
                    key.stars |= 1 << key.prefix;
                    key.prefix += 1;
                }
                PatternWord::Literal(_) => key.prefix += 1,
            }
        }
        Some(key)
    }

    /// Whether the first word is a wildcard.
    pub(crate) fn starts_wild(&self) -> bool {
        self.stars & 1 == 1 || (self.prefix == 0 && self.tail)
    }

    /// Whether a subject of so many words can match.
    pub(crate) fn fits(&self, dialect: Dialect, count: usize) -> bool {
        let prefix = usize::from(self.prefix);
        if self.tail { count >= prefix + dialect.many_min() } else { count == prefix }
    }

    /// Whether a pattern's text, which must have this shape, matches a subject that this shape fits.
    #[inline]
    pub(crate) fn matches(&self, text: &[u8], words: &Words<'_>) -> bool {
        let prefix = usize::from(self.prefix);
        let subject = words.subject.as_bytes();
        let end = words.end(prefix);
        if self.stars == 0 && !self.tail {
            return text == subject;
        }
        // Without its tail: `.>` or, as the whole text, `>`.
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
            let key = ShapeKey::of(dialect, pattern.as_bytes()).expect("it has a shape");
            let words = Words::parse(&hasher, dialect, subject.as_bytes(), &limits).expect("valid");
            assert!(key.fits(dialect, words.count), "{pattern} {subject}");
            let sum = words.sum(usize::from(key.prefix), key.stars);
            assert_eq!(
                hasher.finish(sum),
                hasher.pattern(dialect, pattern.as_bytes()),
                "{pattern} {subject}"
            );
            assert!(key.matches(pattern.as_bytes(), &words), "{pattern} {subject}");
        }
    }

    #[test]
    fn the_fast_check_lets_nothing_pass_that_the_slow_one_refuses() {
        let hasher = Hasher::new();
        let limits = Limits { words_max: 40, bytes_max: 100, subscriptions_max: 1 };
        for dialect in Dialect::ALL {
            for byte in 0..=255_u8 {
                for position in [0, 1, 6, 7, 8, 9, 15, 16] {
                    let mut text = b"abcd.efg.ijklmnop".to_vec();
                    text[position] = byte;
                    let slow = Subject::parse(dialect, &text, &limits).map(|_| ());
                    let fast = Words::parse(&hasher, dialect, &text, &limits).map(|_| ());
                    assert_eq!(fast, slow, "{dialect} {byte:#x} at {position}");
                }
            }
            for words in [1, 31, 32, 33, 40, 41, 60] {
                let text = vec!["w"; words].join(if dialect == Dialect::Mqtt { "/" } else { "." });
                let slow = Subject::parse(dialect, text.as_bytes(), &limits).map(|_| ());
                let fast = Words::parse(&hasher, dialect, text.as_bytes(), &limits).map(|_| ());
                assert_eq!(fast, slow, "{dialect} {words}");
            }
        }
    }
}
