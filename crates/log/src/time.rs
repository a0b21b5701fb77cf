//! Lookups by time. The rows lead to one batch, which is decoded to find the record.
//!
//! A lookup runs in steps, because they need different resources. [`LogReader::go_on`] reads the disk, and
//! decodes batches that take little time. Batches that may take long, or much memory, are left to
//! [`Candidate::search`], which waits for nothing and belongs on another thread.
//!
//! If that batch cannot be decoded, the answer is its first offset: its row, which has its own checksum, says
//! that it has a record of that time. A consumer that reads from there misses no record. Its read fails with
//! what is wrong with the batch, or returns the records if the batch is whole again by then. Skipping the
//! batch would hide them.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use tailrace_records::{BatchError, Compression, DecodedBatch, TimestampType};
use tailrace_types::{DECOMPRESSED_BYTES_MAX, LeaderEpoch, Offset, TimestampMs};

use crate::batches::read_batch_bytes;
use crate::damage::Damage;
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::names::Kind;
use crate::format::row::Row;
use crate::reader::{LogReader, RETRIES_MAX, Seen};
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles};

/// A batch up to this size is decoded where it is read, unless it expands to more than
/// [`QUICK_EXPANDED_BYTES`]. Decoding takes about a millisecond.
const QUICK_BATCH_BYTES: u32 = 32 * 1024;

/// See [`QUICK_BATCH_BYTES`].
const QUICK_EXPANDED_BYTES: usize = 256 * 1024;

/// A record found by its time.
type TimedOffset = (Offset, TimestampMs, LeaderEpoch);

/// A lookup by time under way.
pub struct TimeLookup<D: Disk> {
    aim: Aim,
    /// The timestamp to look for, below `upto`. `None` until it is known.
    timestamp: Option<TimestampMs>,
    upto: Offset,
    /// The record is not below this offset.
    passed: Offset,
    /// A batch that could not be decoded.
    closed: Option<Closed<D>>,
    retries: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    AtOrAfter,
    /// The largest timestamp in the segments' metadata, which may be below the log start.
    Largest,
    /// The largest timestamp of the rows above the log start.
    LargestOfRows,
}

/// A batch that could not be decoded, the reason, and its first offset.
struct Closed<D: Disk> {
    error: LogError,
    first: TimedOffset,
    seen: Seen<D>,
}

/// The result of a step of a lookup.
pub enum TimeStep<D: Disk> {
    /// The lookup is done. `None` if there is no such record.
    Found(Option<TimedOffset>),
    /// The lookup needs a batch of this size, which is not read before there is room for it.
    Large {
        /// Its stored size in bytes.
        bytes: usize,
        /// True if it takes more memory when decompressed.
        is_compressed: bool,
    },
    /// The lookup needs to search this batch, which was read.
    Within(Box<Candidate<D>>),
}

/// A batch that was read and must hold a record.
pub struct Candidate<D: Disk> {
    bytes: Vec<u8>,
    path: PathBuf,
    row: Row,
    sought: Sought,
    seen: Seen<D>,
}

/// The result of searching a [`Candidate`].
pub struct Looked<D: Disk> {
    outcome: Result<Option<TimedOffset>, LogError>,
    /// The batch's first offset.
    first: TimedOffset,
    /// The offset after the batch.
    next_offset: Offset,
    bytes_max: usize,
    seen: Seen<D>,
}

/// The target of a search: the first record from `start` on whose timestamp is at least `timestamp`.
#[derive(Clone, Copy)]
struct Sought {
    timestamp: TimestampMs,
    start: Offset,
}

/// A search below `upto`, and its limits.
struct TimeQuery<'a> {
    sought: Sought,
    upto: Offset,
    /// The size of a batch that may be read to be searched elsewhere. `None` if only batches that are quickly
    /// searched are wanted.
    room: Option<usize>,
    /// The answer if the batch that must hold the record cannot be decoded.
    closed: &'a Cell<Option<TimedOffset>>,
}

impl Sought {
    /// Returns the first offset of a batch that may be the answer, with the batch's largest timestamp.
    fn first_of(&self, row: &Row) -> TimedOffset {
        (row.base_offset.max(self.start), row.max_timestamp, row.leader_epoch)
    }

