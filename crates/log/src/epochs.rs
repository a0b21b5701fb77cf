//! Maps each epoch to its first offset.

use tailrace_types::{LeaderEpoch, Offset};

/// Epochs and the offset of the first record of each, both strictly ascending. An epoch without records is
/// dropped when the next one starts at the same offset, as in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EpochTable(pub(crate) Vec<(LeaderEpoch, Offset)>);

impl EpochTable {
    /// Records that `epoch` starts at `start`. Returns true if that was new.
    pub(crate) fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if epoch.0 < 0 || self.0.last().is_some_and(|last| last.0 >= epoch) {
            return false;
        }
        while self.0.last().is_some_and(|last| last.1 >= start) {
            self.0.pop();
        }
        self.0.push((epoch, start));
        true
    }

    /// Removes epochs that start at or after `end`.
    pub(crate) fn truncate_end(&mut self, end: Offset) {
        self.0.retain(|entry| entry.1 < end);
    }

    /// Removes epochs that end at or before `start`. The epoch in force there now starts there.
    pub(crate) fn truncate_start(&mut self, start: Offset) {
        let in_force = self.0.partition_point(|entry| entry.1 <= start);
        if in_force > 0 {
            self.0.drain(..in_force - 1);
            self.0[0].1 = start;
        }
    }
}

/// Returns Kafka's answer to OffsetForLeaderEpoch: the largest known epoch up to `epoch` and one past its
/// last offset, which is `end` for the newest. `None` for an epoch above all known ones, and for "unknown".
pub(crate) fn epoch_end(
    epochs: &[(LeaderEpoch, Offset)],
    epoch: LeaderEpoch,
    end: Offset,
) -> Option<(LeaderEpoch, Offset)> {
    let newest = epochs.last()?.0;
    if epoch == newest {
        return Some((epoch, end));
    }
    if epoch.0 < 0 || epoch > newest {
        return None;
    }
    let above = epochs.partition_point(|entry| entry.0 <= epoch);
    let next_start = epochs[above].1;
    // An epoch older than all known ones ends where the first known one starts.
    let known = above.checked_sub(1).map_or(epoch, |at| epochs[at].0);
    Some((known, next_start.min(end)))
}

/// Returns the epoch in force at `offset`.
pub(crate) fn epoch_at(epochs: &[(LeaderEpoch, Offset)], offset: Offset) -> Option<LeaderEpoch> {
    let above = epochs.partition_point(|entry| entry.1 <= offset);
    above.checked_sub(1).map(|at| epochs[at].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(i32, i64)]) -> EpochTable {
        let mut table = EpochTable::default();
        for &(epoch, start) in entries {
            table.assign(LeaderEpoch(epoch), Offset(start));
        }
        table
    }

    #[test]
    fn an_epoch_without_records_gives_way() {
        assert_eq!(table(&[(1, 0), (2, 0), (3, 7), (4, 7)]), table(&[(2, 0), (4, 7)]));
        assert_eq!(table(&[(2, 0), (1, 5)]), table(&[(2, 0)]));
    }

    #[test]
    fn ends_are_kafkas() {
        let epochs = table(&[(2, 10), (4, 20)]).0;
        let end = |epoch| epoch_end(&epochs, LeaderEpoch(epoch), Offset(30)).map(|(e, o)| (e.0, o.0));
        assert_eq!(end(-1), None);
        assert_eq!(end(1), Some((1, 10)));
        assert_eq!(end(2), Some((2, 20)));
        assert_eq!(end(3), Some((2, 20)));
        assert_eq!(end(4), Some((4, 30)));
        assert_eq!(end(5), None);
        assert_eq!(epoch_at(&epochs, Offset(9)), None);
        assert_eq!(epoch_at(&epochs, Offset(19)), Some(LeaderEpoch(2)));
    }

    #[test]
    fn both_ends_are_cut() {
        let mut epochs = table(&[(1, 0), (2, 10), (3, 20)]);
        epochs.truncate_end(Offset(20));
        assert_eq!(epochs, table(&[(1, 0), (2, 10)]));
        epochs.truncate_start(Offset(12));
        assert_eq!(epochs, table(&[(2, 12)]));
        epochs.truncate_start(Offset(3));
        assert_eq!(epochs, table(&[(2, 12)]));
    }
}
