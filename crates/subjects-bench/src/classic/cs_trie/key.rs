//! How a pattern becomes a path: one key per word, and for each key its place in a node.
//!
//! A node has 16 places for words, distinguished by four bits of their hash per split, and one for each
//! wildcard. The first 64 bits come from a fast keyed hash. Words that agree in all of them are distinguished
//! by further rounds of SipHash. So no node needs a list of collisions, and no attacker without the key can
//! build a deep chain of splits.

use std::hash::{BuildHasher, RandomState};

use tailrace_subjects::{Dialect, Pattern};

use super::super::cursor::Words;
use super::bytes::short;

/// Places for words in a node.
const WORD_PLACES_BITS: u32 = 4;
const WORD_PLACES: u32 = 1 << WORD_PLACES_BITS;
/// Splits until a hash is used up.
const DEPTHS_PER_HASH: u32 = u64::BITS / WORD_PLACES_BITS;

/// Place of the wildcard for one word.
pub(super) const ONE: u32 = WORD_PLACES;
/// Place of the wildcard for any number of words.
pub(super) const MANY: u32 = WORD_PLACES + 1;
/// Place of the empty pattern, which has no words; only at the top.
pub(super) const END: u32 = WORD_PLACES + 2;
/// Places of a node.
pub(super) const PLACES: usize = END as usize + 1;

/// One step of a path.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    /// The hash of a literal word; zero for wildcards.
    pub(super) hash: u64,
    /// Its first eight bytes.
    pub(super) first: u64,
    /// The word as in the pattern.
    pub(super) text: &'a [u8],
    fixed_place: Option<u32>,
}

/// The path of a pattern.
pub(super) struct Keys<'a> {
    /// Each key, with the position of its word.
    keys: Vec<(Key<'a>, usize)>,
    hasher: &'a WordHasher,
    text: &'a [u8],
}

impl<'a> Keys<'a> {
    pub(super) fn new(hasher: &'a WordHasher, pattern: &'a Pattern) -> Self {
        let text = pattern.as_bytes();
        let mut position = 0;
        let mut keys = Vec::with_capacity(8);
        for word in Words::new(hasher.dialect, text) {
            keys.push((hasher.pattern_key(word), position));
            position += word.len() + 1;
        }
        if keys.is_empty() {
            keys.push((Key { hash: 0, first: 0, text: &[], fixed_place: Some(END) }, 0));
        }
        Self { keys, hasher, text }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn get(&self, at: usize) -> &Key<'a> {
        &self.keys[at].0
    }

    /// The pattern from this key's word on.
    pub(super) fn rest(&self, at: usize) -> &'a [u8] {
        &self.text[self.keys[at].1..]
    }

    /// The place of a key in a node that is this many splits below its word's start.
    pub(super) fn place(&self, at: usize, depth: u32) -> u32 {
        self.hasher.place_of(self.get(at), depth)
    }

    pub(super) fn hasher(&self) -> &'a WordHasher {
        self.hasher
    }
}

/// The product of two numbers, with its halves combined: every bit of the result depends on every bit of
/// both.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hashes words, with a separate key for each trie.
pub(super) struct WordHasher {
    dialect: Dialect,
    seeds: [u64; 2],
    rounds: RandomState,
}

impl WordHasher {
    pub(super) fn new(dialect: Dialect) -> Self {
        let rounds = RandomState::new();
        Self { dialect, seeds: [0, 1].map(|seed| rounds.hash_one(seed) | 1), rounds }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Reports whether this word of a pattern is a wildcard.
    pub(super) fn is_wildcard(&self, text: &[u8]) -> bool {
        *text == [self.dialect.one()] || *text == [self.dialect.many()]
    }

    /// The key of a pattern's word.
    pub(super) fn pattern_key<'a>(&self, text: &'a [u8]) -> Key<'a> {
        let wildcard = |place| Key { hash: 0, first: u64::from(text[0]), text, fixed_place: Some(place) };
        match text {
            [byte] if *byte == self.dialect.one() => wildcard(ONE),
            [byte] if *byte == self.dialect.many() => wildcard(MANY),
            _ => self.key(text),
        }
    }

    pub(super) fn place_of(&self, key: &Key<'_>, depth: u32) -> u32 {
        key.fixed_place.unwrap_or_else(|| self.place(key.hash, key.text, depth))
    }

    /// The key of a literal word.
    pub(super) fn key<'a>(&self, text: &'a [u8]) -> Key<'a> {
        self.key_in(text, 0, text.len())
    }

    /// The key of a literal word within a text.
    #[inline]
    pub(super) fn key_in<'a>(&self, text: &'a [u8], start: usize, end: usize) -> Key<'a> {
        let first = short(text, start, (end - start).min(8));
        let hash = self.hash(first, &text[start..end]);
        Key { hash, first, text: &text[start..end], fixed_place: None }
    }

    /// Folded multiplication, eight bytes at a time; `first` holds the first eight.
    #[inline]
    fn hash(&self, first: u64, word: &[u8]) -> u64 {
        let mut state = fold(first ^ self.seeds[0], self.seeds[1].wrapping_add((word.len() as u64) << 56));
        let mut at = 8;
        while at < word.len() {
            state = fold(short(word, at, (word.len() - at).min(8)) ^ self.seeds[0], state ^ self.seeds[1]);
            at += 8;
        }
        state
    }

    #[inline]
    pub(super) fn place(&self, hash: u64, text: &[u8], depth: u32) -> u32 {
        let hash =
            if depth < DEPTHS_PER_HASH { hash } else { self.later_hash(text, depth / DEPTHS_PER_HASH) };
        ((hash >> (depth % DEPTHS_PER_HASH * WORD_PLACES_BITS)) as u32) % WORD_PLACES
    }

    #[cold]
    fn later_hash(&self, text: &[u8], round: u32) -> u64 {
        self.rounds.hash_one((round, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_hash_part_in_later_rounds() {
        let hasher = WordHasher::new(Dialect::Nats);
        let parts = |depth| hasher.place(7, b"a", depth) != hasher.place(7, b"b", depth);
        assert!((0..DEPTHS_PER_HASH).all(|depth| !parts(depth)), "the hash is the same");
        // A false alarm has a chance of one in 16^64.
        assert!((DEPTHS_PER_HASH..5 * DEPTHS_PER_HASH).any(parts));
    }

    #[test]
    fn a_word_has_one_key_wherever_it_stands() {
        let hasher = WordHasher::new(Dialect::Nats);
        let word: Vec<u8> = (b'a'..=b'z').collect();
        let mut seen = std::collections::HashSet::new();
        for length in 0..=word.len() {
            let word = &word[..length];
            let alone = hasher.key(word);
            assert!(seen.insert(alone.hash), "{length}");
            for (before, after) in [(0, 1), (1, 0), (7, 7), (20, 20)] {
                let text = [&vec![b'.'; before], word, &vec![b'.'; after]].concat();
                let key = hasher.key_in(&text, before, before + length);
                assert_eq!((key.hash, key.first, key.text), (alone.hash, alone.first, word));
            }
        }
    }
}
