//! Which messages a table has lost lately. Consumers look whether that concerns them.

use std::collections::VecDeque;

/// Removals that are remembered, 8 bytes each. Who is further behind looks at everything again.
const REMEMBERED: usize = 4_096;

/// The messages that a table has lost.
#[derive(Default)]
pub(super) struct Removals {
    count: u64,
    recent: VecDeque<u64>,
}

impl Removals {
    /// Notes that a message is gone.
    pub(super) fn note(&mut self, seq: u64) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(seq);
        self.count += 1;
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The highest sequence that was removed since there were `seen`. The highest of all if that is not
    /// known.
    pub(super) fn highest_since(&self, seen: Option<u64>) -> Option<u64> {
        let Some(news) = seen.and_then(|seen| usize::try_from(self.count.checked_sub(seen)?).ok()) else {
            return Some(u64::MAX);
        };
        match self.recent.len().checked_sub(news) {
            Some(known) => self.recent.iter().skip(known).max().copied(),
            None => Some(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_removal_since_a_look_is_known_or_taken_for_the_highest_of_all() {
        let mut removals = Removals::default();
        assert_eq!(removals.highest_since(Some(0)), None);
        assert_eq!(removals.highest_since(None), Some(u64::MAX));
        removals.note(7);
        removals.note(3);
        assert_eq!((removals.highest_since(Some(0)), removals.highest_since(Some(1))), (Some(7), Some(3)));
        assert_eq!(removals.highest_since(Some(2)), None);
        (0..REMEMBERED as u64).for_each(|seq| removals.note(seq));
        assert_eq!(removals.highest_since(Some(1)), Some(u64::MAX));
        assert_eq!(removals.highest_since(Some(2)), Some(REMEMBERED as u64 - 1));
        assert_eq!(removals.highest_since(Some(REMEMBERED as u64 + 9)), Some(u64::MAX));
    }
}
