//! Tracks which messages have arrived: losses, duplicates and reorderings, in memory that does not grow with
//! the run.
//!
//! A window of the latest sequences is a bit map. A sequence that leaves the window unseen is lost for good.
//! One that arrives from before the window can no longer be told from a duplicate, and is counted as
//! `Arrival::Forgotten`.

/// What the arrival of a sequence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It arrived for the first time, and no later one had arrived before it.
    InOrder,
    /// It arrived for the first time, after at most `behind` later sequences.
    Reordered {
        /// Distance to the highest sequence that had arrived.
        behind: u64,
    },
    /// It had arrived before.
    Duplicate,
    /// It is before the window: late or a duplicate.
    Forgotten,
}

/// Tracks the sequences 0, 1, 2, ... of one stream of messages.
#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    seen: Vec<u64>,
    /// The window covers `end - window .. end`.
    end: u64,
    missed: u64,
    /// One more than the highest sequence that has arrived.
    highest_end: u64,
}

const WORD: u64 = u64::BITS as u64;

impl Tracker {
    /// Creates a window of at least `window` sequences, at an eighth of a byte each.
    pub(crate) fn new(window: u64) -> Self {
        let words = window.max(1).div_ceil(WORD);
        Self { seen: vec![0; words as usize], end: words * WORD, missed: 0, highest_end: 0 }
    }

    /// The number of sequences in the window.
    pub(crate) fn window(&self) -> u64 {
        self.seen.len() as u64 * WORD
    }

    /// Records the arrival of `sequence`.
    pub(crate) fn observe(&mut self, sequence: u64) -> Arrival {
        if sequence < self.end - self.window() {
            return Arrival::Forgotten;
        }
        if sequence >= self.end {
            self.slide(sequence);
        }
        let (word, bit) = self.place(sequence);
        if self.seen[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.seen[word] |= bit;
        let highest = self.highest_end.max(sequence + 1);
        let behind = highest - (sequence + 1);
        self.highest_end = highest;
        if behind == 0 { Arrival::InOrder } else { Arrival::Reordered { behind } }
    }

    /// Sequences below `sent` that did not arrive, or arrived too late for the window.
    pub(crate) fn missing(&self, sent: u64) -> u64 {
        let start = self.end - self.window();
        let unseen = (start..self.end.min(sent)).filter(|sequence| {
            let (word, bit) = self.place(*sequence);
            self.seen[word] & bit == 0
        });
        self.missed + unseen.count() as u64 + sent.saturating_sub(self.end)
    }

    /// Moves the window in whole words until it covers `sequence`.
    fn slide(&mut self, sequence: u64) {
        let new_end = (sequence / WORD + 1) * WORD;
        let words = (new_end - self.end) / WORD;
        let cleared = words.min(self.seen.len() as u64);
        for step in 0..cleared {
            let (word, _) = self.place(self.end + step * WORD);
            self.missed += u64::from(self.seen[word].count_zeros());
            self.seen[word] = 0;
        }
        // Sequences that a jump skips were never in the window.
        self.missed += (words - cleared) * WORD;
        self.end = new_end;
    }

    fn place(&self, sequence: u64) -> (usize, u64) {
        let word = (sequence / WORD) as usize % self.seen.len();
        (word, 1 << (sequence % WORD))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_conversation() {
        let mut tracker = Tracker::new(64);
        assert_eq!(tracker.observe(0), Arrival::InOrder);
        assert_eq!(tracker.observe(2), Arrival::InOrder);
        assert_eq!(tracker.observe(1), Arrival::Reordered { behind: 1 });
        assert_eq!(tracker.observe(2), Arrival::Duplicate);
        assert_eq!(tracker.missing(4), 1);
        assert_eq!(tracker.observe(1000), Arrival::InOrder);
        assert_eq!(tracker.observe(3), Arrival::Forgotten);
        assert_eq!(tracker.missing(1001), 997);
    }

    #[test]
    fn a_great_jump_takes_no_time() {
        let mut tracker = Tracker::new(1 << 16);
        assert_eq!(tracker.observe(u64::MAX - 64), Arrival::InOrder);
        assert_eq!(tracker.observe(5), Arrival::Forgotten);
    }

    proptest! {
        /// Within the window it must agree with a set that forgets nothing.
        #[test]
        fn agrees_with_a_set(jumps in proptest::collection::vec((0_u64..40, 0_u64..60), 1..400)) {
            let mut tracker = Tracker::new(256);
            let (mut set, mut next) = (BTreeSet::new(), 0_u64);
            for (forward, back) in jumps {
                next += forward;
                let sequence = next.saturating_sub(back);
                let arrival = tracker.observe(sequence);
                let new = set.insert(sequence);
                prop_assert_eq!(arrival == Arrival::Duplicate, !new, "{} {:?}", sequence, arrival);
                prop_assert_ne!(arrival, Arrival::Forgotten);
            }
            let sent = next + 7;
            prop_assert_eq!(tracker.missing(sent), sent - set.range(..sent).count() as u64);
        }
    }
}
