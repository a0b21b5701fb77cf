//! Reads of whole batches, as parts of segments.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_types::Offset;

use crate::batches::read_batch_bytes;
use crate::disk::Disk;
use crate::error::LogError;
use crate::extent::Extent;
use crate::format::names::Kind;
use crate::reach::Reach;
use crate::reader::{LogReader, segment_of};
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};

/// Whole batches. Keeps their file open even after the segment was deleted.
#[derive(Debug)]
pub struct LogSlice<D: Disk> {
    /// Their location. Never empty.
    pub extent: Extent<D>,
    /// Base offset of the first batch. May be below the requested offset.
    pub base_offset: Offset,
    /// One past the last offset of the last batch.
    pub next_offset: Offset,
}

impl<D: Disk> LogSlice<D> {
    /// The total length in bytes. It is less than [`SEGMENT_BYTES_MAX`](crate::SEGMENT_BYTES_MAX), because
    /// the batches are in one segment.
    ///
    /// # Panics
    /// Never.
    pub fn bytes(&self) -> u32 {
        u32::try_from(self.extent.bytes()).expect("a segment is shorter than 2 GiB")
    }

    /// Reads all batches into memory.
    ///
    /// # Errors
    /// The disk's errors. `UnexpectedEof` if the file is shorter than its index says.
    pub fn read(&self) -> std::io::Result<Bytes> {
        let mut buf = vec![0; self.bytes() as usize];
        if self.extent.read_at(&mut buf, 0)? < buf.len() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(buf.into())
    }
}

impl<D: Disk> LogReader<D> {
    /// Returns whole batches of one segment, starting with the batch that holds `from` (or the next one after
    /// a hole of compaction), all below `upto`, at most `bytes_max` bytes. `upto` is the high watermark or
    /// the last stable offset. With `at_least_one`, the first batch is returned even if it is larger
    /// (KIP-74). `None` if there is nothing to return now.
    ///
    /// Skips batches without records, which compaction leaves behind, unless nothing else is left below
    /// `upto`. If a response holds no record at all, librdkafka assumes that its size limit is too low. It
    /// doubles the limit, and gives up when it cannot double it any more.
    ///
    /// Costs one or two preads of index rows at the end of the log, and a binary search elsewhere. Decodes no
    /// batch, and checks none unless `LogStore::set_verify_reads` requires it. In that case it may return
    /// less at once.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] below the log start or above the log end. [`LogError::Damaged`] for a batch
    /// that is known to be damaged, and for an index row with a wrong checksum (see
    /// [`Log::repair_index`](crate::Log::repair_index)).
    pub fn read(
        &self,
        from: Offset,
        upto: Offset,
        bytes_max: u64,
        at_least_one: bool,
    ) -> Result<Option<LogSlice<D>>, LogError> {
        self.read_within(Reach::Disk, from, upto, bytes_max, at_least_one)
    }

    /// Like [`LogReader::read`], within `reach`. Checks required by [`LogStore::set_verify_reads`] read from
    /// the disk all the same.
    ///
    /// # Errors
    /// Those of [`LogReader::read`], and [`LogError::NotAtHand`].
    ///
    /// [`LogStore::set_verify_reads`]: crate::LogStore::set_verify_reads
    pub fn read_within(
        &self,
        reach: Reach,
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
            // Damage is not served, and is not hidden either: a reader that reaches it gets an error.
            let damaged = self.damage.within(from, upto);
            let upto = match &damaged {
                Some(range) if range.base_offset <= from => return Err(range.damage.to_error()),
                Some(range) => range.base_offset,
                None => upto,
            };
            let bounds = Bounds { reach, from, upto, bytes_max, at_least_one };
            let mut nearest = None;
            for segment in &segments[segment_of(segments, from)..] {
                if segment.base_offset >= upto {
                    break;
                }
                match self.read_segment(segment, &bounds, First::WithRecords)? {
                    SegmentHit::Batch(Some(slice)) => return Ok(Some(slice)),
                    SegmentHit::Batch(None) => return Ok(None),
                    SegmentHit::Beyond => {
                        nearest = nearest.or(Some(segment));
                        break;
                    }
                    SegmentHit::OnlyEmpty => nearest = nearest.or(Some(segment)),
                    SegmentHit::NotHere => {}
                }
            }
            let found = nearest.map(|segment| self.read_segment(segment, &bounds, First::Any)).transpose()?;
            match (found, damaged) {
                (Some(SegmentHit::Batch(slice)), _) => Ok(slice),
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
    ) -> Result<SegmentHit<D>, LogError> {
        let &Bounds { reach, from, upto, bytes_max, at_least_one } = bounds;
        let files = self.files_within(reach, segment)?;
        let mut rows = Rows::within(reach, segment, &files);
        let mut number = rows.first_where(|row| row.next_offset() > from)?;
        if number == rows.count {
            return Ok(SegmentHit::NotHere);
        }
        let mut first = rows.get(number)?;
        while wanted == First::WithRecords && first.record_count == 0 {
            number += 1;
            if number == rows.count || first.next_offset() >= upto {
                return Ok(SegmentHit::OnlyEmpty);
            }
            first = rows.get_ahead(number)?;
        }
        if first.next_offset() > upto {
            return Ok(SegmentHit::Beyond);
        }
        if u64::from(first.batch_bytes) > bytes_max && !at_least_one {
            return Ok(SegmentHit::Batch(None));
        }
        let fits = |row: &crate::Row| {
            row.next_offset() <= upto && u64::from(row.end_position() - first.position) <= bytes_max
        };
        let last = rows.last_where(number, fits)?;
        let last = self.verify(segment, &files, &mut rows, number, last)?;
        let (position, bytes) = (u64::from(first.position), last.end_position() - first.position);
        let (base_offset, next_offset) = (first.base_offset, last.next_offset());
        let extent = Extent::new(files, position, bytes.into());
        Ok(SegmentHit::Batch(Some(LogSlice { extent, base_offset, next_offset })))
    }

    fn check_range(&self, offset: Offset) -> Result<(), LogError> {
        let (log_start, log_end) = (self.log_start(), self.log_end());
        if offset < log_start || offset > log_end.offset() {
            return Err(LogError::OutOfRange { requested: offset, log_start, log_end });
        }
        Ok(())
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

/// A request for batches.
struct Bounds {
    reach: Reach,
    from: Offset,
    upto: Offset,
    bytes_max: u64,
    at_least_one: bool,
}

/// Where a slice may start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    WithRecords,
    Any,
}

enum SegmentHit<D: Disk> {
    /// The offset is beyond this segment's last batch.
    NotHere,
    /// From the offset on, the segment has batches but no records.
    OnlyEmpty,
    /// The first batch ends beyond what may be read.
    Beyond,
    /// The batch is here. Holds the slice, unless it is too large.
    Batch(Option<LogSlice<D>>),
}
