//! Patterns and subjects, generated from a seed, the same here and in `go/workload.go`. Nothing here is
//! timed.
//!
//! **Words.** Each of five positions has its own vocabulary of 64 words of 3 to 8 lower-case letters and
//! digits, 4.9 on average, so a pattern has about 28 bytes. 64^5 is 1.07e9: among a million random patterns
//! about one in a thousand occurs twice.
//!
//! **Patterns.** Five random words; one pattern in ten has `*` at a random position.
//!
//! **Subjects.** Each is drawn from a different pattern, in an order that jumps through the whole set, with
//! its `*` filled by a random word. One in ten then gets a different last word, so that it looks like a hit
//! until its end and nearly always is a miss. So the subjects are unique (except for patterns that occur
//! twice), and nine in ten find at least one subscription.

use crate::random::SplitMix;

/// Words of a subject in every workload except the one of three words.
const POSITIONS: usize = 5;
/// Words of a position's vocabulary.
const VOCABULARY: usize = 64;
/// Lengths of words, each as likely as the others.
const LENGTHS: [usize; 8] = [3, 4, 4, 4, 5, 5, 6, 8];
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// One pattern in this many has a wildcard; one subject in this many misses.
const ONE_IN: usize = 10;
/// Has neither 2 nor 5 as a factor, and the counts of patterns have no others: stepping by it visits all of
/// them.
const STEP: usize = 7_368_787;
/// Words of each position in the set of three words.
const THREE_VOCABULARY: usize = 10;

/// Texts one after another in one allocation, so that they do not disturb what is measured.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    /// Allocates memory for this many texts of 32 bytes.
    #[must_use]
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { bytes: Vec::with_capacity(count * 32), ends: Vec::with_capacity(count) }
    }

    /// The number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reports whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One of the texts.
    ///
    /// # Panics
    /// There are fewer texts.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// All texts.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    fn push(&mut self, words: &[&[u8]]) {
        for (position, word) in words.iter().enumerate() {
            if position > 0 {
                self.bytes.push(b'.');
            }
            self.bytes.extend_from_slice(word);
        }
        self.ends.push(u32::try_from(self.bytes.len()).expect("less than 4 GiB of text"));
    }
}

/// The vocabulary, and the seed of everything drawn from it.
#[derive(Debug)]
pub struct Workload {
    seed: u64,
    words: Vec<Vec<Vec<u8>>>,
}

impl Workload {
    /// Creates the workload of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let words = (0..POSITIONS).map(|_| vocabulary(&mut random)).collect();
        Self { seed, words }
    }

    /// The first `count` patterns: a longer list starts with the shorter one.
    #[must_use]
    pub fn patterns(&self, count: usize) -> Texts {
        let mut random = SplitMix::new(self.seed + 1);
        let mut texts = Texts::with_capacity(count);
        for _ in 0..count {
            let mut words: [&[u8]; POSITIONS] =
                std::array::from_fn(|position| self.word(position, random.below(VOCABULARY)));
            if random.below(ONE_IN) == 0 {
                words[random.below(POSITIONS)] = b"*";
            }
            texts.push(&words);
        }
        texts
    }

    /// `count` subjects that follow the first `of` patterns, starting again after `of`.
    #[must_use]
    pub fn subjects(&self, patterns: &Texts, of: usize, count: usize) -> Texts {
        let mut random = SplitMix::new(self.seed + 2);
        let mut texts = Texts::with_capacity(count);
        for index in 0..count {
            let pattern = patterns.get((index + 1) * STEP % of);
            let mut words: [&[u8]; POSITIONS] = [b""; POSITIONS];
            for (position, word) in pattern.split(|byte| *byte == b'.').enumerate() {
                words[position] =
                    if word == b"*" { self.word(position, random.below(VOCABULARY)) } else { word };
            }
            if random.below(ONE_IN) == 0 {
                words[POSITIONS - 1] = self.word(POSITIONS - 1, random.below(VOCABULARY));
            }
            texts.push(&words);
        }
        texts
    }

    /// The set of three words: for ten words at each position all 1,000 `a.b.c`, all 100 `a.*.c` and all 100
    /// `*.b.c`.
    #[must_use]
    pub fn three_patterns(&self) -> Texts {
        let mut texts = Texts::with_capacity(1_200);
        let mut push = |a: Option<usize>, b: Option<usize>, c| {
            let word =
                |position, index: Option<usize>| index.map_or(&b"*"[..], |index| self.word(position, index));
            texts.push(&[word(0, a), word(1, b), word(2, Some(c))]);
        };
        let all = || (0..THREE_VOCABULARY).flat_map(|x| (0..THREE_VOCABULARY).map(move |y| (x, y)));
        for (a, b) in all() {
            (0..THREE_VOCABULARY).for_each(|c| push(Some(a), Some(b), c));
        }
        all().for_each(|(a, c)| push(Some(a), None, c));
        all().for_each(|(b, c)| push(None, Some(b), c));
        texts
    }

    /// Each of the 1,000 subjects of three words once; each finds three patterns of
    /// [`Workload::three_patterns`].
    #[must_use]
    pub fn three_subjects(&self) -> Texts {
        let count = THREE_VOCABULARY * THREE_VOCABULARY * THREE_VOCABULARY;
        let mut texts = Texts::with_capacity(count);
        for index in 0..count {
            let mixed = (index + 1) * STEP % count;
            let (a, b, c) = (mixed / 100, mixed / 10 % 10, mixed % 10);
            texts.push(&[self.word(0, a), self.word(1, b), self.word(2, c)]);
        }
        texts
    }

    fn word(&self, position: usize, index: usize) -> &[u8] {
        &self.words[position][index]
    }
}

