//! One segment: its files, its published state, and its rows.
//!
//! The writer stores a row's bytes in the file first, and then the row count with release ordering. Readers
//! load the count with acquire ordering and never read beyond it. A truncated segment is replaced with a new
//! object, so that an older plan cannot claim anything about the bytes written after the truncation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tailrace_types::{Offset, RaftIndex, TimestampMs};

use crate::disk::Disk;
use crate::error::{IoContext, LogError};
use crate::format::checkpoint::SegmentEntry;
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, Row, row_position};
use crate::reach::Reach;
use crate::verified::Verified;

/// Unknown since the start.
const HORIZON_UNKNOWN: i64 = i64::MIN;

/// A segment's open files.
#[derive(Debug)]
pub(crate) struct SegmentFiles<D: Disk> {
    /// The `.log`.
    pub(crate) log: D::File,
    /// The `.index`.
    pub(crate) index: D::File,
}

/// A batch that was found damaged when an index was built.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// The row that it had, and keeps.
    pub(crate) row: Row,
    pub(crate) reason: String,
}

/// One segment.
pub(crate) struct Segment<D: Disk> {
    dir: Arc<Path>,
    pub(crate) base_offset: Offset,
    /// The number of times that compaction has rewritten it. 0 as appended. Part of its files' names.
    pub(crate) generation: u32,
    pub(crate) first_raft_index: RaftIndex,
    pub(crate) created: TimestampMs,
    files: ArcSwapOption<SegmentFiles<D>>,
    /// Set on use, for the clock algorithm.
    used: AtomicBool,
    rows: AtomicU32,
    bytes: AtomicU32,
    end_offset: AtomicI64,
    max_timestamp: AtomicI64,
    first_timestamp: AtomicI64,
    modified: AtomicI64,
    /// True once the header file and the folder entries are durable.
    pub(crate) created_synced: AtomicBool,
    /// Bytes of the `.log` that are durable.
    pub(crate) log_synced: AtomicU32,
    /// Rows that are durable.
    pub(crate) rows_synced: AtomicU32,
    /// Damage of the `.log` found when the index was built, until a reader has taken it.
    suspects: Mutex<Vec<Suspect>>,
    /// True if there are suspects, so that readers otherwise take no lock.
    has_suspects: AtomicBool,
    /// True if it takes no more batches, although no later segment exists.
    closed: AtomicBool,
    /// The earliest delete horizon of the tombstones and markers in it.
    next_horizon: AtomicI64,
    /// True if a row was missing or not what was written, so that the index must be rebuilt.
    index_is_damaged: AtomicBool,
    /// The bytes that readers have checked.
    pub(crate) verified: Verified,
}

impl<D: Disk> Segment<D> {
    /// Creates a segment that has no files yet.
    pub(crate) fn new(
        dir: &Arc<Path>,
        base_offset: Offset,
        first_raft_index: RaftIndex,
        created: TimestampMs,
    ) -> Self {
        Self {
            dir: Arc::clone(dir),
            base_offset,
            generation: 0,
            first_raft_index,
            created,
            files: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            rows: AtomicU32::new(0),
            bytes: AtomicU32::new(0),
            end_offset: AtomicI64::new(base_offset.0),
            max_timestamp: AtomicI64::new(-1),
            first_timestamp: AtomicI64::new(-1),
            modified: AtomicI64::new(created.0),
            created_synced: AtomicBool::new(false),
            log_synced: AtomicU32::new(0),
            rows_synced: AtomicU32::new(0),
            suspects: Mutex::new(Vec::new()),
            has_suspects: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            next_horizon: AtomicI64::new(HORIZON_UNKNOWN),
            index_is_damaged: AtomicBool::new(false),
            verified: Verified::default(),
        }
    }

    /// Returns a segment that serves only for the names of its files.
    pub(crate) fn of_generation(dir: &Arc<Path>, base_offset: Offset, generation: u32) -> Self {
        Self { generation, ..Self::new(dir, base_offset, RaftIndex(0), TimestampMs::NONE) }
    }

