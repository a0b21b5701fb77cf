//! Damage: bytes that are not what was written. It is known once they were read, and they are not served from
//! then on.
//!
//! Damage is kept by range of offsets. A range is one batch if its index row tells how far it reaches,
//! otherwise everything that cannot be told apart. Batches before and after a range are served. The index
//! rows of a range stay in use if their own checksums match: they tell which entries exist and of which
//! epochs, without the batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_types::Offset;

use crate::error::LogError;

/// The most ranges per partition, at 200 bytes each. Beyond that, neighbouring ranges are merged, including
/// intact batches between them.
pub(crate) const DAMAGED_RANGES_MAX: usize = 1024;

/// What is damaged, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Position in the file, in bytes.
    pub position: u64,
    /// What was expected and what was found.
    pub reason: String,
}

impl Damage {
    /// Returns the damage in an error. An unreadable sector is damage. No other disk failure is.
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

/// True if the device cannot return the bytes, or if they do not exist.
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
    /// This copy never had the records. Whatever is in their place is no sign that they are back.
    pub is_lost: bool,
}

impl DamagedRange {
    /// Damage found in `base_offset..end_offset`.
    pub fn found(base_offset: Offset, end_offset: Offset, damage: Damage) -> Self {
        Self { base_offset, end_offset, damage, is_lost: false }
    }

    /// True if `offset` is in the range.
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

/// The damaged ranges of one log, ascending and without overlaps.
#[derive(Debug, Default)]
pub(crate) struct DamageMap {
    ranges: ArcSwap<Vec<DamagedRange>>,
    any: AtomicBool,
    /// Changed since it was last written to the disk.
    is_unsaved: AtomicBool,
    /// Where the next recheck of some ranges starts.
    next_recheck: AtomicUsize,
    /// Damage found by reads since it was last taken, at most [`DAMAGED_RANGES_MAX`].
    found: Mutex<Vec<Damage>>,
    has_found: AtomicBool,
}

impl DamageMap {
    /// True if there are any ranges. Cheap.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    pub(crate) fn all(&self) -> Arc<Vec<DamagedRange>> {
        self.ranges.load_full()
    }

    /// Returns the first range that ends after `offset`.
    pub(crate) fn next_from(&self, offset: Offset) -> Option<DamagedRange> {
        if !self.any() {
            return None;
        }
        let ranges = self.ranges.load();
        ranges.get(ranges.partition_point(|range| range.end_offset <= offset)).cloned()
    }

    /// Returns the first range that overlaps `from..upto`.
    pub(crate) fn within(&self, from: Offset, upto: Offset) -> Option<DamagedRange> {
        self.next_from(from).filter(|range| range.overlaps(from, upto))
    }

    /// Adds a range. Returns true if any of it was not known before.
    pub(crate) fn add(&self, range: &DamagedRange) -> bool {
        self.change(|ranges| insert(ranges, range))
    }

    /// Like [`DamageMap::add`], for damage found by a read, which is also kept for [`DamageMap::take_found`].
    pub(crate) fn add_found(&self, range: &DamagedRange) -> bool {
        let is_new = self.add(range);
        if is_new {
            let mut found = self.found.lock();
            if found.len() < DAMAGED_RANGES_MAX {
                found.push(range.damage.clone());
            }
            self.has_found.store(true, Release);
        }
        is_new
    }

    /// Returns what reads have found since the last call. Cheap if there is nothing.
    pub(crate) fn take_found(&self) -> Vec<Damage> {
        if self.has_found.load(Relaxed) && self.has_found.swap(false, Acquire) {
            std::mem::take(&mut self.found.lock())
        } else {
            Vec::new()
        }
    }

    /// Forgets `from..upto`. Returns true if any of it was damaged.
    pub(crate) fn forget(&self, from: Offset, upto: Offset) -> bool {
        self.any() && self.change(|ranges| cut_out(ranges, from, upto, |_| true))
    }

    /// Forgets the ranges in `from..upto` that are whole again. Lost ranges stay.
    pub(crate) fn mended(&self, from: Offset, upto: Offset) {
        if self.any() {
            self.change(|ranges| cut_out(ranges, from, upto, |range| !range.is_lost));
        }
    }

    /// Returns the first range that overlaps `from..upto` and is damaged but not lost, so that it may become
    /// whole again.
    pub(crate) fn wrong_within(&self, from: Offset, upto: Offset) -> Option<DamagedRange> {
        if !self.any() {
            return None;
        }
        self.ranges.load().iter().find(|range| !range.is_lost && range.overlaps(from, upto)).cloned()
    }

    /// Forgets everything below the log start.
    pub(crate) fn trim(&self, log_start: Offset) {
        if self.any() {
            self.change(|ranges| {
                let before = ranges.len();
                ranges.retain(|range| range.end_offset > log_start);
                ranges.len() < before
            });
        }
    }

    /// Returns the number of the first range to recheck, if each recheck takes `count` ranges.
    pub(crate) fn next_recheck(&self, count: usize) -> usize {
        self.next_recheck.fetch_add(count, Relaxed)
    }

    /// Returns true once after each change.
    pub(crate) fn take_unsaved(&self) -> bool {
        self.is_unsaved.swap(false, Acquire)
    }

    /// True between a change and the next [`DamageMap::take_unsaved`].
    pub(crate) fn is_unsaved(&self) -> bool {
        self.is_unsaved.load(Acquire)
    }

    /// Marks the ranges as unsaved again after a failed write.
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
        // If a range is added between the two loads, its thread sets the flag after this.
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

/// Inserts `new`. Returns true if any of it is new. Known lost ranges stay lost, and of a damaged range only
/// the rest is added. A lost range replaces damaged ones.
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

/// Inserts a range that overlaps only ranges of its own kind, and merges it with them.
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
        // The nearest neighbours of the same kind. If there are none, a merged lost range will be requested
        // again.
        let alike = |at: &usize| ranges[*at - 1].is_lost == ranges[*at].is_lost;
        let at = (1..ranges.len()).filter(alike).min_by_key(|at| at.abs_diff(first)).unwrap_or(1);
        let taken = ranges.remove(at);
        ranges[at - 1].end_offset = taken.end_offset;
        ranges[at - 1].is_lost &= taken.is_lost;
    }
    true
}

/// Removes `from..upto` from the ranges that `goes` accepts. Returns true if there was any of it.
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
            let is_lost = number < DAMAGED_RANGES_MAX as i64;
            map.add(&DamagedRange { is_lost, ..range(number * 10, number * 10 + 1) });
        }
        let all = map.all();
        assert_eq!(all.len(), DAMAGED_RANGES_MAX);
        let border = Offset(10 * DAMAGED_RANGES_MAX as i64);
        assert!(all.iter().all(|range| range.is_lost == (range.base_offset < border)));
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