    /// Decodes the batch that `row` describes, whose records may expand to `bytes_max` bytes, and searches
    /// it.
    fn find_in(&self, bytes: &[u8], row: &Row, bytes_max: usize) -> Result<Option<TimedOffset>, BatchError> {
        let batch = DecodedBatch::new(bytes, bytes_max)?;
        for record in batch.records() {
            let record = record?;
            if record.timestamp >= self.timestamp && record.offset >= self.start {
                return Ok(Some((record.offset, record.timestamp, row.leader_epoch)));
            }
        }
        Ok(None)
    }
}

impl<D: Disk> TimeLookup<D> {
    /// Looks for the first record in offset order, from the log start up to `upto`, whose timestamp is at
    /// least `timestamp`. If its batch is damaged, or expands to more than any setting allows, the answer is
    /// the batch's first offset and largest timestamp.
    pub fn at_or_after(timestamp: TimestampMs, upto: Offset) -> Self {
        Self { timestamp: Some(timestamp), ..Self::of(Aim::AtOrAfter, upto) }
    }

    /// Looks for the first record with the largest timestamp below `upto`. There is none if no record has a
    /// timestamp.
    pub fn largest(upto: Offset) -> Self {
        Self::of(Aim::Largest, upto)
    }

    fn of(aim: Aim, upto: Offset) -> Self {
        Self { aim, timestamp: None, upto, passed: Offset(0), closed: None, retries: 0 }
    }

    /// Takes the result of a search of the batch that [`LogReader::go_on`] returned. Returns the record if it
    /// was found. Otherwise the lookup continues.
    pub fn note(&mut self, looked: Looked<D>) -> Option<TimedOffset> {
        match looked.outcome {
            Ok(Some(found)) if found.0 < self.upto => return Some(found),
            // No earlier record matches.
            Ok(Some(_)) => self.passed = self.upto,
            Ok(None) => self.passed = looked.next_offset,
            Err(error) => self.closed = Some(Closed { error, first: looked.first, seen: looked.seen }),
        }
        None
    }
}

impl<D: Disk> Candidate<D> {
    /// Searches the batch, whose records may expand to `bytes_max` bytes. Does not use the disk.
    pub fn search(self, bytes_max: usize) -> Looked<D> {
        let found = self.sought.find_in(&self.bytes, &self.row, bytes_max);
        Looked {
            outcome: found.map_err(|e| LogError::of_batch(&self.path, u64::from(self.row.position), &e)),
            first: self.sought.first_of(&self.row),
            next_offset: self.row.next_offset(),
            bytes_max,
            seen: self.seen,
        }
    }
}

impl<D: Disk> Looked<D> {
    /// True if the records expand to more bytes than allowed, although a setting may have allowed more when
    /// the batch was accepted.
    pub fn is_cut(&self) -> bool {
        self.bytes_max < DECOMPRESSED_BYTES_MAX
            && matches!(self.outcome, Err(LogError::ExpandsTooLarge { .. }))
    }
}

impl<D: Disk> LogReader<D> {
    /// Continues a lookup as far as is quick once the disk has returned the data. Blocks on the disk. With
    /// `room`, this many bytes of a batch may be read for [`Candidate::search`], and no batch is searched
    /// here.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for a bad row. The disk's errors.
    pub fn go_on(&self, lookup: &mut TimeLookup<D>, room: Option<usize>) -> Result<TimeStep<D>, LogError> {
        if let Some(closed) = lookup.closed.take() {
            if lookup.retries >= RETRIES_MAX || !self.is_disturbed_since(&closed.seen) {
                // A repeated read gave the same result, and nothing was truncated or removed in the meantime.
                self.condemn_by(&closed.error);
                return Ok(TimeStep::Found(Some(closed.first)));
            }
            lookup.retries += 1;
        }
        loop {
            let timestamp = match lookup.timestamp {
                Some(timestamp) => timestamp,
                None if lookup.aim == Aim::LargestOfRows => self.largest_of_rows(lookup.upto)?,
                None => self.largest_of_segments(lookup.upto)?,
            };
            lookup.timestamp = Some(timestamp);
            if lookup.aim != Aim::AtOrAfter && timestamp.0 < 0 {
                return Ok(TimeStep::Found(None));
            }
            match self.step_to(timestamp, lookup, room)? {
                // The record with the segments' largest timestamp is below the log start.
                TimeStep::Found(None) if lookup.aim == Aim::Largest => {
                    *lookup = TimeLookup::of(Aim::LargestOfRows, lookup.upto);
                }
                step => return Ok(step),
            }
        }
    }

