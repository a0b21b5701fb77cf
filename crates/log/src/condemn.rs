//! Damage on the reader's side. What a read finds damaged is put out of service, and reads of it are refused
//! from then on.

use std::path::Path;
use std::sync::Arc;

use tailrace_types::Offset;

use crate::damage::{Damage, DamagedRange};
use crate::disk::Disk;
use crate::error::LogError;
use crate::format::names::Kind;
use crate::format::row::Row;
use crate::reach::Reach;
use crate::reader::{LogReader, segment_of};
use crate::rows::Rows;
use crate::segment::{Segment, SegmentFiles, Suspect};

impl<D: Disk> LogReader<D> {
    /// Returns the known damaged ranges, in the order of offsets. Cheap if there are none.
    pub fn damaged(&self) -> Vec<DamagedRange> {
        if self.damage.any() { self.damage.all().as_ref().clone() } else { Vec::new() }
    }

    /// Returns what reads have newly found damaged since the last call, even if it is mended by now. Cheap if
    /// there is nothing.
    pub fn take_found_damage(&self) -> Vec<Damage> {
        self.damage.take_found()
    }

    /// Returns the first damaged range that overlaps `from..upto`. Cheap if there is none.
    pub fn damaged_within(&self, from: Offset, upto: Offset) -> Option<DamagedRange> {
        self.damage.within(from, upto)
    }

    /// True if batches above the log start are damaged that may become whole again. Lost ranges do not count:
    /// batches without records have replaced them.
    pub fn has_wrong(&self) -> bool {
        let log_start = self.log_start();
        self.damage.any()
            && self.damage.all().iter().any(|range| !range.is_lost && range.end_offset > log_start)
    }

    /// Base offsets of the segments in whose index a read found a damaged row. They are not read until
    /// [`Log::repair_index`](crate::Log::repair_index) has rebuilt the index. Costs one atomic read per
    /// segment.
    pub fn damaged_indexes(&self) -> Vec<Offset> {
        let list = self.segments.load();
        let is_due =
            |segment: &&Arc<Segment<D>>| segment.is_index_damaged() && !self.is_out_of_service(segment);
        list.iter().filter(is_due).map(|segment| segment.base_offset).collect()
    }

    /// True if the whole segment is damaged, so that rebuilding its index has failed or would fail.
    fn is_out_of_service(&self, segment: &Segment<D>) -> bool {
        let known = self.damage.within(segment.base_offset, segment.end_offset());
        known.is_some_and(|range| {
            range.base_offset <= segment.base_offset && range.end_offset >= segment.end_offset()
        })
    }

    /// Base and end offset of the segment that holds `offset`, if there is one.
    pub fn segment_bounds(&self, offset: Offset) -> Option<(Offset, Offset)> {
        let list = self.segments.load();
        let segment = list.get(segment_of(&list, offset))?;
        let bounds = (segment.base_offset, segment.end_offset());
        (bounds.0..bounds.1).contains(&offset).then_some(bounds)
    }

    /// # Errors
    /// [`LogError::Damaged`] if bytes within `from..upto` are known to be damaged. Lost records do not count,
    /// because batches without records have replaced them.
    pub(crate) fn refuse_wrong(&self, from: Offset, upto: Offset) -> Result<(), LogError> {
        self.damage.wrong_within(from, upto).map_or(Ok(()), |range| Err(range.damage.to_error()))
    }

    /// Forgets a lost range, because an operator has accepted the loss.
    pub fn forget_lost(&self, range: &DamagedRange) {
        self.damage.forget(range.base_offset, range.end_offset);
    }

    /// # Errors
    /// [`LogError::Damaged`] if anything in `from..upto` is known to be damaged.
    pub(crate) fn refuse_damaged(&self, from: Offset, upto: Offset) -> Result<(), LogError> {
        self.damage.within(from, upto).map_or(Ok(()), |range| Err(range.damage.to_error()))
    }

