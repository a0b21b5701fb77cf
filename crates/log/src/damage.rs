//! What is not what was written: known once somebody has read it, and not served from then on.
//!
//! Damage is kept by range of offsets: one batch, where its index row tells how far it reaches, else all that cannot be told apart. What
//! lies before and behind is served. The index rows of such a range stay in use as far as their own checksums hold: which entries there
//! are, and of which epochs, is known without the batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use arc_swap::ArcSwap;
use tailrace_types::Offset;

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::names::Kind;
use crate::format::row::Row;
use crate::reader::LogReader;
use crate::rows::Rows;
use crate::segment::Segment;

/// Ranges kept of one partition, 200 bytes each. Where there are more, the new one is merged with its neighbour, whole batches between
/// them included.
pub const DAMAGED_RANGES_MAX: usize = 1024;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where in it, in bytes.
    pub position: u64,
    /// What was expected and what was found.
    pub reason: String,
}

impl Damage {
    /// What an error says about damage. An unreadable sector is damage; no other failure of a disk is.
    pub(crate) fn of(error: &LogError) -> Option<Self> {
        match error {
            LogError::Damaged { file, position, reason } => {
                Some(Self { file: file.clone(), position: *position, reason: reason.clone() })
            }
            LogError::Io { action: "read", path, source } if is_unreadable(source) => {
                Some(Self { file: path.clone(), position: 0, reason: source.to_string() })
            }
            _ => None,
        }
    }

    pub(crate) fn to_error(&self) -> LogError {
        LogError::damaged(&self.file, self.position, self.reason.clone())
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_error())
    }
}

/// True if the device cannot give the bytes back, or they are not there.
pub(crate) fn is_unreadable(error: &std::io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO) || error.kind() == std::io::ErrorKind::UnexpectedEof
}

/// Offsets whose records are not what was written. They are not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// First offset.
    pub base_offset: Offset,
    /// One past the last offset.
    pub end_offset: Offset,
    /// What was found.
    pub damage: Damage,
    /// This copy never had the records: whatever lies in their place is no sign that they are back.
    pub is_lost: bool,
}

impl DamagedRange {
    /// Damage that was found in `base_offset..end_offset`.
    pub fn found(base_offset: Offset, end_offset: Offset, damage: Damage) -> Self {
        Self { base_offset, end_offset, damage, is_lost: false }
    }

    /// True if `offset` lies within.
    pub fn holds(&self, offset: Offset) -> bool {
        (self.base_offset..self.end_offset).contains(&offset)
    }

    fn overlaps(&self, from: Offset, upto: Offset) -> bool {
        self.base_offset < upto && self.end_offset > from
    }

    fn overlaps_with(&self, other: &Self) -> bool {
        self.overlaps(other.base_offset, other.end_offset)
    }
}

impl std::fmt::Display for DamagedRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { base_offset, end_offset, damage, .. } = self;
        match end_offset.0 - base_offset.0 {
            1 => write!(f, "offset {base_offset}: {damage}"),
            _ => write!(f, "offsets {base_offset} to {}: {damage}", end_offset.0 - 1),
        }
    }
}

/// The damaged ranges of one log: ascending, without overlaps.
#[derive(Debug, Default)]
pub(crate) struct DamageMap {
    ranges: ArcSwap<Vec<DamagedRange>>,
    any: AtomicBool,
    /// Something changed since it was last written to the disk.
    is_unsaved: AtomicBool,
    /// Where the next look at some of them begins.
    next_recheck: AtomicUsize,
}

