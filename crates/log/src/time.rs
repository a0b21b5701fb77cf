//! Lookups by time. The rows lead to one batch; that batch is decoded to find the record.
//!
//! Where that batch cannot be looked into, its first offset is the answer: its row, which has a checksum of its own, says that a record of that
//! time is in it. Who reads from there on misses none, and is told by the read what is wrong with the batch, or gets its records if it is whole
//! again by then. To pass over the batch would hide them.

use std::cell::Cell;
use std::sync::Arc;

use tailrace_records::{BatchError, DecodedBatch, TimestampType};
use tailrace_types::{DECOMPRESSED_BYTES_MAX, LeaderEpoch, Offset, TimestampMs};

use crate::batches::read_batch_bytes;
use crate::damage::Damage;
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::names::Kind;
use crate::format::row::Row;
use crate::reader::{LogReader, SegmentList};
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};

/// A record found by its time.
type TimedOffset = (Offset, TimestampMs, LeaderEpoch);

/// What is looked for: the first record from `start` on and below `upto` whose timestamp is at least `timestamp`.
struct TimeQuery<'a> {
    timestamp: TimestampMs,
    start: Offset,
    upto: Offset,
    /// The answer, if what the record must be in cannot be looked into.
    closed: &'a Cell<Option<TimedOffset>>,
}

impl<D: Disk> LogReader<D> {
    /// The first record in offset order, from the log start on and below `upto`, whose timestamp is at least
    /// `timestamp`. Blocks on the disk; decodes the batch it is in. If that is damaged, or expands to more than any setting
    /// allows: its first offset, and its largest timestamp.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for a bad row.
    pub fn offset_for_time(
        &self,
        timestamp: TimestampMs,
        upto: Offset,
    ) -> Result<Option<TimedOffset>, LogError> {
        let closed = Cell::new(None);
        let found = self.retrying(|segments| {
            closed.set(None);
            let upto = upto.min(self.log_end().offset());
            self.time_in(segments, &TimeQuery { timestamp, start: self.log_start(), upto, closed: &closed })
        });
        match (found, closed.get()) {
            // It stayed so when it was read again: nobody had cut off or removed it meanwhile.
            (Err(error), Some(first)) => {
                self.condemn_by(&error);
                Ok(Some(first))
            }
            (found, _) => found,
        }
    }

    fn time_in(
        &self,
        segments: &SegmentList<D>,
        wanted: &TimeQuery<'_>,
    ) -> Result<Option<TimedOffset>, LogError> {
        if wanted.start >= wanted.upto {
            return Ok(None);
        }
        for segment in segments {
            if segment.end_offset() <= wanted.start || segment.max_timestamp() < wanted.timestamp {
                continue;
            }
            if segment.base_offset >= wanted.upto {
                break;
            }
            let found = self.time_in_segment(segment, wanted)?;
            if found.is_some() {
                return Ok(found.filter(|found| found.0 < wanted.upto));
            }
        }
        Ok(None)
    }

    fn time_in_segment(
        &self,
        segment: &Arc<Segment<D>>,
        wanted: &TimeQuery<'_>,
    ) -> Result<Option<TimedOffset>, LogError> {
        let files = self.files(segment).inspect_err(|error| {
            // An index is built again soon. A `.log` that is gone may stay so.
            if Damage::of(error).is_some_and(|damage| damage.file == segment.path(Kind::Log)) {
                let first = segment.base_offset.max(wanted.start);
                let epoch = self.epoch_at(first).unwrap_or(LeaderEpoch::UNKNOWN);
                wanted.closed.set(Some((first, segment.max_timestamp(), epoch)));
            }
        })?;
        let mut rows = Rows::new(segment, &files);
        let first = rows.first_where(|row| row.running_max_timestamp >= wanted.timestamp)?;
        // Mostly the first row is it. Not if its records at or after the time lie below the log start.
        for number in first..rows.count {
            let row = rows.get_ahead(number)?;
            // What lies beyond may be overwritten.
            if row.base_offset >= wanted.upto {
                break;
            }
            if row.max_timestamp < wanted.timestamp || row.next_offset() <= wanted.start {
                continue;
            }
            let found = self.time_in_batch(segment, &files, &row, wanted)?;
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
        wanted: &TimeQuery<'_>,
    ) -> Result<Option<TimedOffset>, LogError> {
        let first = (row.base_offset.max(wanted.start), row.max_timestamp, row.leader_epoch);
        let has_gaps = row.record_count != row.last_offset_delta.saturating_add(1);
        if row.attributes.timestamp_type() == TimestampType::LogAppendTime && !has_gaps {
            return Ok(Some(first));
        }
        let found = find_record(segment, files, row, wanted);
        if let Err(LogError::Damaged { .. } | LogError::ExpandsTooLarge { .. }) = found {
            wanted.closed.set(Some(first));
        }
        found
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

/// Decodes a batch and looks for the record in it.
fn find_record<D: Disk>(
    segment: &Segment<D>,
    files: &SegmentFiles<D>,
    row: &Row,
    wanted: &TimeQuery<'_>,
) -> Result<Option<TimedOffset>, LogError> {
    let (path, position) = (segment.path(Kind::Log), u64::from(row.position));
    let mut bytes = vec![0; row.batch_bytes as usize];
    let read = read_batch_bytes(&files.log, &path, &mut bytes, position)?;
    let failed = |error: BatchError| LogError::of_batch(&path, position, &error);
    let batch = DecodedBatch::new(&bytes[..read], DECOMPRESSED_BYTES_MAX).map_err(failed)?;
    for record in batch.records() {
        let record = record.map_err(failed)?;
        if record.timestamp >= wanted.timestamp && record.offset >= wanted.start {
            return Ok(Some((record.offset, record.timestamp, row.leader_epoch)));
        }
    }
    Ok(None)
}
