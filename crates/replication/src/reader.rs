//! The state of a partition that readers need, published so that a fetch takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tailrace_log::{Disk, LogError, LogReader, LogSlice, Reach};
use tailrace_types::{HighWatermark, LeaderEpoch, LogEnd, Offset};

use crate::aborted::{AbortedTransaction, AbortedTransactions};

/// A reader of a partition. Cheap to clone. Every clone sees the same state.
pub struct PartitionReader<D: Disk> {
    log: Arc<LogReader<D>>,
    marks: Arc<Marks>,
}

/// The location of whole batches, and the aborted transactions that a client has to skip there.
pub type CommittedSlice<D> = (LogSlice<D>, Vec<AbortedTransaction>);

#[derive(Debug)]
struct Marks {
    high_watermark: AtomicI64,
    last_stable_offset: AtomicI64,
    aborted: ArcSwap<AbortedTransactions>,
    /// Changes whenever transactions are removed from the list because their marker has left the log. Odd
    /// while the list may not match the log.
    retractions: AtomicU64,
    epoch: AtomicI32,
}

impl<D: Disk> std::fmt::Debug for PartitionReader<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionReader")
            .field("log_start", &self.log_start())
            .field("high_watermark", &self.high_watermark())
            .field("log_end", &self.log_end())
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Clone for PartitionReader<D> {
    fn clone(&self) -> Self {
        Self { log: Arc::clone(&self.log), marks: Arc::clone(&self.marks) }
    }
}

impl<D: Disk> PartitionReader<D> {
    pub(crate) fn new(
        log: Arc<LogReader<D>>,
        high_watermark: HighWatermark,
        last_stable_offset: Offset,
        epoch: LeaderEpoch,
    ) -> Self {
        let marks = Marks {
            high_watermark: AtomicI64::new(high_watermark.get()),
            last_stable_offset: AtomicI64::new(last_stable_offset.get()),
            aborted: ArcSwap::default(),
            retractions: AtomicU64::new(0),
            epoch: AtomicI32::new(epoch.get()),
        };
        Self { log, marks: Arc::new(marks) }
    }

    /// The log, for positions and lookups.
    pub fn log(&self) -> &LogReader<D> {
        &self.log
    }

    /// One past the last record that consumers may see. Never goes back.
    pub fn high_watermark(&self) -> HighWatermark {
        HighWatermark(self.marks.high_watermark.load(Ordering::Acquire))
    }

    /// The first offset of the oldest transaction without a marker below the high watermark, but at least the
    /// log start. If there is no such transaction, the high watermark. Never goes back, and never exceeds a
    /// high watermark that is read later.
    pub fn last_stable_offset(&self) -> Offset {
        Offset(self.marks.last_stable_offset.load(Ordering::Acquire))
    }

    /// Returns the current aborted transactions. If taken before the log is read, the list has all that end
    /// below a last stable offset that was read before, unless they are entirely below the log start.
    pub fn aborted(&self) -> Arc<AbortedTransactions> {
        self.marks.aborted.load_full()
    }

    /// Returns the aborted transactions with records or a marker within `from..upto`, in the order of their
    /// markers.
    pub fn aborted_transactions(&self, from: Offset, upto: Offset) -> Vec<AbortedTransaction> {
        self.marks.aborted.load().within(from, upto)
    }

    /// Like [`LogReader::read_within`], for committed records. Also returns the aborted transactions that
    /// match what was read: those that a client has to skip there, and none without a marker. `upto` is a
    /// last stable offset that was read before.
    ///
    /// # Errors
    /// Those of [`LogReader::read_within`], and [`LogError::BeingExchanged`], after which the caller should
    /// retry shortly.
    pub fn read_committed(
        &self,
        reach: Reach,
        from: Offset,
        upto: Offset,
        bytes_max: u64,
        at_least_one: bool,
    ) -> Result<Option<CommittedSlice<D>>, LogError> {
        loop {
            // Take the list first, because it drops what the log start has passed. But compaction removes
            // markers, and then the older list would hide everything that follows from their producers.
            let retractions = self.marks.retractions.load(Ordering::Acquire);
            if !retractions.is_multiple_of(2) {
                return Err(LogError::BeingExchanged);
            }
            let aborted = self.aborted();
            let slice = self.log.read_within(reach, from, upto, bytes_max, at_least_one)?;
            if self.marks.retractions.load(Ordering::Acquire) == retractions {
                return Ok(slice.map(|slice| {
                    let aborted = aborted.within(from, slice.next_offset);
                    (slice, aborted)
                }));
            }
        }
    }

    /// The first offset that can still be read.
    pub fn log_start(&self) -> Offset {
        self.log.log_start()
    }

    /// One past the last record appended, committed or not.
    pub fn log_end(&self) -> LogEnd {
        self.log.log_end()
    }

    /// The current leader epoch.
    pub fn epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.marks.epoch.load(Ordering::Acquire))
    }

    /// # Panics
    /// If the epoch went back.
    #[cfg(feature = "raft")]
    pub(crate) fn raise_epoch(&self, to: LeaderEpoch) {
        let before = self.marks.epoch.fetch_max(to.get(), Ordering::AcqRel);
        assert!(to.get() >= before, "the leader epoch went back from {before} to {to}");
    }

    /// # Panics
    /// If it went back, or beyond the log's end.
    pub(crate) fn raise_high_watermark(&self, to: HighWatermark) {
        let end = self.log_end();
        assert!(to.get() <= end.get(), "the high watermark went to {to}, beyond the log's end {end}");
        let before = self.marks.high_watermark.fetch_max(to.get(), Ordering::AcqRel);
        assert!(to.get() >= before, "the high watermark went back from {before} to {to}");
    }

    /// # Panics
    /// If it went back, or beyond the high watermark.
    pub(crate) fn raise_last_stable_offset(&self, to: Offset) {
        let committed = self.high_watermark();
        assert!(
            to <= committed.offset(),
            "the last stable offset went to {to}, beyond the high watermark {committed}"
        );
        let before = self.marks.last_stable_offset.fetch_max(to.get(), Ordering::AcqRel);
        assert!(to.get() >= before, "the last stable offset went back from {before} to {to}");
    }

    /// Publishes the list. Call it before the last stable offset passes a marker that is new in the list.
    pub(crate) fn publish_aborted(&self, aborted: &AbortedTransactions) {
        self.marks.aborted.store(Arc::new(aborted.clone()));
    }

    /// Publishes the list after transactions were removed from it. Call it before their markers leave the
    /// log.
    pub(crate) fn retract_aborted(&self, aborted: &AbortedTransactions) {
        self.publish_aborted(aborted);
        self.marks.retractions.fetch_add(2, Ordering::AcqRel);
    }

    /// Suspends committed reads, because from now on the markers in the log may not match the list. They are
    /// suspended already if an earlier exchange failed.
    pub(crate) fn begin_exchange(&self) {
        self.marks.retractions.fetch_or(1, Ordering::AcqRel);
    }

    /// Publishes the list, which matches the log again, and resumes committed reads.
    pub(crate) fn end_exchange(&self, aborted: &AbortedTransactions) {
        self.publish_aborted(aborted);
        self.marks.retractions.fetch_add(1, Ordering::AcqRel);
    }
}
