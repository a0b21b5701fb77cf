//! The readers of a log: lock-free, shared by any number of threads.
//!
//! The writer publishes through an immutable list of segments, row counts and a few atomics. Nothing below
//! the high watermark is ever overwritten. A truncation above it may disturb a read. The read detects that by
//! the generation, and is repeated.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_types::{LeaderEpoch, LogEnd, Offset};

use crate::checkpoint_file::CheckpointFile;
use crate::config::PartitionIdentity;
use crate::damage::DamageMap;
use crate::disk::Disk;
use crate::epochs;
use crate::error::LogError;
use crate::segment::Segment;
use crate::store::LogStore;

pub(crate) type SegmentList<D> = Vec<Arc<Segment<D>>>;

/// The most repetitions of a read whose segments were truncated or removed in the meantime.
pub(crate) const RETRIES_MAX: usize = 3;

/// The segments as seen by a read.
pub(crate) struct Seen<D: Disk> {
    generation: u64,
    pub(crate) segments: Arc<SegmentList<D>>,
}

impl<D: Disk> Clone for Seen<D> {
    fn clone(&self) -> Self {
        Self { generation: self.generation, segments: Arc::clone(&self.segments) }
    }
}

/// The reader of a log. Takes no lock, except a short one on the table of open files when a file must be
/// opened.
pub struct LogReader<D: Disk> {
    pub(crate) store: LogStore<D>,
    pub(crate) dir: Arc<Path>,
    pub(crate) identity: PartitionIdentity,
    pub(crate) segments: ArcSwap<SegmentList<D>>,
    pub(crate) epochs: ArcSwap<Vec<(LeaderEpoch, Offset)>>,
    pub(crate) log_start: AtomicI64,
    pub(crate) log_end: AtomicI64,
    /// Compaction has covered everything below.
    pub(crate) first_dirty: AtomicI64,
    /// The age in milliseconds at which the active segment is closed.
    pub(crate) close_after_ms: AtomicI64,
    /// Raised by every truncation.
    pub(crate) generation: AtomicU64,
    /// See [`LogReader::appended_bytes`].
    pub(crate) appended_bytes: AtomicU64,
    /// See [`LogReader::rolls`].
    pub(crate) rolls: AtomicU64,
    /// Ranges that are not served.
    pub(crate) damage: DamageMap,
    /// True once the identity file and the folder are durable.
    pub(crate) folder_synced: AtomicBool,
    /// Locked only by plans while they run.
    pub(crate) checkpoint: Mutex<CheckpointFile>,
}

