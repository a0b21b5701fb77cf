//! A map from offsets to values that stores a run of equal values as one entry.

use std::collections::BTreeMap;

/// A run of offsets with the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<T> {
    /// First offset.
    pub(crate) first: i64,
    /// Last offset, inclusive.
    pub(crate) last: i64,
    /// The value of all of them.
    pub(crate) value: T,
}

/// Disjoint runs of offsets, ascending. Adjacent offsets with equal values are one run. Offsets without a
/// value are in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intervals<T> {
    runs: BTreeMap<i64, (i64, T)>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self { runs: BTreeMap::new() }
    }
}

impl<T: Clone + PartialEq> Intervals<T> {
    /// Returns the number of runs.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns all runs, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Run<&T>> {
        self.runs.iter().map(|(&first, (last, value))| Run { first, last: *last, value })
    }

    /// Returns the runs that overlap `first..=last`, cut to it.
    pub(crate) fn within(&self, first: i64, last: i64) -> impl Iterator<Item = Run<&T>> {
        let before = self.runs.range(..first).next_back();
        let before = before.filter(|(_, (end, _))| *end >= first);
        let inside = if first <= last { Some(self.runs.range(first..=last)) } else { None };
        before
            .filter(|_| first <= last)
            .into_iter()
            .chain(inside.into_iter().flatten())
            .map(move |(&start, (end, value))| Run { first: start.max(first), last: (*end).min(last), value })
    }

    /// Returns the value of an offset.
    #[cfg(test)]
    pub(crate) fn get(&self, offset: i64) -> Option<&T> {
        self.within(offset, offset).next().map(|run| run.value)
    }

    /// Returns the first run.
    pub(crate) fn first(&self) -> Option<Run<&T>> {
        self.iter().next()
    }

    /// Returns the last run.
    pub(crate) fn last(&self) -> Option<Run<&T>> {
        self.iter().next_back()
    }

    /// Sets the value of `first..=last`.
    pub(crate) fn set(&mut self, first: i64, last: i64, value: T) {
        if first > last {
            return;
        }
        self.remove(first, last);
        let (mut first, mut last) = (first, last);
        if let Some((&start, (end, before))) = self.runs.range(..first).next_back()
            && end.checked_add(1) == Some(first)
            && *before == value
        {
            first = start;
        }
        if let Some(next) = last.checked_add(1)
            && let Some((end, after)) = self.runs.get(&next)
            && *after == value
        {
            last = *end;
            self.runs.remove(&next);
        }
        self.runs.insert(first, (last, value));
    }

    /// Removes the values of `first..=last`.
    pub(crate) fn remove(&mut self, first: i64, last: i64) {
        if first > last {
            return;
        }
        self.split_at(first);
        if let Some(next) = last.checked_add(1) {
            self.split_at(next);
        }
        let inside: Vec<i64> = self.runs.range(first..=last).map(|(&start, _)| start).collect();
        for start in inside {
            self.runs.remove(&start);
        }
    }

    /// Removes all values below `offset`.
    pub(crate) fn remove_below(&mut self, offset: i64) {
        self.split_at(offset);
        self.runs = self.runs.split_off(&offset);
    }

    /// Splits the run that contains `offset`, so that one starts there.
    fn split_at(&mut self, offset: i64) {
        if let Some((_, run)) = self.runs.range_mut(..offset).next_back()
            && run.0 >= offset
        {
            let behind = (run.0, run.1.clone());
            run.0 = offset - 1;
            self.runs.insert(offset, behind);
        }
    }

    /// Replaces the value of each run within `first..=last` by the result of `change`. `None` leaves it as it
    /// is.
    pub(crate) fn change(&mut self, first: i64, last: i64, mut change: impl FnMut(&T) -> Option<T>) {
        let changed: Vec<Run<T>> = self
            .within(first, last)
            .filter_map(|run| change(run.value).map(|value| Run { first: run.first, last: run.last, value }))
            .collect();
        for Run { first, last, value } in changed {
            self.set(first, last, value);
        }
    }
}

impl<T> Run<T> {
    /// Returns the number of offsets.
    pub(crate) fn count(&self) -> u64 {
        self.last.abs_diff(self.first).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_of_single_offsets(
            steps in prop::collection::vec((0_u8..3, 0_i64..30, 0_i64..12, 0_u8..3), 1..40),
        ) {
            let mut runs = Intervals::default();
            let mut plain: BTreeMap<i64, u8> = BTreeMap::new();
            for (what, first, length, value) in steps {
                let last = first + length;
                match what {
                    0 => {
                        runs.set(first, last, value);
                        (first..=last).for_each(|offset| { plain.insert(offset, value); });
                    }
                    1 => {
                        runs.remove(first, last);
                        plain.retain(|offset, _| !(first..=last).contains(offset));
                    }
                    _ => {
                        runs.change(first, last, |old| (*old != value).then_some(old + 3));
                        for (_, old) in plain.range_mut(first..=last) {
                            if *old != value { *old += 3; }
                        }
                    }
                }
                for offset in -1..50 {
                    prop_assert_eq!(runs.get(offset), plain.get(&offset));
                }
                let all: Vec<_> = runs.iter().collect();
                for pair in all.windows(2) {
                    prop_assert!(pair[0].last < pair[1].first);
                    prop_assert!(pair[0].last + 1 < pair[1].first || pair[0].value != pair[1].value);
                }
                let counted: u64 = runs.within(5, 20).map(|run| run.count()).sum();
                prop_assert_eq!(counted, plain.range(5..=20).count() as u64);
            }
        }
    }
}
