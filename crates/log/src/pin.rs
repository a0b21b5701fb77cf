//! The source of a copy of a log: its segments up to an offset, which stay readable after they leave the log.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tailrace_types::{Offset, RaftIndex, TimestampMs};

use crate::disk::{Disk, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::log::Log;
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};
use crate::trim::Trim;

/// The description of a segment for another copy of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The offset in its name. Its first batch starts here, or later in a compacted segment.
    pub base_offset: Offset,
    /// One past the last offset of its last batch, where the next segment starts.
    pub end_offset: Offset,
    /// Raft index of its first batch.
    pub first_raft_index: RaftIndex,
    /// Above the raft index of its last batch, and at most that of the next segment's first batch.
    pub next_raft_index: RaftIndex,
    /// Length of its `.log` in bytes.
    pub bytes: u32,
    /// The number of batches.
    pub rows: u32,
    /// When it was created.
    pub created: TimestampMs,
    /// When it was last appended to.
    pub modified: TimestampMs,
}

/// A segment to be copied.
pub struct SegmentPin<D: Disk> {
    reader: Arc<LogReader<D>>,
    segment: Arc<Segment<D>>,
    info: SegmentInfo,
    /// Its files, once it has left the log.
    kept: OnceLock<Arc<SegmentFiles<D>>>,
}

impl<D: Disk> SegmentPin<D> {
    /// Returns the description of what is to be copied.
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    /// Reads up to `bytes_max` bytes from `position`. Does not need the log's lock.
    ///
    /// # Errors
    /// The disk's errors. [`LogError::Damaged`] if the file is shorter than it should be.
    pub fn read(&self, position: u32, bytes_max: usize) -> Result<Bytes, LogError> {
        let left = self.info.bytes.saturating_sub(position) as usize;
        let mut bytes = vec![0; left.min(bytes_max)];
        self.reader.refuse_wrong(self.info.base_offset, self.info.end_offset)?;
        let files = match self.kept.get() {
            Some(files) => Arc::clone(files),
            None => self.reader.files(&self.segment)?,
        };
        let path = self.segment.path(Kind::Log);
        let read = read_full_at(&files.log, &mut bytes, u64::from(position)).context("read", &path)?;
        if read < bytes.len() {
            let reason = format!("it ends {} bytes early", bytes.len() - read);
            return Err(LogError::damaged(&path, u64::from(position) + read as u64, reason));
        }
        Ok(bytes.into())
    }

    /// Keeps the files open if `trim` is about to remove them. Call it before [`Trim::run`].
    pub fn keep(&self, trim: &Trim<D>) {
        let goes = trim.segments.iter().any(|segment| Arc::ptr_eq(segment, &self.segment));
        // Files that cannot be opened are lost for the copy, and reading reports that.
        if goes && let Ok(files) = self.reader.files(&self.segment) {
            let _ = self.kept.set(files);
        }
    }
}

impl<D: Disk> Log<D> {
    /// Returns the segments with all batches below `end`. A batch must start at `end`, or the log must end
    /// there. `next_raft_index` is the raft index of what follows.
    ///
    /// # Errors
    /// The disk's errors. [`LogError::Damaged`] for an index row with a wrong checksum.
    pub fn pin(&self, end: Offset, next_raft_index: RaftIndex) -> Result<Vec<SegmentPin<D>>, LogError> {
        let list = self.reader.segments.load_full();
        let listed = list.iter().filter(|s| s.rows() > 0).take_while(|s| s.base_offset < end);
        let segments: Vec<_> = listed.cloned().collect();
        let mut pins = Vec::with_capacity(segments.len());
        for (number, segment) in segments.iter().enumerate() {
            self.reader.refuse_wrong(segment.base_offset, segment.end_offset().min(end))?;
            let next = segments.get(number + 1).map_or(next_raft_index, |next| next.first_raft_index);
            let mut info = SegmentInfo {
                base_offset: segment.base_offset,
                end_offset: segment.end_offset(),
                first_raft_index: segment.first_raft_index,
                next_raft_index: next,
                bytes: segment.bytes(),
                rows: segment.rows(),
                created: segment.created,
                modified: segment.modified(),
            };
            if info.end_offset > end {
                let files = self.reader.files(segment)?;
                let mut rows = Rows::new(segment, &files);
                info.rows = rows.first_where(|row| row.next_offset() > end)?;
                let Some(last) = info.rows.checked_sub(1) else { break };
                let last = rows.get(last)?;
                (info.end_offset, info.bytes) = (last.next_offset(), last.end_position());
            }
            let (reader, segment) = (Arc::clone(&self.reader), Arc::clone(segment));
            pins.push(SegmentPin { reader, segment, info, kept: OnceLock::new() });
        }
        Ok(pins)
    }
}