    /// Runs a whole lookup on the caller's thread, however long it takes.
    fn look_up(&self, mut lookup: TimeLookup<D>) -> Result<Option<TimedOffset>, LogError> {
        let mut room = None;
        loop {
            match self.go_on(&mut lookup, room.take())? {
                TimeStep::Found(found) => return Ok(found),
                TimeStep::Large { bytes, .. } => room = Some(bytes),
                TimeStep::Within(candidate) => {
                    if let Some(found) = lookup.note(candidate.search(DECOMPRESSED_BYTES_MAX)) {
                        return Ok(Some(found));
                    }
                }
            }
        }
    }

    /// Runs [`TimeLookup::at_or_after`] on the caller's thread, which blocks on the disk and decodes even
    /// large batches.
    ///
    /// # Errors
    /// Those of [`LogReader::go_on`].
    pub fn offset_for_time(
        &self,
        timestamp: TimestampMs,
        upto: Offset,
    ) -> Result<Option<TimedOffset>, LogError> {
        self.look_up(TimeLookup::at_or_after(timestamp, upto))
    }

    /// Like [`LogReader::offset_for_time`], for [`TimeLookup::largest`].
    ///
    /// # Errors
    /// Those of [`LogReader::go_on`].
    pub fn max_timestamp(&self, upto: Offset) -> Result<Option<TimedOffset>, LogError> {
        self.look_up(TimeLookup::largest(upto))
    }

    fn step_to(
        &self,
        timestamp: TimestampMs,
        lookup: &TimeLookup<D>,
        room: Option<usize>,
    ) -> Result<TimeStep<D>, LogError> {
        let closed = Cell::new(None);
        let found = self.retrying_as_seen(|seen| {
            closed.set(None);
            let upto = lookup.upto.min(self.log_end().offset());
            let start = self.log_start().max(lookup.passed);
            self.time_in(
                seen,
                &TimeQuery { sought: Sought { timestamp, start }, upto, room, closed: &closed },
            )
        });
        match (found, closed.get()) {
            // A repeated read gave the same result, as above.
            (Err(error), Some(first)) => {
                self.condemn_by(&error);
                Ok(TimeStep::Found(Some(first)))
            }
            (found, _) => found.map(|step| step.unwrap_or(TimeStep::Found(None))),
        }
    }

    fn time_in(&self, seen: &Seen<D>, wanted: &TimeQuery<'_>) -> Result<Option<TimeStep<D>>, LogError> {
        let Sought { timestamp, start } = wanted.sought;
        if start >= wanted.upto {
            return Ok(None);
        }
        for segment in seen.segments.iter() {
            if segment.end_offset() <= start || segment.max_timestamp() < timestamp {
                continue;
            }
            if segment.base_offset >= wanted.upto {
                break;
            }
            let step = self.time_in_segment(seen, segment, wanted)?;
            if let Some(TimeStep::Found(found)) = step {
                return Ok(Some(TimeStep::Found(found.filter(|found| found.0 < wanted.upto))));
            }
            if step.is_some() {
                return Ok(step);
            }
        }
        Ok(None)
    }

    fn time_in_segment(
        &self,
        seen: &Seen<D>,
        segment: &Arc<Segment<D>>,
        wanted: &TimeQuery<'_>,
    ) -> Result<Option<TimeStep<D>>, LogError> {
        let Sought { timestamp, start } = wanted.sought;
        let files = self.files(segment).inspect_err(|error| {
            // A damaged index is rebuilt soon, but a missing `.log` may stay missing.
            if Damage::of(error).is_some_and(|damage| damage.file == segment.path(Kind::Log)) {
                let first = segment.base_offset.max(start);
                let epoch = self.epoch_at(first).unwrap_or(LeaderEpoch::UNKNOWN);
                wanted.closed.set(Some((first, segment.max_timestamp(), epoch)));
            }
        })?;
        let mut rows = Rows::new(segment, &files);
        let first = rows.first_where(|row| row.running_max_timestamp >= timestamp)?;
        // Usually the first row is the answer, unless its matching records are below the log start.
        for number in first..rows.count {
            let row = rows.get_ahead(number)?;
            // Rows beyond may be overwritten.
            if row.base_offset >= wanted.upto {
                break;
            }
            if row.max_timestamp < timestamp || row.next_offset() <= start {
                continue;
            }
            let step = time_in_batch(seen, segment, &files, &row, wanted)?;
            if step.is_some() {
                return Ok(step);
            }
        }
        Ok(None)
    }

