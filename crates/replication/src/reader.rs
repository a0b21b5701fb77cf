//! What readers need to know of a partition, published so that a fetch takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tailrace_log::{Disk, LogError, LogReader, LogSlice, Reach};
use tailrace_types::{HighWatermark, LeaderEpoch, LogEnd, Offset};

use crate::aborted::{AbortedTransaction, AbortedTransactions};

/// The reading side of a partition. Cheap to clone; every clone sees the same state.
pub struct PartitionReader<D: Disk> {
    log: Arc<LogReader<D>>,
    marks: Arc<Marks>,
}

/// Where whole batches lie, and the aborted transactions that a client has to skip there.
pub type CommittedSlice<D> = (LogSlice<D>, Vec<AbortedTransaction>);

#[derive(Debug)]
struct Marks {
    high_watermark: AtomicI64,
    last_stable_offset: AtomicI64,
    aborted: ArcSwap<AbortedTransactions>,
    /// Changes whenever transactions are taken off the list whose marker the log has no longer. Odd while the list may not fit the log.
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

    /// One past the last record that no undecided transaction precedes: the first offset of the oldest transaction that
    /// has no marker below the high watermark, but not below the log start; the high watermark if there is none. Never
    /// goes back, and is never above a high watermark read later.
    pub fn last_stable_offset(&self) -> Offset {
        Offset(self.marks.last_stable_offset.load(Ordering::Acquire))
    }

    /// The aborted transactions as of now. Taken before the log is read, it has all that end below a last stable offset read
    /// before that, and are not wholly below the log start then.
    pub fn aborted(&self) -> Arc<AbortedTransactions> {
        self.marks.aborted.load_full()
    }

    /// The aborted transactions with records or their marker within `from..upto`, in the order of their markers.
    pub fn aborted_transactions(&self, from: Offset, upto: Offset) -> Vec<AbortedTransaction> {
        self.marks.aborted.load().within(from, upto)
    }

    /// [`LogReader::read_within`] of committed records, with the aborted transactions that fit what was read: those that a client has to
    /// skip there, and none that no marker ends. `upto` is a last stable offset that was read before.
    ///
    /// # Errors
    /// Those of [`LogReader::read_within`], and [`LogError::BeingExchanged`], after which the caller is to try again a little later.
    pub fn read_committed(
        &self,
        reach: Reach,
        from: Offset,
        upto: Offset,
        bytes_max: u64,
        at_least_one: bool,
    ) -> Result<Option<CommittedSlice<D>>, LogError> {
        loop {
            // The list first: it forgets what the log start has left behind. But compaction takes markers away, and then the
            // list from before would hide all that follows of their producers.
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

    /// First offset that can still be read.
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
    /// If it went back.
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

    /// To be called before the last stable offset passes a marker that the list has for the first time.
    pub(crate) fn publish_aborted(&self, aborted: &AbortedTransactions) {
        self.marks.aborted.store(Arc::new(aborted.clone()));
    }

    /// The same without transactions that were on the list. To be called before the log lets go of their markers.
    pub(crate) fn retract_aborted(&self, aborted: &AbortedTransactions) {
        self.publish_aborted(aborted);
        self.marks.retractions.fetch_add(2, Ordering::AcqRel);
    }

    /// From now on the log may hold markers of other transactions than the list: nobody is told of committed records. It was so before if an
    /// earlier exchange failed.
    pub(crate) fn begin_exchange(&self) {
        self.marks.retractions.fetch_or(1, Ordering::AcqRel);
    }

    /// The list fits the log again.
    pub(crate) fn end_exchange(&self, aborted: &AbortedTransactions) {
        self.publish_aborted(aborted);
        self.marks.retractions.fetch_add(1, Ordering::AcqRel);
    }
}