    /// Returns a segment as a checkpoint lists it: fully durable.
    pub(crate) fn from_entry(dir: &Arc<Path>, entry: &SegmentEntry) -> Self {
        let segment = Self {
            generation: entry.generation,
            ..Self::new(dir, entry.base_offset, entry.first_raft_index, entry.created)
        };
        segment.rows.store(entry.rows, Relaxed);
        segment.bytes.store(entry.bytes, Relaxed);
        segment.end_offset.store(entry.end_offset.0, Relaxed);
        segment.max_timestamp.store(entry.max_timestamp.0, Relaxed);
        segment.first_timestamp.store(entry.first_timestamp.0, Relaxed);
        segment.modified.store(entry.modified.0, Relaxed);
        segment.created_synced.store(true, Relaxed);
        segment.log_synced.store(entry.bytes, Relaxed);
        segment.rows_synced.store(entry.rows, Relaxed);
        segment
    }

    /// Returns the segment's entry in a checkpoint.
    pub(crate) fn to_entry(&self) -> SegmentEntry {
        SegmentEntry {
            base_offset: self.base_offset,
            generation: self.generation,
            first_raft_index: self.first_raft_index,
            end_offset: self.end_offset(),
            max_timestamp: self.max_timestamp(),
            first_timestamp: self.first_timestamp(),
            created: self.created,
            modified: self.modified(),
            bytes: self.bytes(),
            rows: self.rows(),
        }
    }

    /// Publishes one more row, whose bytes and batch are in the files. Only the writer calls this.
    pub(crate) fn publish(&self, row: &Row, now: TimestampMs) {
        let rows = self.rows.load(Relaxed);
        if rows == 0 {
            self.first_timestamp.store(row.max_timestamp.0, Relaxed);
        }
        self.max_timestamp.store(row.running_max_timestamp.0, Relaxed);
        self.modified.store(now.0, Relaxed);
        self.bytes.store(row.end_position(), Relaxed);
        self.end_offset.store(row.next_offset().0, Relaxed);
        self.rows.store(rows + 1, Release);
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows.load(Acquire)
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes.load(Acquire)
    }

    pub(crate) fn end_offset(&self) -> Offset {
        Offset(self.end_offset.load(Acquire))
    }

    /// Largest timestamp of all batches, -1 if none has one.
    pub(crate) fn max_timestamp(&self) -> TimestampMs {
        TimestampMs(self.max_timestamp.load(Acquire))
    }

    /// Largest timestamp of the first batch: Kafka's base for rolling by age.
    pub(crate) fn first_timestamp(&self) -> TimestampMs {
        TimestampMs(self.first_timestamp.load(Acquire))
    }

    /// When it was last appended to.
    pub(crate) fn modified(&self) -> TimestampMs {
        TimestampMs(self.modified.load(Acquire))
    }

    /// The time by which retention measures age, as in Kafka: the largest timestamp, or else the last change.
    pub(crate) fn age_base(&self) -> TimestampMs {
        let largest = self.max_timestamp();
        if largest.0 >= 0 { largest } else { self.modified() }
    }

    pub(crate) fn is_log_synced(&self) -> bool {
        self.created_synced.load(Acquire) && self.log_synced.load(Acquire) >= self.bytes()
    }

