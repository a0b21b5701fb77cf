//! Waits for the marks of a partition, its high watermark and its last stable offset. That needs no lock of
//! the core.

use std::sync::Arc;

use tailrace_env::sync::{Notify, oneshot};
use tailrace_types::{LeaderEpoch, Offset};

use super::PartitionHandle;
use super::waiters::{Awaited, WaitOutcome};

impl PartitionHandle {
    /// Waits, without locking the core, until an append is committed.
    ///
    /// `None` if it already is.
    pub fn wait_committed(&self, awaited: impl Into<Awaited>) -> Option<oneshot::Receiver<WaitOutcome>> {
        let awaited = awaited.into();
        let reached = self.reader.high_watermark() >= awaited.at;
        if reached && self.is_there(awaited.at.offset(), Some(awaited.epoch)) {
            return None;
        }
        let receiver = self.waiting.acks.insert(awaited.at.offset(), Some(awaited.epoch));
        self.look_again();
        if self.leads().is_none() {
            // Deposed between the append and the insertion.
            self.waiting.acks.answer_all(WaitOutcome::Deposed);
        }
        Some(receiver)
    }

    /// The same for the last stable offset: waits until everything below `upto` is committed and no
    /// transaction there is undecided.
    pub(crate) fn wait_stable(&self, upto: Offset) -> Option<oneshot::Receiver<WaitOutcome>> {
        if self.reader.last_stable_offset() >= upto {
            return None;
        }
        let receiver = self.waiting.stable.insert(upto, None);
        self.look_again();
        Some(receiver)
    }

    /// Reports whether the record that ends at `end`, below the high watermark, is of that epoch.
    fn is_there(&self, end: Offset, epoch: Option<LeaderEpoch>) -> bool {
        epoch.is_none_or(|epoch| end <= Offset(0) || self.reader.log().epoch_at(end.plus(-1)) == Some(epoch))
    }

    /// Checks again after an insertion: the marks may have moved, or writing stopped, since the check before
    /// it.
    fn look_again(&self) {
        self.answer_committed();
        if self.is_halted() {
            self.waiting.answer_halted();
        }
    }

    /// Registers a fetch that wants to be woken when the high watermark or the last stable offset moves. Look
    /// again after registering.
    pub fn register_fetch(&self, fetch: &Arc<Notify>) {
        self.waiting.register_fetch(fetch);
    }

    /// Answers and wakes waiters because the high watermark, the last stable offset or the log start has
    /// moved, or never will again. Does not need the core's lock.
    pub(super) fn marks_moved(&self) {
        self.answer_committed();
        self.waiting.wake_fetches();
    }

    pub(super) fn answer_committed(&self) {
        let (acks, stable) = (&self.waiting.acks, &self.waiting.stable);
        acks.reached(self.reader.high_watermark().offset(), |end, epoch| self.is_there(end, epoch));
        stable.reached(self.reader.last_stable_offset(), |_, _| true);
    }
}
