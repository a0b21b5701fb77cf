//! The batches above the commit index.

use std::collections::VecDeque;

use tailrace_types::Offset;

/// One batch.
struct Batch {
    index: u64,
    next: Offset,
    bytes: u64,
}

/// The batches that are written here and not known to be committed, and their bytes.
///
/// Raft's own count of uncommitted bytes is disabled. It subtracts only what it reads back of committed
/// batches, and these are read without their records.
#[derive(Default)]
pub(super) struct Uncommitted {
    batches: VecDeque<Batch>,
    bytes: u64,
}

impl Uncommitted {
    /// Total bytes of the batches.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Adds the batch at raft index `index`, above all others, whose records end before `next`.
    ///
    /// # Panics
    /// If it is not above all others.
    pub(super) fn push(&mut self, index: u64, next: Offset, bytes: usize) {
        if let Some(last) = self.batches.back() {
            assert!(
                index > last.index && next > last.next,
                "raft index {index}, up to offset {next}, behind {} and {}",
                last.index,
                last.next
            );
        }
        let bytes = bytes as u64;
        self.batches.push_back(Batch { index, next, bytes });
        self.bytes += bytes;
    }

    /// Removes everything up to raft index `committed`. Returns one past the last record removed, if any.
    pub(super) fn commit(&mut self, committed: u64) -> Option<Offset> {
        let mut end = None;
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.index <= committed) {
            self.take_off(&batch);
            end = Some(batch.next);
        }
        end
    }

    /// Removes what was truncated: everything from raft index `index` on.
    pub(super) fn cut_off(&mut self, index: u64) {
        while let Some(batch) = self.batches.pop_back_if(|batch| batch.index >= index) {
            self.take_off(&batch);
        }
    }

    fn take_off(&mut self, batch: &Batch) {
        let left = self.bytes.checked_sub(batch.bytes);
        self.bytes = left.expect("what is not committed has as many bytes as its batches");
        assert!(!self.batches.is_empty() || self.bytes == 0, "{} bytes of no batch", self.bytes);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_what_is_left() {
        let mut uncommitted = Uncommitted::default();
        for index in 5..10 {
            uncommitted.push(index, Offset(index as i64 * 10), index as usize);
        }
        assert_eq!(uncommitted.bytes(), 35);
        assert_eq!(uncommitted.commit(4), None);
        assert_eq!(uncommitted.commit(6), Some(Offset(60)));
        assert_eq!(uncommitted.bytes(), 24);
        uncommitted.cut_off(9);
        assert_eq!(uncommitted.bytes(), 15);
        assert_eq!(uncommitted.commit(20), Some(Offset(80)));
        assert!(uncommitted.is_empty());
        assert_eq!(uncommitted.bytes(), 0);
    }

    #[test]
    fn a_batch_that_is_not_behind_the_others_is_no_state_to_go_on_from() {
        for (index, next) in [(5, 60), (4, 60), (6, 50)] {
            let mut uncommitted = Uncommitted::default();
            uncommitted.push(5, Offset(50), 1);
            let pushed = std::panic::catch_unwind(move || uncommitted.push(index, Offset(next), 1));
            assert!(pushed.is_err(), "{index}, {next}");
        }
    }
}
