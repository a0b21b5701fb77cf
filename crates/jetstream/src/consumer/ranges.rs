//! Sequences above the floor that are settled: acknowledged, terminated, or given up.

use std::collections::BTreeMap;

/// Disjoint ranges of sequences, ascending. Neighbours are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    by_first: BTreeMap<u64, End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    last: u64,
    /// False if the range stands in the last snapshot.
    is_new: bool,
}

/// Sequences, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Ranges {
    pub(super) fn len(&self) -> usize {
        self.by_first.len()
    }

    /// Adds a range that is not in the last snapshot.
    pub(super) fn insert(&mut self, range: Range) {
        self.put(range, true);
    }

    /// Adds a range of a snapshot.
    pub(super) fn restore(&mut self, range: Range) {
        self.put(range, false);
    }

    fn put(&mut self, Range { mut first, mut last }: Range, is_new: bool) {
        if first > last {
            return;
        }
        // Everything that overlaps or touches is merged. Each step removes one range for good.
        while let Some((&start, &end)) = self.by_first.range(..=last.saturating_add(1)).next_back() {
            if end.last.saturating_add(1) < first {
                break;
            }
            if start <= first && end.last >= last {
                return;
            }
            self.by_first.remove(&start);
            (first, last) = (first.min(start), last.max(end.last));
        }
        self.by_first.insert(first, End { last, is_new });
    }

    /// Returns the last sequence of the range that contains this one.
    pub(super) fn end_of(&self, seq: u64) -> Option<u64> {
        let (_, end) = self.by_first.range(..=seq).next_back()?;
        (end.last >= seq).then_some(end.last)
    }

    pub(super) fn contains(&self, seq: u64) -> bool {
        self.end_of(seq).is_some()
    }

    /// Forgets everything up to this sequence.
    pub(super) fn remove_through(&mut self, floor: u64) {
        while let Some(entry) = self.by_first.first_entry() {
            if *entry.key() > floor {
                break;
            }
            let end = entry.remove();
            if end.last > floor {
                self.by_first.insert(floor + 1, end);
                break;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_first.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range> + Clone + '_ {
        self.by_first.iter().map(|(&first, end)| Range { first, last: end.last })
    }

    /// Returns those that are not in the last snapshot.
    pub(super) fn iter_new(&self) -> impl Iterator<Item = Range> + Clone + '_ {
        let new = self.by_first.iter().filter(|(_, end)| end.is_new);
        new.map(|(&first, end)| Range { first, last: end.last })
    }

    /// Notes that a snapshot has them all.
    pub(super) fn mark_old(&mut self) {
        self.by_first.values_mut().for_each(|end| end.is_new = false);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ranges_hold_what_a_set_holds() {
        let mut ranges = Ranges::default();
        let mut set = BTreeSet::new();
        let mut random: u64 = 7;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        for _ in 0..3_000 {
            let first = next(200) + 1;
            let last = first + next(6);
            if next(10) == 0 {
                let floor = next(150);
                ranges.remove_through(floor);
                set.retain(|seq| *seq > floor);
            } else {
                ranges.insert(Range { first, last });
                set.extend(first..=last);
            }
            let listed: Vec<u64> = ranges.iter().flat_map(|range| range.first..=range.last).collect();
            assert_eq!(listed, set.iter().copied().collect::<Vec<_>>());
            let mut before = None;
            for range in ranges.iter() {
                assert!(before.is_none_or(|last: u64| last + 1 < range.first), "neighbours are merged");
                before = Some(range.last);
            }
            let probe = next(210);
            assert_eq!(ranges.contains(probe), set.contains(&probe));
        }
    }

    #[test]
    fn a_merged_range_is_new_again() {
        let mut ranges = Ranges::default();
        ranges.insert(Range { first: 5, last: 6 });
        ranges.insert(Range { first: 20, last: 20 });
        ranges.mark_old();
        assert_eq!(ranges.iter_new().count(), 0);
        ranges.insert(Range { first: 7, last: 7 });
        assert_eq!(ranges.iter_new().collect::<Vec<_>>(), [Range { first: 5, last: 7 }]);
        ranges.insert(Range { first: u64::MAX, last: u64::MAX });
        assert!(ranges.contains(u64::MAX));
    }
}