    /// Returns the largest timestamp below `upto`, including records below the log start.
    fn largest_of_segments(&self, upto: Offset) -> Result<TimestampMs, LogError> {
        self.retrying(|segments| {
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
        })
    }

    /// Like [`LogReader::largest_of_segments`], by all rows from the log start on. Needed only after
    /// DeleteRecords within a segment.
    fn largest_of_rows(&self, upto: Offset) -> Result<TimestampMs, LogError> {
        self.retrying(|segments| {
            let (start, upto) = (self.log_start(), upto.min(self.log_end().offset()));
            let mut largest = TimestampMs::NONE;
            for segment in segments.iter().filter(|s| s.end_offset() > start && s.base_offset < upto) {
                let files = self.files(segment)?;
                let mut rows = Rows::new(segment, &files);
                // A batch across the log start does not count, because it is unknown which of its records are
                // above it.
                for number in rows.first_where(|row| row.base_offset >= start)?..rows.count {
                    let row = rows.get_ahead(number)?;
                    if row.next_offset() <= upto {
                        largest = largest.max(row.max_timestamp);
                    }
                }
            }
            Ok(largest)
        })
    }
}

fn time_in_batch<D: Disk>(
    seen: &Seen<D>,
    segment: &Segment<D>,
    files: &SegmentFiles<D>,
    row: &Row,
    wanted: &TimeQuery<'_>,
) -> Result<Option<TimeStep<D>>, LogError> {
    let first = wanted.sought.first_of(row);
    let has_gaps = row.record_count != row.last_offset_delta.saturating_add(1);
    if row.attributes.timestamp_type() == TimestampType::LogAppendTime && !has_gaps {
        return Ok(Some(TimeStep::Found(Some(first))));
    }
    let step = look(seen, segment, files, row, wanted);
    if let Err(LogError::Damaged { .. } | LogError::ExpandsTooLarge { .. }) = step {
        wanted.closed.set(Some(first));
    }
    step
}

/// Searches a batch if that is quick, and reads it if there is room.
fn look<D: Disk>(
    seen: &Seen<D>,
    segment: &Segment<D>,
    files: &SegmentFiles<D>,
    row: &Row,
    wanted: &TimeQuery<'_>,
) -> Result<Option<TimeStep<D>>, LogError> {
    let batch_bytes = row.batch_bytes as usize;
    let is_compressed = !matches!(row.attributes.compression(), Ok(Compression::None));
    let large = TimeStep::Large { bytes: batch_bytes, is_compressed };
    let fits = match wanted.room {
        Some(room) => batch_bytes <= room,
        None => row.batch_bytes <= QUICK_BATCH_BYTES,
    };
    if !fits {
        return Ok(Some(large));
    }
    let (path, position) = (segment.path(Kind::Log), u64::from(row.position));
    let mut bytes = vec![0; batch_bytes];
    let read = read_batch_bytes(&files.log, &path, &mut bytes, position)?;
    bytes.truncate(read);
    let sought = wanted.sought;
    if wanted.room.is_some() {
        let candidate = Candidate { bytes, path, row: *row, sought, seen: seen.clone() };
        return Ok(Some(TimeStep::Within(Box::new(candidate))));
    }
    match sought.find_in(&bytes, row, QUICK_EXPANDED_BYTES) {
        Ok(found) => Ok(found.map(|found| TimeStep::Found(Some(found)))),
        Err(BatchError::ExpandsTooLarge { .. }) => Ok(Some(large)),
        Err(error) => Err(LogError::of_batch(&path, position, &error)),
    }
}
