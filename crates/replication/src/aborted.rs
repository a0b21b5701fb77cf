//! The aborted transactions of a partition, in the order of their markers. Consumers that read only committed
//! records must skip these.
//!
//! Readers hold snapshots of the list and take no lock. A snapshot shares all but its last piece with its
//! successors, so that adding an entry takes only microseconds even when the list is full.

use std::sync::Arc;

use tailrace_types::{Offset, ProducerId};

/// The most aborted transactions kept per partition, open ones included: 32 MB. At this number, new
/// transactions are refused until the log start moves or compaction has removed their records.
pub const ABORTED_TRANSACTIONS_MAX: usize = 1_000_000;

/// Entries per piece. Adding an entry copies 32 KiB.
const PIECE: usize = 1024;

/// One aborted transaction of one producer, as far as it touched this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer of its records.
    pub producer_id: ProducerId,
    /// Offset of its first record.
    pub first_offset: Offset,
    /// Offset of its marker.
    pub last_offset: Offset,
    /// The last stable offset when the marker was appended. No transaction that is aborted later starts below
    /// it.
    pub last_stable_offset: Offset,
}

/// A list of aborted transactions, ascending by [`AbortedTransaction::last_offset`]. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AbortedTransactions {
    /// All but the last are full. None is empty.
    pieces: Arc<Vec<Arc<Vec<AbortedTransaction>>>>,
    count: usize,
}

impl PartialEq for AbortedTransactions {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl Eq for AbortedTransactions {}

impl AbortedTransactions {
    /// Number of transactions in the list.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// True if the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over all transactions in the order of their markers.
    pub fn iter(&self) -> impl Iterator<Item = &AbortedTransaction> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// Returns the transactions with records or a marker within `from..upto`, in the order of their markers.
    pub(crate) fn within(&self, from: Offset, upto: Offset) -> Vec<AbortedTransaction> {
        let ends_before =
            |piece: &Arc<Vec<AbortedTransaction>>| piece.last().is_some_and(|t| t.last_offset < from);
        let pieces = &self.pieces[self.pieces.partition_point(ends_before)..];
        let mut found = Vec::new();
        for transaction in pieces.iter().flat_map(|piece| piece.iter()) {
            if transaction.last_offset >= from && transaction.first_offset < upto {
                found.push(*transaction);
            }
            if transaction.last_stable_offset >= upto {
                break;
            }
        }
        found
    }

    /// Returns the transaction with the last marker.
    pub(crate) fn newest(&self) -> Option<&AbortedTransaction> {
        self.pieces.last()?.last()
    }

    pub(crate) fn push(&mut self, transaction: AbortedTransaction) {
        let newest = self.newest();
        assert!(
            newest.is_none_or(|newest| newest.last_offset < transaction.last_offset),
            "markers must be in the order of their offsets: {transaction:?} after {newest:?}"
        );
        let pieces = Arc::make_mut(&mut self.pieces);
        match pieces.last_mut() {
            Some(last) if last.len() < PIECE => Arc::make_mut(last).push(transaction),
            _ => pieces.push(Arc::new(vec![transaction])),
        }
        self.count += 1;
    }

    /// Keeps the transactions that `keep` accepts. Returns true if any were removed.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&AbortedTransaction) -> bool) -> bool {
        let kept: Vec<_> = self.iter().filter(|transaction| keep(transaction)).copied().collect();
        let went = kept.len() < self.count;
        if went {
            *self = kept.into_iter().collect();
        }
        went
    }

    /// Removes the transactions that end below the log start. Returns true if there were any.
    pub(crate) fn trim(&mut self, log_start: Offset) -> bool {
        let oldest = self.pieces.first().and_then(|piece| piece.first());
        oldest.is_some_and(|oldest| oldest.last_offset < log_start)
            && self.retain(|transaction| transaction.last_offset >= log_start)
    }
}

impl FromIterator<AbortedTransaction> for AbortedTransactions {
    fn from_iter<I: IntoIterator<Item = AbortedTransaction>>(transactions: I) -> Self {
        let all: Vec<_> = transactions.into_iter().collect();
        let count = all.len();
        let pieces = all.chunks(PIECE).map(|piece| Arc::new(piece.to_vec())).collect();
        Self { pieces: Arc::new(pieces), count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aborted(producer: i64, first: i64, last: i64, stable: i64) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: ProducerId(producer),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        }
    }

    fn markers(list: &AbortedTransactions, from: i64, upto: i64) -> Vec<i64> {
        list.within(Offset(from), Offset(upto)).iter().map(|t| t.last_offset.get()).collect()
    }

    #[test]
    fn those_that_overlap_a_range_are_found_also_behind_ones_that_do_not() {
        // One transaction spans two short ones.
        let list: AbortedTransactions =
            [aborted(2, 10, 12, 0), aborted(3, 20, 22, 0), aborted(1, 0, 30, 31)].into_iter().collect();
        assert_eq!(markers(&list, 0, 1), [30]);
        assert_eq!(markers(&list, 13, 20), [30]);
        assert_eq!(markers(&list, 12, 21), [12, 22, 30]);
        assert_eq!(markers(&list, 31, 99), [0; 0]);
    }

    #[test]
    fn many_are_held_trimmed_and_found() {
        let mut list = AbortedTransactions::default();
        for n in 0..5000 {
            list.push(aborted(n, n * 10, n * 10 + 5, n * 10 + 6));
        }
        let before = list.clone();
        assert_eq!(list.len(), 5000);
        assert_eq!(markers(&list, 20_000, 20_020), [20_005, 20_015]);
        assert_eq!(markers(&list, 49_995, 60_000), [49_995]);
        assert!(!list.trim(Offset(5)));
        assert!(list.trim(Offset(30_006)));
        assert_eq!((list.len(), before.len()), (1999, 5000));
        assert_eq!(list.iter().next(), Some(&aborted(3001, 30_010, 30_015, 30_016)));
        assert_eq!(markers(&list, 0, 30_011), [30_015]);
        assert_eq!(list, before.iter().skip(3001).copied().collect());
    }
}
