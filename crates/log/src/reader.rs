//! The readers' side: lock-free, shared by any number of threads.
//!
//! The writer publishes through an immutable list of segments, row counts and a few atomics. Nothing below the high
//! watermark is ever overwritten; what a truncation above it may disturb is noticed by its generation and read again.

use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tailrace_types::{LeaderEpoch, LogEnd, Offset};

use crate::checkpoint::CheckpointFile;
use crate::config::PartitionIdentity;
use crate::damage::{DamageMap, is_unreadable, note};
use crate::disk::{Disk, read_full_at};
use crate::epochs;
use crate::error::{IoContext, LogError};
use crate::extent::Extent;
use crate::format::names::Kind;
use crate::rebuild::Suspect;
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};
use crate::store::LogStore;

pub(crate) type SegmentList<D> = Vec<Arc<Segment<D>>>;

/// A read is repeated when segments were truncated or removed under it, at most this often.
const RETRIES_MAX: usize = 3;

/// The readers' side of a log. Takes no lock, except a short one of the table of open files when a file must be opened.
pub struct LogReader<D: Disk> {
    pub(crate) store: LogStore<D>,
    pub(crate) dir: Arc<Path>,
    pub(crate) identity: PartitionIdentity,
    pub(crate) segments: ArcSwap<SegmentList<D>>,
    pub(crate) epochs: ArcSwap<Vec<(LeaderEpoch, Offset)>>,
    pub(crate) log_start: AtomicI64,
    pub(crate) log_end: AtomicI64,
    /// Compaction has seen to everything below.
    pub(crate) first_dirty: AtomicI64,
    /// Age in milliseconds at which the active segment is closed.
    pub(crate) close_after_ms: AtomicI64,
    /// Raised by every truncation.
    pub(crate) generation: AtomicU64,
    /// See [`LogReader::appended_bytes`].
    pub(crate) appended_bytes: AtomicU64,
    /// See [`LogReader::rolls`].
    pub(crate) rolls: AtomicU64,
    /// What is not served.
    pub(crate) damage: DamageMap,
    /// Identity file and folder are durable.
    pub(crate) folder_synced: AtomicBool,
    /// Only plans that run lock this.
    pub(crate) checkpoint: Mutex<CheckpointFile>,
}

/// Whole batches. Keeps what they lie in, also when the segment is deleted.
#[derive(Debug)]
pub struct LogSlice<D: Disk> {
    /// Where they lie. Never empty.
    pub extent: Extent<D>,
    /// Base offset of the first batch. May be below the offset asked for.
    pub base_offset: Offset,
    /// One past the last offset of the last batch.
    pub next_offset: Offset,
}

impl<D: Disk> LogSlice<D> {
    /// How many bytes they have. They are of one segment, so it is less than [`SEGMENT_BYTES_MAX`](crate::SEGMENT_BYTES_MAX).
    ///
    /// # Panics
    /// Never.
    pub fn bytes(&self) -> u32 {
        u32::try_from(self.extent.bytes()).expect("a segment is shorter than 2 GiB")
    }

    /// Reads all of it into memory.
    ///
    /// # Errors
    /// What the disk says; `UnexpectedEof` if the file is shorter than its index says.
    pub fn read(&self) -> std::io::Result<Bytes> {
        let mut buf = vec![0; self.bytes() as usize];
        if self.extent.read_at(&mut buf, 0)? < buf.len() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(buf.into())
    }
}

impl<D: Disk> LogReader<D> {
    /// Whole batches of one segment: from the batch that holds `from` (or the next one, if compaction left a hole), all
    /// below `upto`, at most `bytes_max` bytes. `upto` is the high watermark or the last stable offset. With
    /// `at_least_one` the first batch is given even if it is larger (KIP-74). `None` if there is nothing to give now.
    ///
    /// Batches without records, which compaction leaves behind, are passed over unless nothing else is left below `upto`:
    /// librdkafka takes an answer without any record for one whose size limit is too low, doubles the limit, and gives up
    /// when it cannot any more.
    ///
    /// Costs one or two preads of index rows at the end of the log, a binary search elsewhere. No batch is decoded, and none is
    /// checked unless [`LogStore::set_verify_reads`] has it so; then less may be given at once.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] below the log start or above the log end; [`LogError::Damaged`] for a batch that is known to be damaged,
    /// and for an index row with a wrong checksum (see [`Log::repair_index`](crate::Log::repair_index)).
    pub fn read(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: u64,
        at_least_one: bool,
    ) -> Result<Option<LogSlice<D>>, LogError> {
        self.retrying(|segments| {
            self.check_range(from)?;
            let upto = upto.min(self.log_end().offset());
            if from >= upto {
                return Ok(None);
            }
            // What is damaged is not served, and hides nothing: whoever reads up to it is told.
            let damaged = self.damage.within(from, upto);
            let upto = match &damaged {
                Some(range) if range.base_offset <= from => return Err(range.damage.to_error()),
                Some(range) => range.base_offset,
                None => upto,
            };
            let bounds = Bounds { from, upto, bytes_max, at_least_one };
            let mut nearest = None;
            for segment in &segments[segment_of(segments, from)..] {
                if segment.base_offset >= upto {
                    break;
                }
                match self.read_segment(segment, &bounds, First::WithRecords)? {
                    Found::Batch(Some(slice)) => return Ok(Some(slice)),
                    Found::Batch(None) => return Ok(None),
                    Found::Beyond => {
                        nearest = nearest.or(Some(segment));
                        break;
                    }
                    Found::OnlyEmpty => nearest = nearest.or(Some(segment)),
                    Found::NotHere => {}
                }
            }
            let found = nearest.map(|segment| self.read_segment(segment, &bounds, First::Any)).transpose()?;
            match (found, damaged) {
                (Some(Found::Batch(slice)), _) => Ok(slice),
                (_, Some(range)) => Err(range.damage.to_error()),
                (_, None) => Ok(None),
            }
        })
    }

