//! Reads the batches of one segment in order. Reads rows and bytes in large chunks.

use std::sync::Arc;

use tailrace_records::{BatchError, BatchHeader, Compression, HEADER_BYTES, check, decompress};
use tailrace_types::{DECOMPRESSED_BYTES_MAX, usize_of};

use super::pace::Pace;
use crate::disk::{Disk, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::row::{ROW_BYTES, Row};
use crate::reader::LogReader;
use crate::segment::{Segment, SegmentFiles};

/// Rows per read: 64 KiB.
const ROWS_AT_ONCE: u32 = 1024;

/// The largest buffer of decompressed records that is kept for the next batch.
const SCRATCH_BYTES_KEPT: usize = 8 << 20;

pub(crate) struct Source<'s, D: Disk> {
    segment: &'s Arc<Segment<D>>,
    files: Arc<SegmentFiles<D>>,
    rows: u32,
    next: u32,
    window: Vec<u8>,
    window_first: u32,
    window_rows: u32,
    bytes: Vec<u8>,
    /// Position of `bytes` in the `.log`.
    position: u64,
    chunk_bytes: usize,
}

/// A batch that was read, and its location.
pub(crate) struct SourceBatch<'b, D: Disk> {
    pub(crate) header: BatchHeader,
    pub(crate) bytes: &'b [u8],
    segment: &'b Segment<D>,
    position: u64,
}

impl<D: Disk> SourceBatch<'_, D> {
    /// Returns its uncompressed records, in `scratch` if they were compressed. The bound is the most that any
    /// setting allows, because the setting may have been higher when the batch was accepted.
    ///
    /// # Errors
    /// [`LogError::ExpandsTooLarge`] for a batch that was accepted elsewhere. It ends the round, so that
    /// nothing from there on is removed. If compaction continued past the batch, a later tombstone could be
    /// removed one day, and the older value in the batch would come back.
    pub(crate) fn body<'s>(&'s self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], LogError> {
        let body = &self.bytes[HEADER_BYTES..];
        let compression = self.header.attributes.compression().map_err(|error| self.damaged(&error))?;
        if compression == Compression::None {
            return Ok(body);
        }
        if scratch.capacity() > SCRATCH_BYTES_KEPT {
            *scratch = Vec::new();
        }
        decompress(compression, body, DECOMPRESSED_BYTES_MAX, scratch)
            .map_err(|error| LogError::of_batch(&self.segment.path(Kind::Log), self.position, &error))?;
        Ok(scratch)
    }

    /// Returns the error with the batch's location.
    pub(crate) fn damaged(&self, error: &BatchError) -> LogError {
        LogError::damaged(&self.segment.path(Kind::Log), self.position, error.to_string())
    }
}

impl<'s, D: Disk> Source<'s, D> {
    /// Reads `chunk_bytes` at once, or one batch if it is larger.
    pub(crate) fn open(
        reader: &LogReader<D>,
        segment: &'s Arc<Segment<D>>,
        chunk_bytes: usize,
    ) -> Result<Self, LogError> {
        reader.refuse_wrong(segment.base_offset, segment.end_offset())?;
        Ok(Self {
            files: reader.files(segment)?,
            segment,
            rows: segment.rows(),
            next: 0,
            window: Vec::new(),
            window_first: 0,
            window_rows: 0,
            bytes: Vec::new(),
            position: 0,
            chunk_bytes,
        })
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, LogError> {
        if self.next >= self.rows {
            return Ok(None);
        }
        if self.next >= self.window_first + self.window_rows {
            let count = (self.rows - self.next).min(ROWS_AT_ONCE);
            self.window.resize(count as usize * ROW_BYTES, 0);
            self.segment.read_rows(&self.files, self.next, &mut self.window)?;
            (self.window_first, self.window_rows) = (self.next, count);
        }
        let at = (self.next - self.window_first) as usize * ROW_BYTES;
        let row = self.segment.decode_row(self.next, &self.window[at..])?;
        self.next += 1;
        Ok(Some(row))
    }

    /// True after the last row was returned.
    pub(crate) fn is_at_end(&self) -> bool {
        self.next >= self.rows
    }

    /// Returns the batch of a row, checked.
    pub(crate) fn batch(&mut self, row: &Row, pace: &mut impl Pace) -> Result<SourceBatch<'_, D>, LogError> {
        let (position, bytes) = (u64::from(row.position), row.batch_bytes as usize);
        let path = || self.segment.path(Kind::Log);
        let buffered =
            position >= self.position && position + bytes as u64 <= self.position + self.bytes.len() as u64;
        if !buffered {
            let left = u64::from(self.segment.bytes()).saturating_sub(position);
            let want = usize_of(left).min(self.chunk_bytes.max(bytes)).max(bytes);
            self.bytes.resize(want, 0);
            self.position = position;
            let read = read_full_at(&self.files.log, &mut self.bytes, position);
            let read = match read.context("read", &path()) {
                Ok(read) => read,
                Err(error) => {
                    self.bytes.clear();
                    return Err(error);
                }
            };
            self.bytes.truncate(read);
            pace.spend(read as u64)?;
        }
        let at = (position - self.position) as usize;
        let Some(batch) = self.bytes.get(at..at + bytes) else {
            return Err(LogError::damaged(&path(), position, "the file ends early"));
        };
        let header = check(batch).map_err(|error| LogError::damaged(&path(), position, error.to_string()))?;
        if !row.describes(&header) {
            let reason = "the batch is not the one its index row describes";
            return Err(LogError::damaged(&path(), position, reason));
        }
        Ok(SourceBatch { header, bytes: batch, segment: self.segment, position })
    }
}