impl DamageMap {
    /// Cheap while there are none.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    pub(crate) fn all(&self) -> Arc<Vec<DamagedRange>> {
        self.ranges.load_full()
    }

    /// The first range that reaches beyond `offset`.
    pub(crate) fn next_from(&self, offset: Offset) -> Option<DamagedRange> {
        if !self.any() {
            return None;
        }
        let ranges = self.ranges.load();
        ranges.get(ranges.partition_point(|range| range.end_offset <= offset)).cloned()
    }

    /// The first range that has something of `from..upto`.
    pub(crate) fn within(&self, from: Offset, upto: Offset) -> Option<DamagedRange> {
        self.next_from(from).filter(|range| range.overlaps(from, upto))
    }

    /// Adds a range. True if something of it was not known to be damaged.
    pub(crate) fn add(&self, range: &DamagedRange) -> bool {
        self.change(|ranges| insert(ranges, range))
    }

    /// Forgets `from..upto`. True if anything of it was damaged.
    pub(crate) fn forget(&self, from: Offset, upto: Offset) -> bool {
        self.any() && self.change(|ranges| cut_out(ranges, from, upto, |_| true))
    }

    /// Forgets what of `from..upto` is there again. What was lost stays lost.
    pub(crate) fn mended(&self, from: Offset, upto: Offset) {
        if self.any() {
            self.change(|ranges| cut_out(ranges, from, upto, |range| !range.is_lost));
        }
    }

    /// The first range that has something of `from..upto` and may be there again one day: its bytes are wrong.
    pub(crate) fn wrong_within(&self, from: Offset, upto: Offset) -> Option<DamagedRange> {
        if !self.any() {
            return None;
        }
        self.ranges.load().iter().find(|range| !range.is_lost && range.overlaps(from, upto)).cloned()
    }

    /// Forgets what lies below the log start.
    pub(crate) fn trim(&self, log_start: Offset) {
        if self.any() {
            self.change(|ranges| {
                let before = ranges.len();
                ranges.retain(|range| range.end_offset > log_start);
                ranges.len() < before
            });
        }
    }

    /// The number of the first range to be looked at, if each look takes `count`.
    pub(crate) fn next_recheck(&self, count: usize) -> usize {
        self.next_recheck.fetch_add(count, Relaxed)
    }

    /// True once after each change.
    pub(crate) fn take_unsaved(&self) -> bool {
        self.is_unsaved.swap(false, Acquire)
    }

    /// True between a change and [`DamageMap::take_unsaved`].
    pub(crate) fn is_unsaved(&self) -> bool {
        self.is_unsaved.load(Acquire)
    }

    /// What was taken could not be written.
    pub(crate) fn set_unsaved(&self) {
        self.is_unsaved.store(true, Release);
    }

    fn change(&self, change: impl Fn(&mut Vec<DamagedRange>) -> bool) -> bool {
        let mut changed = false;
        self.ranges.rcu(|ranges| {
            let mut ranges = ranges.as_ref().clone();
            changed = change(&mut ranges);
            ranges
        });
        // A range that is added between the two is flagged by who adds it, after this.
        self.any.store(!self.ranges.load().is_empty(), Release);
        if !self.ranges.load().is_empty() {
            self.any.store(true, Release);
        }
        if changed {
            self.set_unsaved();
        }
        changed
    }
}

/// Inserts `new`. True if something of it is new. What was known to be lost stays so, and only the rest of a range that is wrong is
/// added; what is lost takes the place of what was wrong.
fn insert(ranges: &mut Vec<DamagedRange>, new: &DamagedRange) -> bool {
    if new.is_lost {
        let cut = cut_out(ranges, new.base_offset, new.end_offset, |range| !range.is_lost);
        return insert_alike(ranges, new.clone()) || cut;
    }
    let lost: Vec<_> =
        ranges.iter().filter(|range| range.is_lost && range.overlaps_with(new)).cloned().collect();
    let (mut changed, mut from) = (false, new.base_offset);
    for (upto, next) in lost
        .iter()
        .map(|range| (range.base_offset, range.end_offset))
        .chain([(new.end_offset, new.end_offset)])
    {
        if from < upto {
            changed |=
                insert_alike(ranges, DamagedRange { base_offset: from, end_offset: upto, ..new.clone() });
        }
        from = from.max(next);
    }
    changed
}

/// Inserts a range that overlaps ranges of its own kind at most, merged with them.
fn insert_alike(ranges: &mut Vec<DamagedRange>, new: DamagedRange) -> bool {
    let first = ranges.partition_point(|range| range.end_offset <= new.base_offset);
    let count = ranges[first..].iter().take_while(|range| range.base_offset < new.end_offset).count();
    let mut merged = new;
    if let Some(known) = ranges.get(first).filter(|_| count > 0) {
        if known.base_offset <= merged.base_offset && known.end_offset >= merged.end_offset {
            return false;
        }
        let last = &ranges[first + count - 1];
        merged.base_offset = known.base_offset.min(merged.base_offset);
        merged.end_offset = last.end_offset.max(merged.end_offset);
        merged.damage = known.damage.clone();
    }
    ranges.splice(first..first + count, [merged]);
    if ranges.len() > DAMAGED_RANGES_MAX {
        // The nearest neighbours that are alike; if there are none, what is lost of two is asked for again.
        let alike = |at: &usize| ranges[*at - 1].is_lost == ranges[*at].is_lost;
        let at = (1..ranges.len()).filter(alike).min_by_key(|at| at.abs_diff(first)).unwrap_or(1);
        let taken = ranges.remove(at);
        ranges[at - 1].end_offset = taken.end_offset;
        ranges[at - 1].is_lost &= taken.is_lost;
    }
    true
}

/// Takes `from..upto` out of the ranges that `goes` names. True if there was anything of it.
fn cut_out(
    ranges: &mut Vec<DamagedRange>,
    from: Offset,
    upto: Offset,
    goes: impl Fn(&DamagedRange) -> bool,
) -> bool {
    let is_cut = |range: &DamagedRange| range.overlaps(from, upto) && goes(range);
    if !ranges.iter().any(is_cut) {
        return false;
    }
    let parts = |range: DamagedRange| {
        let before = DamagedRange { end_offset: range.end_offset.min(from), ..range.clone() };
        let behind = DamagedRange { base_offset: range.base_offset.max(upto), ..range.clone() };
        let cut = [before, behind].into_iter().filter(|part| part.base_offset < part.end_offset);
        if is_cut(&range) { cut.collect() } else { vec![range] }
    };
    *ranges = std::mem::take(ranges).into_iter().flat_map(parts).collect();
    true
}