    fn read_segment(
        &self,
        segment: &Arc<Segment<D>>,
        bounds: &Bounds,
        wanted: First,
    ) -> Result<Found<D>, LogError> {
        let &Bounds { from, upto, bytes_max, at_least_one } = bounds;
        let files = self.files(segment)?;
        let mut rows = Rows::new(segment, &files);
        let mut number = rows.first_where(|row| row.next_offset() > from)?;
        if number == rows.count {
            return Ok(Found::NotHere);
        }
        let mut first = rows.get(number)?;
        while wanted == First::WithRecords && first.record_count == 0 {
            number += 1;
            if number == rows.count || first.next_offset() >= upto {
                return Ok(Found::OnlyEmpty);
            }
            first = rows.get_ahead(number)?;
        }
        if first.next_offset() > upto {
            return Ok(Found::Beyond);
        }
        if u64::from(first.batch_bytes) > bytes_max && !at_least_one {
            return Ok(Found::Batch(None));
        }
        let fits = |row: &crate::Row| {
            row.next_offset() <= upto && u64::from(row.end_position() - first.position) <= bytes_max
        };
        let last = rows.last_where(number, fits)?;
        let last = self.verify(segment, &files, &mut rows, number, last)?;
        let (position, bytes) = (u64::from(first.position), last.end_position() - first.position);
        let (base_offset, next_offset) = (first.base_offset, last.next_offset());
        let extent = Extent::new(files, position, bytes.into());
        Ok(Found::Batch(Some(LogSlice { extent, base_offset, next_offset })))
    }

    /// Runs `read` on the current segments; again if they were truncated or removed meanwhile and it failed.
    pub(crate) fn retrying<T>(
        &self,
        read: impl Fn(&SegmentList<D>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut tries = 0;
        loop {
            let generation = self.generation.load(Acquire);
            let segments = self.segments.load_full();
            let result = read(&segments);
            tries += 1;
            let disturbed =
                generation != self.generation.load(Acquire) || !Arc::ptr_eq(&segments, &self.segments.load());
            match result {
                Err(LogError::Damaged { .. } | LogError::Io { .. }) if disturbed && tries <= RETRIES_MAX => {}
                result => return result,
            }
        }
    }

    fn check_range(&self, offset: Offset) -> Result<(), LogError> {
        let (log_start, log_end) = (self.log_start(), self.log_end());
        if offset < log_start || offset > log_end.offset() {
            return Err(LogError::OutOfRange { requested: offset, log_start, log_end });
        }
        Ok(())
    }

    /// Kafka's answer to OffsetForLeaderEpoch: the largest known epoch up to `epoch`, and one past its last offset
    /// (`upto` for the newest). `None` for an epoch above all known ones.
    pub fn epoch_end(&self, epoch: LeaderEpoch, upto: Offset) -> Option<(LeaderEpoch, Offset)> {
        epochs::epoch_end(&self.epochs.load(), epoch, upto)
    }

    /// The epoch of `offset`, or of the next record to come if `offset` is the log end. `None` below the first known.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        epochs::epoch_at(&self.epochs.load(), offset)
    }

    /// Epochs and the first offset of each, ascending.
    pub fn epochs(&self) -> Arc<Vec<(LeaderEpoch, Offset)>> {
        self.epochs.load_full()
    }

    /// First offset that may be read.
    pub fn log_start(&self) -> Offset {
        Offset(self.log_start.load(Acquire))
    }

    /// One past the last offset appended.
    pub fn log_end(&self) -> LogEnd {
        LogEnd(self.log_end.load(Acquire))
    }