/// Distinct words; a word that is drawn twice is drawn again.
fn vocabulary(random: &mut SplitMix) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::with_capacity(VOCABULARY);
    while words.len() < VOCABULARY {
        let length = LENGTHS[random.below(LENGTHS.len())];
        let word: Vec<u8> = (0..length).map(|_| LETTERS[random.below(LETTERS.len())]).collect();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::random::checksum;

    #[test]
    fn patterns_are_as_described() {
        let patterns = Workload::new(42).patterns(100_000);
        let distinct: HashSet<&[u8]> = patterns.iter().collect();
        assert!(distinct.len() > 99_900, "{}", distinct.len());
        let bytes = patterns.bytes.len() / patterns.len();
        assert!((27..=29).contains(&bytes), "{bytes} bytes");
        let wild = patterns.iter().filter(|text| text.contains(&b'*')).count();
        assert!((9_500..10_500).contains(&wild), "{wild} with a wildcard");
    }

    #[test]
    fn subjects_are_unique_and_hit() {
        let workload = Workload::new(42);
        let patterns = workload.patterns(10_000);
        let subjects = workload.subjects(&patterns, 10_000, 10_000);
        let known: HashSet<&[u8]> = patterns.iter().collect();
        let unique: HashSet<&[u8]> = subjects.iter().collect();
        assert!(unique.len() > 9_990, "{} are unique", unique.len());
        let literal = subjects.iter().filter(|text| known.contains(text)).count();
        assert!((8_000..8_300).contains(&literal), "{literal} hit a pattern without wildcard");
    }

    #[test]
    fn the_three_word_set_is_whole() {
        let workload = Workload::new(1);
        let patterns = workload.three_patterns();
        assert_eq!(patterns.iter().collect::<HashSet<_>>().len(), 1_200);
        assert_eq!(workload.three_subjects().iter().collect::<HashSet<_>>().len(), 1_000);
    }

    /// The Go program prints the same: `go test` in `go/`.
    #[test]
    fn the_texts_are_those_of_the_go_program() {
        let workload = Workload::new(42);
        let patterns = workload.patterns(1_000);
        let subjects = workload.subjects(&patterns, 1_000, 1_000);
        let sums = [
            checksum(patterns.iter()),
            checksum(subjects.iter()),
            checksum(workload.three_subjects().iter()),
        ];
        assert_eq!(
            sums.map(|sum| format!("{sum:016x}")),
            ["98c2c94ac4cb43c3", "c4833877c4cfd69e", "b61a20c77500c3c7"]
        );
    }
}