impl<D: Disk> LogReader<D> {
    /// Runs `read` on the current segments. Repeats it if it failed and they were truncated or removed in the
    /// meantime.
    pub(crate) fn retrying<T>(
        &self,
        read: impl Fn(&SegmentList<D>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        self.retrying_as_seen(|seen| read(&seen.segments))
    }

    /// Like [`LogReader::retrying`], for reads that are not finished at once.
    /// [`LogReader::is_disturbed_since`] tells later whether a repetition is worthwhile.
    pub(crate) fn retrying_as_seen<T>(
        &self,
        read: impl Fn(&Seen<D>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut tries = 0;
        loop {
            let seen =
                Seen { generation: self.generation.load(Acquire), segments: self.segments.load_full() };
            let result = read(&seen);
            tries += 1;
            let disturbed = self.is_disturbed_since(&seen);
            match result {
                Err(LogError::Damaged { .. } | LogError::Io { .. }) if disturbed && tries <= RETRIES_MAX => {}
                result => return result,
            }
        }
    }

    /// True if segments were truncated or removed since.
    pub(crate) fn is_disturbed_since(&self, seen: &Seen<D>) -> bool {
        seen.generation != self.generation.load(Acquire)
            || !Arc::ptr_eq(&seen.segments, &self.segments.load())
    }

    /// Returns Kafka's answer to OffsetForLeaderEpoch: the largest known epoch up to `epoch`, and one past
    /// its last offset (`upto` for the newest). `None` for an epoch above all known ones.
    pub fn epoch_end(&self, epoch: LeaderEpoch, upto: Offset) -> Option<(LeaderEpoch, Offset)> {
        epochs::epoch_end(&self.epochs.load(), epoch, upto)
    }

    /// Returns the epoch of `offset`, or of the next record if `offset` is the log end. `None` below the
    /// first known epoch.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        epochs::epoch_at(&self.epochs.load(), offset)
    }

    /// Returns the epochs and the first offset of each, ascending.
    pub fn epochs(&self) -> Arc<Vec<(LeaderEpoch, Offset)>> {
        self.epochs.load_full()
    }

    /// The first offset that may be read.
    pub fn log_start(&self) -> Offset {
        Offset(self.log_start.load(Acquire))
    }

    /// One past the last offset appended.
    pub fn log_end(&self) -> LogEnd {
        LogEnd(self.log_end.load(Acquire))
    }

    /// Compaction has covered everything below. 0 if there was none.
    pub fn first_dirty(&self) -> Offset {
        Offset(self.first_dirty.load(Acquire))
    }

    /// One past the last offset of the segments that compaction has rewritten or that were copied from
    /// another replica. 0 if there are none.
    pub(crate) fn compacted_end(&self) -> Offset {
        let segments = self.segments.load();
        let compacted = segments.iter().filter(|s| s.generation > 0);
        compacted.map(|s| s.end_offset()).max().unwrap_or_default()
    }

    /// Base offset of the first segment that was not removed, at most the log start. The log end if there is
    /// no segment.
    pub(crate) fn first_kept(&self) -> Offset {
        self.segments.load().first().map_or(self.log_end().offset(), |segment| segment.base_offset)
    }

    /// Bytes of batches written since the log was opened, including truncated ones. They may be only in the
    /// page cache.
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(Relaxed)
    }

    /// How often a segment was started, or closed for its age, since the log was opened. Each is a good
    /// moment for a checkpoint.
    pub fn rolls(&self) -> u64 {
        self.rolls.load(Relaxed)
    }

    /// Total bytes of all `.log` files.
    pub fn size_bytes(&self) -> u64 {
        self.segments.load().iter().map(|s| u64::from(s.bytes())).sum()
    }

    /// The number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments.load().len()
    }

    /// The partition that the log belongs to.
    pub fn identity(&self) -> &PartitionIdentity {
        &self.identity
    }

    /// The folder of the log.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Raises the log end to `end` after an append.
    ///
    /// # Panics
    /// If that is not beyond the previous end.
    pub(crate) fn raise_log_end(&self, end: Offset) {
        let before = self.log_end.swap(end.0, Release);
        assert!(before < end.0, "an append moved the log end from {before} to {end}");
    }

    /// Sets the log end after the log was truncated at `end`, or replaced with another log that ends there.
    ///
    /// # Panics
    /// If the log ends before it starts.
    pub(crate) fn set_log_end(&self, end: Offset) {
        let start = self.log_start();
        assert!(start <= end, "a log from {start} to {end}");
        self.log_end.store(end.0, Release);
    }

    /// Raises the log start. Nothing below `start` is read any more.
    ///
    /// # Panics
    /// If it went back, or beyond the log end.
    pub(crate) fn raise_log_start(&self, start: Offset) {
        let end = self.log_end();
        assert!(start <= end.offset(), "the log start went to {start}, beyond the log end {end}");
        let before = self.log_start.swap(start.0, Release);
        assert!(before <= start.0, "the log start went back from {before} to {start}");
    }
}

/// Returns the number of the segment that holds `offset`. 0 if it is before all segments.
pub(crate) fn segment_of<D: Disk>(segments: &SegmentList<D>, offset: Offset) -> usize {
    segments.partition_point(|s| s.base_offset <= offset).saturating_sub(1)
}