    /// Compaction has seen to everything below. 0 if there was none.
    pub fn first_dirty(&self) -> Offset {
        Offset(self.first_dirty.load(Acquire))
    }

    /// One past the last offset of what compaction has rewritten, or was copied from another replica. 0 if nothing was.
    pub fn compacted_end(&self) -> Offset {
        let segments = self.segments.load();
        let compacted = segments.iter().filter(|s| s.generation > 0);
        compacted.map(|s| s.end_offset()).max().unwrap_or_default()
    }

    /// Where the first segment begins that was not removed: at the log start or below. The log end if there is none.
    pub fn first_kept(&self) -> Offset {
        self.segments.load().first().map_or(self.log_end().offset(), |segment| segment.base_offset)
    }

    /// Bytes of batches that were written since the log was opened, also those that were cut off again. They may be in the page
    /// cache only.
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(Relaxed)
    }

    /// How often a segment was begun, or closed for its age, since the log was opened: each is a good moment for a checkpoint.
    pub fn rolls(&self) -> u64 {
        self.rolls.load(Relaxed)
    }

    /// Bytes in all `.log` files.
    pub fn size_bytes(&self) -> u64 {
        self.segments.load().iter().map(|s| u64::from(s.bytes())).sum()
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.load().len()
    }

    /// Whose log it is.
    pub fn identity(&self) -> &PartitionIdentity {
        &self.identity
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The open files of a segment. What building its index found damaged is out of service from then on.
    pub(crate) fn files(&self, segment: &Arc<Segment<D>>) -> Result<Arc<SegmentFiles<D>>, LogError> {
        let files = match segment.files(&self.store) {
            Err(LogError::Io { path, source, .. }) if self.is_missing(segment, &path, &source) => {
                Err(LogError::damaged(&path, 0, "the file is missing"))
            }
            files => files,
        };
        let files = note(self, segment, files)?;
        for Suspect { row, reason } in segment.take_suspects() {
            let error = LogError::damaged(&segment.path(Kind::Log), u64::from(row.position), reason);
            self.condemn_batch(&row, &error);
        }
        Ok(files)
    }

    /// True if somebody has removed the `.log` of a segment that is in use.
    fn is_missing(&self, segment: &Arc<Segment<D>>, path: &Path, error: &std::io::Error) -> bool {
        let is_gone = error.kind() == std::io::ErrorKind::NotFound && segment.path(Kind::Log) == path;
        is_gone && self.segments.load().iter().any(|other| Arc::ptr_eq(other, segment))
    }

    pub(crate) fn set_log_end(&self, end: Offset) {
        self.log_end.store(end.0, Release);
    }

    pub(crate) fn read_header(
        &self,
        segment: &Segment<D>,
        files: &SegmentFiles<D>,
        row: &crate::Row,
    ) -> Result<tailrace_records::BatchHeader, LogError> {
        let path = segment.path(Kind::Log);
        let mut buf = [0; tailrace_records::HEADER_BYTES];
        let position = u64::from(row.position);
        let read = read_batch_bytes(&files.log, &path, &mut buf, position)?;
        let header = tailrace_records::BatchHeader::parse(&buf[..read])
            .map_err(|error| LogError::damaged(&path, position, error.to_string()))?;
        if !row.describes(&header) {
            return Err(LogError::damaged(
                &path,
                position,
                "the batch is not the one its index row describes",
            ));
        }
        Ok(header)
    }
}

/// What is asked for.
struct Bounds {
    from: Offset,
    upto: Offset,
    bytes_max: u64,
    at_least_one: bool,
}

/// Where a slice may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    WithRecords,
    Any,
}

enum Found<D: Disk> {
    /// The offset lies beyond this segment's last batch.
    NotHere,
    /// From the offset on the segment has batches, and no records.
    OnlyEmpty,
    /// The first batch ends beyond what may be read.
    Beyond,
    /// The batch is here; the slice, unless it is too large.
    Batch(Option<LogSlice<D>>),
}

/// Reads bytes of the batch at `position`. What the device cannot give back is damage there.
pub(crate) fn read_batch_bytes<F: crate::DiskFile>(
    file: &F,
    path: &Path,
    buf: &mut [u8],
    position: u64,
) -> Result<usize, LogError> {
    match read_full_at(file, buf, position) {
        Err(error) if is_unreadable(&error) => Err(LogError::damaged(path, position, error.to_string())),
        read => read.context("read", path),
    }
}

/// The number of the segment that holds `offset`, 0 if it lies before all.
pub(crate) fn segment_of<D: Disk>(segments: &SegmentList<D>, offset: Offset) -> usize {
    segments.partition_point(|s| s.base_offset <= offset).saturating_sub(1)
}
