//! Decides which files count if compaction has left several for the same offsets: those as appended, or a
//! later generation.
//!
//! Compaction never overwrites. Its output gets names of its own, is synced with the header last, and counts
//! from the checkpoint on that lists it. So the checkpoint decides. Without a readable checkpoint, a
//! generation with a whole header is as good as its sources, and counts.

use std::collections::BTreeMap;
use std::path::Path;

use tailrace_types::{Offset, RaftIndex, TimestampMs};

use crate::disk::{Disk, DiskFile, OpenMode, read_file, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::FormatError;
use crate::format::checkpoint::Checkpoint;
use crate::format::names::{self, Kind};
use crate::format::row::{ROW_BYTES, Row, row_position};
use crate::format::segment_header::{self, Compacted, SegmentHeader};
use crate::listing::{Listing, SegmentName};
use crate::scan::{BatchScanner, Scanned};
use crate::segment::LenOf;

impl Listing {
    /// Removes the files from the list that `checkpoint` does not cover because of compaction, and returns
    /// them: replaced segments that were not removed yet, and new ones that never came to count.
    pub(crate) fn settle_by(&mut self, checkpoint: &Checkpoint) -> Vec<SegmentName> {
        let listed = |name: &SegmentName| {
            checkpoint.segments.iter().any(|s| (s.base_offset, s.generation) == (name.base, name.generation))
        };
        // There may be a hole between two listed segments, if a copy replaced the log.
        let replaced = |base: Offset| {
            let below = checkpoint.segments.partition_point(|s| s.base_offset <= base);
            let last = checkpoint.segments[..below].last();
            base < checkpoint.end_offset && last.is_some_and(|s| s.generation > 0)
        };
        let stale_new = self.compacted.extract_if(.., |name| !listed(name));
        let mut stale: Vec<_> = stale_new.collect();
        stale.extend(self.segments.extract_if(.., |base| replaced(*base)).map(SegmentName::appended));
        stale
    }

    /// Like [`Listing::settle_by`], without a checkpoint. Adds the generations that count to the list, and
    /// returns their headers.
    pub(crate) fn settle_alone<D: Disk>(
        &mut self,
        disk: &D,
        dir: &Path,
    ) -> Result<(Vec<SegmentName>, BTreeMap<Offset, SegmentHeader>), LogError> {
        let (mut stale, mut found) = (Vec::new(), Vec::new());
        for &name in &self.compacted {
            let SegmentName { base, generation } = name;
            let header = match read_segment_header(disk, dir, base, generation)? {
                Some(header) => Some(header),
                // If its source exists, the source counts, because the round did not finish.
                None if self.segments.binary_search(&base).is_ok() => None,
                None => derive_header(disk, dir, base, generation)?,
            };
            match header {
                Some(header) if header.compacted.is_some() => found.push(header),
                _ => stale.push(name),
            }
        }
        // A later generation covers whole segments of the earlier ones.
        found.sort_by_key(|header| std::cmp::Reverse(generation_of(header)));
        let mut chosen: BTreeMap<Offset, SegmentHeader> = BTreeMap::new();
        for header in found {
            let covered = chosen.values().any(|other| header_covers(other, header.base_offset));
            if covered {
                stale.push(SegmentName::new(header.base_offset, generation_of(&header)));
            } else {
                chosen.insert(header.base_offset, header);
            }
        }
        let replaced = |base: Offset| chosen.values().any(|header| header_covers(header, base));
        stale.extend(self.segments.extract_if(.., |base| replaced(*base)).map(SegmentName::appended));
        self.segments.extend(chosen.keys());
        self.segments.sort_unstable();
        Ok((stale, chosen))
    }
}

/// Stands for the raft index at which the previous segment ends.
pub(crate) const UNKNOWN_INDEX: RaftIndex = RaftIndex(0);

/// Derives the lost header of a segment from its index, or else from its batches. `None` if the segment has
/// no batches.
fn derive_header<D: Disk>(
    disk: &D,
    dir: &Path,
    base: Offset,
    generation: u32,
) -> Result<Option<SegmentHeader>, LogError> {
    let (log_path, index_path) = (
        names::path_of(dir, base, generation, Kind::Log),
        names::path_of(dir, base, generation, Kind::Index),
    );
    let log = disk.open(&log_path, OpenMode::Read).context("open", &log_path)?;
    let len = log.len_of(&log_path)?.min(crate::SEGMENT_BYTES_MAX);
    let rows = disk.open(&index_path, OpenMode::Read).ok().and_then(|index| first_and_last(&index, base));
    let (first_raft_index, end_offset, next_raft_index) = match rows {
        Some((first, last)) if u64::from(last.end_position()) == len => {
            (first.raft_index, last.next_offset(), RaftIndex(last.raft_index.0 + 1))
        }
        _ => {
            let (mut scanner, mut end) = (BatchScanner::new(&log, 0, len), None);
            while let Scanned::Batch { header, .. } = scanner.next().context("read", &log_path)? {
                end = Some(header.next_offset());
            }
            let Some(end) = end else { return Ok(None) };
            (UNKNOWN_INDEX, end, UNKNOWN_INDEX)
        }
    };
    let compacted = Some(Compacted { generation, end_offset, next_raft_index });
    Ok(Some(SegmentHeader { base_offset: base, first_raft_index, created: TimestampMs(0), compacted }))
}

/// Returns the first and the last row of an index, if both are whole.
fn first_and_last<F: DiskFile>(index: &F, base: Offset) -> Option<(Row, Row)> {
    let rows = index.len().ok()?.checked_sub(row_position(0))? / ROW_BYTES as u64;
    let row = |number: u64| {
        let mut bytes = [0; ROW_BYTES];
        let position = row_position(u32::try_from(number).ok()?);
        let read = read_full_at(index, &mut bytes, position).ok()?;
        if read == ROW_BYTES { Row::decode(&bytes, base) } else { None }
    };
    Some((row(0)?, row(rows.checked_sub(1)?)?))
}

fn generation_of(header: &SegmentHeader) -> u32 {
    header.compacted.map_or(0, |compacted| compacted.generation)
}

fn header_covers(header: &SegmentHeader, base: Offset) -> bool {
    header.compacted.is_some_and(|compacted| (header.base_offset..compacted.end_offset).contains(&base))
}

/// Reads a segment's header. `None` if it is missing or damaged. The chain of indexes makes up for that,
/// except for compacted segments.
pub(crate) fn read_segment_header<D: Disk>(
    disk: &D,
    dir: &Path,
    base: Offset,
    generation: u32,
) -> Result<Option<SegmentHeader>, LogError> {
    let path = names::path_of(dir, base, generation, Kind::Header);
    // A longer file is damaged and is ignored.
    let bytes_max = segment_header::BYTES * 64;
    let Some(bytes) = read_file(disk, &path, bytes_max).context("read", &path)? else { return Ok(None) };
    match SegmentHeader::decode(&bytes) {
        Ok(header) => {
            let is_its = header.base_offset == base && generation_of(&header) == generation;
            Ok(is_its.then_some(header))
        }
        Err(error @ FormatError::Newer(_)) => Err(error.in_file(&path)),
        Err(FormatError::Damaged(..)) => Ok(None),
    }
}
