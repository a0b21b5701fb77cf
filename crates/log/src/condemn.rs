//! Damage as the readers' side meets it: what a read finds is put out of service, and what is out of service is refused.

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
    /// What is known to be damaged, in the order of offsets. Cheap while there is nothing.
    pub fn damaged(&self) -> Vec<DamagedRange> {
        if self.damage.any() { self.damage.all().as_ref().clone() } else { Vec::new() }
    }

    /// What reads have found damaged since the last call, and was not known: also what is mended by now. Cheap if there is nothing.
    pub fn take_found_damage(&self) -> Vec<Damage> {
        self.damage.take_found()
    }

    /// The first damaged range that has something of `from..upto`. Cheap while there is none.
    pub fn damaged_within(&self, from: Offset, upto: Offset) -> Option<DamagedRange> {
        self.damage.within(from, upto)
    }

    /// True if batches above the log start are wrong that may be whole again one day. Not for what is lost, in whose place batches without
    /// records stand.
    pub fn has_wrong(&self) -> bool {
        let log_start = self.log_start();
        self.damage.any()
            && self.damage.all().iter().any(|range| !range.is_lost && range.end_offset > log_start)
    }

    /// Base offsets of the segments in whose index a read has met a row that is not what was written. Nothing else of them is read until
    /// [`Log::repair_index`](crate::Log::repair_index) has built it again. Costs one atomic read for each segment.
    pub fn damaged_indexes(&self) -> Vec<Offset> {
        let list = self.segments.load();
        let is_due =
            |segment: &&Arc<Segment<D>>| segment.is_index_damaged() && !self.is_out_of_service(segment);
        list.iter().filter(is_due).map(|segment| segment.base_offset).collect()
    }

    /// True if all of a segment is wrong: building its index again has failed, or would.
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
    /// [`LogError::Damaged`] if bytes within `from..upto` are known to be wrong. Where records are lost, a batch without any stands.
    pub(crate) fn refuse_wrong(&self, from: Offset, upto: Offset) -> Result<(), LogError> {
        self.damage.wrong_within(from, upto).map_or(Ok(()), |range| Err(range.damage.to_error()))
    }

    /// Somebody has decided that the loss of a range is accepted.
    pub fn forget_lost(&self, range: &DamagedRange) {
        self.damage.forget(range.base_offset, range.end_offset);
    }

    /// # Errors
    /// [`LogError::Damaged`] if something of `from..upto` is known to be damaged.
    pub(crate) fn refuse_damaged(&self, from: Offset, upto: Offset) -> Result<(), LogError> {
        self.damage.within(from, upto).map_or(Ok(()), |range| Err(range.damage.to_error()))
    }

    /// Puts what `error` says is damaged out of service: the batch at that position of the segment's `.log`, or all of the segment if no
    /// row tells which one that is. Damage to an index is not damage to what it describes. True if something of it was in service.
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

    /// The same for one batch.
    pub(crate) fn condemn_batch(&self, row: &Row, error: &LogError) -> bool {
        let Some(damage) = Damage::of(error) else { return false };
        self.damage.add_found(&DamagedRange::found(row.base_offset, row.next_offset(), damage))
    }

    /// The same for the segment that an error names.
    pub(crate) fn condemn_by(&self, error: &LogError) {
        let Some(damage) = Damage::of(error) else { return };
        let list = self.segments.load_full();
        if let Some(segment) = list.iter().find(|segment| segment.path(Kind::Log) == damage.file) {
            self.condemn(segment, error);
        }
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

    /// The same, no further than `reach`.
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

    /// True if somebody has removed the `.log` of a segment that is in use.
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

    /// The row of the batch that has the byte at `position`.
    fn row_over(&self, segment: &Arc<Segment<D>>, position: u64) -> Option<Row> {
        let files = segment.files(&self.store).ok()?;
        let mut rows = Rows::new(segment, &files);
        let number = rows.first_where(|row| u64::from(row.end_position()) > position).ok()?;
        let row = if number < rows.count { rows.get(number).ok()? } else { return None };
        (u64::from(row.position) <= position).then_some(row)
    }
}

/// The result, after what it tells about damage has been put out of service.
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

/// The same for one batch.
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