    /// Puts the damage in `error` out of service: the batch at that position of the segment's `.log`, or the
    /// whole segment if no row tells which batch that is. Damage to an index does not affect its batches.
    /// Returns true if any of it was in service before.
    pub(crate) fn condemn(&self, segment: &Arc<Segment<D>>, error: &LogError) -> bool {
        let Some(damage) = Damage::of(error) else { return false };
        if damage.file != segment.path(Kind::Log) {
            return false;
        }
        let (base_offset, end_offset) = match self.row_over(segment, damage.position) {
            Some(row) => (row.base_offset, row.next_offset()),
            None => (segment.base_offset, segment.end_offset()),
        };
        self.damage.add_found(&DamagedRange::found(base_offset, end_offset, damage))
    }

    /// Like [`LogReader::condemn`], for one batch.
    pub(crate) fn condemn_batch(&self, row: &Row, error: &LogError) -> bool {
        let Some(damage) = Damage::of(error) else { return false };
        self.damage.add_found(&DamagedRange::found(row.base_offset, row.next_offset(), damage))
    }

    /// Like [`LogReader::condemn`], for the segment that an error names.
    pub(crate) fn condemn_by(&self, error: &LogError) {
        let Some(damage) = Damage::of(error) else { return };
        let list = self.segments.load_full();
        if let Some(segment) = list.iter().find(|segment| segment.path(Kind::Log) == damage.file) {
            self.condemn(segment, error);
        }
    }

    /// Returns the open files of a segment. Batches found damaged when its index was rebuilt are out of
    /// service from then on.
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

    /// Like [`LogReader::files`], within `reach`.
    pub(crate) fn files_within(
        &self,
        reach: Reach,
        segment: &Arc<Segment<D>>,
    ) -> Result<Arc<SegmentFiles<D>>, LogError> {
        if reach == Reach::Memory && !segment.is_open() {
            return Err(LogError::NotAtHand);
        }
        self.files(segment)
    }

    /// True if the `.log` of a segment in use was removed by someone else.
    fn is_missing(&self, segment: &Arc<Segment<D>>, path: &Path, error: &std::io::Error) -> bool {
        let is_gone = error.kind() == std::io::ErrorKind::NotFound && segment.path(Kind::Log) == path;
        is_gone && self.segments.load().iter().any(|other| Arc::ptr_eq(other, segment))
    }

    /// Offsets of the batches of a segment that reach beyond `position` in its `.log`.
    pub(crate) fn rows_beyond(
        &self,
        segment: &Arc<Segment<D>>,
        position: u64,
    ) -> Result<Vec<(Offset, Offset)>, LogError> {
        let files = segment.files(&self.store)?;
        let mut rows = Rows::new(segment, &files);
        let first = rows.first_where(|row| u64::from(row.end_position()) > position)?;
        (first..rows.count)
            .map(|number| rows.get_ahead(number).map(|row| (row.base_offset, row.next_offset())))
            .collect()
    }

    /// Returns the row of the batch that has the byte at `position`.
    fn row_over(&self, segment: &Arc<Segment<D>>, position: u64) -> Option<Row> {
        let files = segment.files(&self.store).ok()?;
        let mut rows = Rows::new(segment, &files);
        let number = rows.first_where(|row| u64::from(row.end_position()) > position).ok()?;
        let row = if number < rows.count { rows.get(number).ok()? } else { return None };
        (u64::from(row.position) <= position).then_some(row)
    }
}

/// Returns `result` after any damage in it was put out of service.
pub(crate) fn note<D: Disk, T>(
    reader: &LogReader<D>,
    segment: &Arc<Segment<D>>,
    result: Result<T, LogError>,
) -> Result<T, LogError> {
    if let Err(error) = &result {
        reader.condemn(segment, error);
    }
    result
}

/// Like [`note`], for one batch.
pub(crate) fn note_batch<D: Disk, T>(
    reader: &LogReader<D>,
    row: &Row,
    result: Result<T, LogError>,
) -> Result<T, LogError> {
    if let Err(error) = &result {
        reader.condemn_batch(row, error);
    }
    result
}