impl<D: Disk> LogReader<D> {
    /// What is known to be damaged, in the order of offsets. Cheap while there is nothing.
    pub fn damaged(&self) -> Vec<DamagedRange> {
        if self.damage.any() { self.damage.all().as_ref().clone() } else { Vec::new() }
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
        let segment = list.get(crate::reader::segment_of(&list, offset))?;
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
        self.damage.add(&DamagedRange::found(base_offset, end_offset, damage))
    }

    /// The same for one batch.
    pub(crate) fn condemn_batch(&self, row: &Row, error: &LogError) -> bool {
        let Some(damage) = Damage::of(error) else { return false };
        self.damage.add(&DamagedRange::found(row.base_offset, row.next_offset(), damage))
    }

    /// The same for the segment that an error names.
    pub(crate) fn condemn_by(&self, error: &LogError) {
        let Some(damage) = Damage::of(error) else { return };
        let list = self.segments.load_full();
        if let Some(segment) = list.iter().find(|segment| segment.path(Kind::Log) == damage.file) {
            self.condemn(segment, error);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i64, upto: i64) -> DamagedRange {
        let damage = Damage { file: "x.log".into(), position: from as u64, reason: "bad".to_owned() };
        DamagedRange::found(Offset(from), Offset(upto), damage)
    }

    fn bounds(map: &DamageMap) -> Vec<(i64, i64)> {
        map.all().iter().map(|range| (range.base_offset.0, range.end_offset.0)).collect()
    }

    #[test]
    fn ranges_are_merged_where_they_overlap_and_kept_apart_where_they_touch() {
        let map = DamageMap::default();
        assert!(!map.any());
        assert!(map.add(&range(10, 20)) && map.add(&range(30, 40)) && map.add(&range(20, 25)));
        assert_eq!(bounds(&map), [(10, 20), (20, 25), (30, 40)]);
        assert!(!map.add(&range(12, 14)), "known");
        assert!(map.add(&range(15, 35)));
        assert_eq!(bounds(&map), [(10, 40)]);
        assert!(map.take_unsaved() && !map.take_unsaved());
    }

    #[test]
    fn what_is_lost_and_what_is_wrong_are_kept_apart() {
        let lost = |from, upto| DamagedRange { is_lost: true, ..range(from, upto) };
        let kinds = |map: &DamageMap| -> Vec<(i64, i64, bool)> {
            map.all().iter().map(|range| (range.base_offset.0, range.end_offset.0, range.is_lost)).collect()
        };
        let map = DamageMap::default();
        assert!(map.add(&lost(10, 20)) && map.add(&lost(40, 50)));
        assert!(map.add(&range(0, 60)));
        let all = [(0, 10, false), (10, 20, true), (20, 40, false), (40, 50, true), (50, 60, false)];
        assert_eq!(kinds(&map), all);
        assert!(!map.add(&range(12, 45)) && !map.add(&lost(10, 20)), "known");
        map.mended(Offset(0), Offset(30));
        assert_eq!(kinds(&map), [(10, 20, true), (30, 40, false), (40, 50, true), (50, 60, false)]);
        assert!(map.add(&lost(35, 55)));
        assert_eq!(kinds(&map), [(10, 20, true), (30, 35, false), (35, 55, true), (55, 60, false)]);
        assert!(map.forget(Offset(15), Offset(40)));
        assert_eq!(kinds(&map), [(10, 15, true), (40, 55, true), (55, 60, false)]);
    }

    #[test]
    fn ranges_that_are_too_many_are_merged_with_those_that_are_alike() {
        let map = DamageMap::default();
        for number in 0..=DAMAGED_RANGES_MAX as i64 {
            map.add(&DamagedRange { is_lost: number < 500, ..range(number * 10, number * 10 + 1) });
        }
        let all = map.all();
        assert_eq!(all.len(), DAMAGED_RANGES_MAX);
        assert!(all.iter().all(|range| range.is_lost == (range.base_offset < Offset(5000))));
    }

    #[test]
    fn what_is_asked_for_is_found() {
        let map = DamageMap::default();
        map.add(&range(10, 20));
        map.add(&range(30, 40));
        let next = |offset| map.next_from(Offset(offset)).map(|range| range.base_offset.0);
        assert_eq!(
            [next(0), next(19), next(20), next(39), next(40)],
            [Some(10), Some(10), Some(30), Some(30), None]
        );
        assert!(map.within(Offset(0), Offset(10)).is_none() && map.within(Offset(0), Offset(11)).is_some());
        assert!(map.forget(Offset(10), Offset(30)) && !map.forget(Offset(10), Offset(30)));
        map.trim(Offset(39));
        assert!(map.any());
        map.trim(Offset(40));
        assert!(!map.any());
    }

    #[test]
    fn there_are_never_more_than_the_bound() {
        let map = DamageMap::default();
        for number in 0..2 * DAMAGED_RANGES_MAX as i64 {
            map.add(&range(number * 10, number * 10 + 1));
        }
        assert_eq!(map.all().len(), DAMAGED_RANGES_MAX);
        assert!(
            (0..2 * DAMAGED_RANGES_MAX as i64)
                .all(|n| map.within(Offset(n * 10), Offset(n * 10 + 1)).is_some())
        );
    }
}
