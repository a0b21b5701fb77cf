//! What readers need to know of a partition, published so that a fetch takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use tailrace_log::{Disk, LogReader};
use tailrace_types::{HighWatermark, LeaderEpoch, LogEnd, Offset};

/// The reading side of a partition. Cheap to clone; every clone sees the same state.
pub struct PartitionReader<D: Disk> {
    log: Arc<LogReader<D>>,
    marks: Arc<Marks>,
}

#[derive(Debug)]
struct Marks {
    high_watermark: AtomicI64,
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
    pub(crate) fn new(log: Arc<LogReader<D>>, high_watermark: HighWatermark, epoch: LeaderEpoch) -> Self {
        let marks = Marks {
            high_watermark: AtomicI64::new(high_watermark.get()),
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

    /// One past the last record whose transaction is decided. Without transactions it is the high watermark.
    pub fn last_stable_offset(&self) -> Offset {
        self.high_watermark().offset()
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

    pub(crate) fn raise_high_watermark(&self, to: HighWatermark) {
        let before = self.marks.high_watermark.fetch_max(to.get(), Ordering::AcqRel);
        assert!(to.get() >= before, "the high watermark went back from {before} to {to}");
    }
}
