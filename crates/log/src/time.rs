//! Lookups by time. The rows lead to one batch; that batch is decoded to find the record.

use std::sync::Arc;

use tailrace_records::{DecodedBatch, TimestampType};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs};

use crate::disk::{Disk, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::row::Row;
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};

/// Most bytes that one batch may decompress to here.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// A record found by its time.
type TimedOffset = (Offset, TimestampMs, LeaderEpoch);

impl<D: Disk> LogReader<D> {
    /// The first record in offset order, from the log start on and below `upto`, whose timestamp is at least
    /// `timestamp`. Blocks on the disk; decodes the batch it is in.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for a bad row or batch.
    pub fn offset_for_time(
        &self,
        timestamp: TimestampMs,
        upto: Offset,
    ) -> Result<Option<TimedOffset>, LogError> {
        self.retrying(|segments| {
            let start = self.log_start();
            let upto = upto.min(self.log_end().offset());
            for segment in segments.iter() {
                if segment.end_offset() <= start || segment.max_timestamp() < timestamp {
                    continue;
                }
                if segment.base_offset >= upto {
                    break;
                }
                let found = self.time_in_segment(segment, timestamp, start)?;
                if found.is_some() {
                    return Ok(found.filter(|found| found.0 < upto));
                }
            }
            Ok(None)
        })
    }

    fn time_in_segment(
        &self,
        segment: &Arc<Segment<D>>,
        timestamp: TimestampMs,
        start: Offset,
    ) -> Result<Option<TimedOffset>, LogError> {
        let files = self.files(segment)?;
        let mut rows = Rows::new(segment, &files);
        let first = rows.first_where(|row| row.running_max_timestamp >= timestamp)?;
        // Mostly the first row is it. Not if its records at or after the time lie below the log start.
        for number in first..rows.count {
            let row = rows.get_ahead(number)?;
            if row.max_timestamp < timestamp || row.next_offset() <= start {
                continue;
            }
            let found = self.time_in_batch(segment, &files, &row, timestamp, start)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn time_in_batch(
        &self,
        segment: &Segment<D>,
        files: &SegmentFiles<D>,
        row: &Row,
        timestamp: TimestampMs,
        start: Offset,
    ) -> Result<Option<TimedOffset>, LogError> {
        let has_gaps = row.record_count != row.last_offset_delta.saturating_add(1);
        if row.attributes.timestamp_type() == TimestampType::LogAppendTime && !has_gaps {
            return Ok(Some((row.base_offset.max(start), row.max_timestamp, row.leader_epoch)));
        }
        let path = segment.path(Kind::Log);
        let position = u64::from(row.position);
        let mut bytes = vec![0; row.batch_bytes as usize];
        let read = read_full_at(&files.log, &mut bytes, position).context("read", &path)?;
        let damaged =
            |error: tailrace_records::BatchError| LogError::damaged(&path, position, error.to_string());
        let batch = DecodedBatch::new(&bytes[..read], DECOMPRESSED_BYTES_MAX).map_err(damaged)?;
        for record in batch.records() {
            let record = record.map_err(damaged)?;
            if record.timestamp >= timestamp && record.offset >= start {
                return Ok(Some((record.offset, record.timestamp, row.leader_epoch)));
            }
        }
        Ok(None)
    }

    /// The first record with the largest timestamp below `upto`. `None` if no record has a timestamp.
    ///
    /// # Errors
    /// As [`LogReader::offset_for_time`].
    pub fn max_timestamp(&self, upto: Offset) -> Result<Option<TimedOffset>, LogError> {
        let largest = self.retrying(|segments| {
            let upto = upto.min(self.log_end().offset());
            let mut largest = TimestampMs::NONE;
            for segment in segments.iter().filter(|s| s.base_offset < upto) {
                if segment.end_offset() <= upto {
                    largest = largest.max(segment.max_timestamp());
                    continue;
                }
                let files = self.files(segment)?;
                let mut rows = Rows::new(segment, &files);
                let end = rows.first_where(|row| row.next_offset() > upto)?;
                if let Some(last) = end.checked_sub(1) {
                    largest = largest.max(rows.get(last)?.running_max_timestamp);
                }
            }
            Ok(largest)
        })?;
        if largest.0 < 0 {
            return Ok(None);
        }
        match self.offset_for_time(largest, upto)? {
            // The segment's largest timestamp lies below the log start.
            None => self.max_timestamp_by_rows(upto),
            found => Ok(found),
        }
    }

    /// The same by looking at every row from the log start on. Only after DeleteRecords within a segment.
    fn max_timestamp_by_rows(&self, upto: Offset) -> Result<Option<TimedOffset>, LogError> {
        let largest = self.retrying(|segments| {
            let (start, upto) = (self.log_start(), upto.min(self.log_end().offset()));
            let mut largest = TimestampMs::NONE;
            for segment in segments.iter().filter(|s| s.end_offset() > start && s.base_offset < upto) {
                let files = self.files(segment)?;
                let mut rows = Rows::new(segment, &files);
                // A batch that straddles the log start does not count: which of its records are above it is unknown here.
                for number in rows.first_where(|row| row.base_offset >= start)?..rows.count {
                    let row = rows.get_ahead(number)?;
                    if row.next_offset() <= upto {
                        largest = largest.max(row.max_timestamp);
                    }
                }
            }
            Ok(largest)
        })?;
        if largest.0 < 0 { Ok(None) } else { self.offset_for_time(largest, upto) }
    }
}