    pub(crate) fn path(&self, kind: Kind) -> PathBuf {
        names::path_of(&self.dir, self.base_offset, self.generation, kind)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the segment take no more batches.
    pub(crate) fn close_for_good(&self) {
        self.closed.store(true, Release);
    }

    /// True if the last segment of a log takes no more batches: it was closed because of its age, or was
    /// rewritten or copied.
    pub(crate) fn is_closed(&self) -> bool {
        self.generation > 0 || self.closed.load(Acquire)
    }

    /// Returns the earliest delete horizon of the tombstones and markers that the last round of compaction
    /// has left. `None` if unknown since the start.
    pub(crate) fn next_horizon(&self) -> Option<TimestampMs> {
        let ms = self.next_horizon.load(Acquire);
        (ms != HORIZON_UNKNOWN).then_some(TimestampMs(ms))
    }

    pub(crate) fn set_next_horizon(&self, horizon: TimestampMs) {
        self.next_horizon.store(horizon.0, Release);
    }

    /// True if a reader found a row that is not what was written.
    pub(crate) fn is_index_damaged(&self) -> bool {
        self.index_is_damaged.load(Acquire)
    }

    /// Clears the mark, because the index is about to be rebuilt.
    pub(crate) fn forget_index_damage(&self) {
        self.index_is_damaged.store(false, Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.files.load().is_some()
    }

    /// Closes the files if they were not used since the clock hand's last visit and nothing waits to be
    /// synced.
    pub(crate) fn close_if_unused(&self) -> bool {
        if self.used.swap(false, Relaxed) || !self.is_log_synced() {
            return false;
        }
        self.files.store(None);
        true
    }

    /// Drops the open files. The next use opens them again.
    pub(crate) fn close(&self) {
        self.files.store(None);
    }

    /// Returns the open files, if any, and marks them as used.
    pub(crate) fn open_files(&self) -> Option<Arc<SegmentFiles<D>>> {
        let files = self.files.load_full()?;
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
        Some(files)
    }

    /// Installs files that the writer or recovery opened itself.
    pub(crate) fn install(&self, files: &Arc<SegmentFiles<D>>) {
        self.used.store(true, Relaxed);
        // The name may refer to another file by now.
        self.verified.forget();
        self.files.store(Some(Arc::clone(files)));
    }

    /// Stores damage of the `.log` for the next reader.
    pub(crate) fn suspect(&self, suspects: Vec<Suspect>) {
        if !suspects.is_empty() {
            self.suspects.lock().extend(suspects);
            self.has_suspects.store(true, Release);
        }
    }

    pub(crate) fn take_suspects(&self) -> Vec<Suspect> {
        if !self.has_suspects.load(Acquire) {
            return Vec::new();
        }
        let mut suspects = self.suspects.lock();
        self.has_suspects.store(false, Release);
        std::mem::take(&mut *suspects)
    }

    /// Reads rows `first..first + count` into `buf` and returns their bytes. All must be published.
    pub(crate) fn read_rows<'b>(
        &self,
        files: &SegmentFiles<D>,
        first: u32,
        buf: &'b mut [u8],
    ) -> Result<&'b [u8], LogError> {
        self.read_rows_within(Reach::Disk, files, first, buf)
    }

    /// Like [`Segment::read_rows`], within `reach`.
    pub(crate) fn read_rows_within<'b>(
        &self,
        reach: Reach,
        files: &SegmentFiles<D>,
        first: u32,
        buf: &'b mut [u8],
    ) -> Result<&'b [u8], LogError> {
        let position = row_position(first);
        let read = match reach.read_full_at(&files.index, buf, position) {
            Err(error) if reach == Reach::Memory && error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(LogError::NotAtHand);
            }
            read => read.context("read", &self.path(Kind::Index))?,
        };
        if read < buf.len() {
            self.index_is_damaged.store(true, Release);
            let reason = format!("the file ends {} bytes early", buf.len() - read);
            return Err(LogError::damaged(&self.path(Kind::Index), position + read as u64, reason));
        }
        Ok(buf)
    }

    /// Checks and decodes row `number` at the start of `bytes`.
    pub(crate) fn decode_row(&self, number: u32, bytes: &[u8]) -> Result<Row, LogError> {
        let row = Row::decode(&bytes[..ROW_BYTES], self.base_offset);
        row.ok_or_else(|| {
            self.index_is_damaged.store(true, Release);
            let reason = format!("row {number} has a wrong checksum");
            LogError::damaged(&self.path(Kind::Index), row_position(number), reason)
        })
    }

    /// Reads one row.
    pub(crate) fn row(&self, files: &SegmentFiles<D>, number: u32) -> Result<Row, LogError> {
        let mut buf = [0; ROW_BYTES];
        let bytes = self.read_rows(files, number, &mut buf)?;
        self.decode_row(number, bytes)
    }
}

/// [`DiskFile::len`](crate::DiskFile::len) with the file's name in the error.
pub(crate) trait LenOf {
    fn len_of(&self, path: &Path) -> Result<u64, LogError>;
}

impl<F: crate::DiskFile> LenOf for F {
    fn len_of(&self, path: &Path) -> Result<u64, LogError> {
        self.len().context("read the length of", path)
    }
}
