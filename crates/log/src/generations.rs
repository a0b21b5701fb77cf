//! Which files count where compaction has left several for the same offsets: those as appended, or a later generation.
//!
//! Compaction never overwrites: what it makes of segments gets names of its own, is synced, its header last, and counts from
//! the checkpoint on that lists it. So the checkpoint decides. Without a readable one a generation with a whole header is
//! as good as what it was made of, and counts.

use std::collections::BTreeMap;
use std::path::Path;

use tailrace_types::Offset;

use crate::disk::{Disk, read_file};
use crate::error::{IoContext, LogError};
use crate::folder::Listing;
use crate::format::FormatError;
use crate::format::checkpoint::Checkpoint;
use crate::format::names::{self, Kind};
use crate::format::segment_header::{self, SegmentHeader};

/// A segment's files by name: base offset and generation.
pub(crate) type SegmentName = (Offset, u32);

impl Listing {
    /// Takes the files off the list that `checkpoint` has no place for because of compaction, and names them: replaced ones
    /// that were not yet removed, and new ones that never came to count.
    pub(crate) fn settle_by(&mut self, checkpoint: &Checkpoint) -> Vec<SegmentName> {
        let listed = |base: Offset, generation: u32| {
            checkpoint.segments.iter().any(|s| (s.base_offset, s.generation) == (base, generation))
        };
        // Between two listed segments may be a hole, where a copy took the place of the log.
        let replaced = |base: Offset| {
            let below = checkpoint.segments.partition_point(|s| s.base_offset <= base);
            let last = checkpoint.segments[..below].last();
            base < checkpoint.end_offset && last.is_some_and(|s| s.generation > 0)
        };
        let stale_new = self.compacted.extract_if(.., |name| !listed(name.0, name.1));
        let mut stale: Vec<_> = stale_new.collect();
        stale.extend(self.segments.extract_if(.., |base| replaced(*base)).map(|base| (base, 0)));
        stale
    }

    /// The same without a checkpoint. The generations that count join the list; their headers are returned.
    pub(crate) fn settle_alone<D: Disk>(
        &mut self,
        disk: &D,
        dir: &Path,
    ) -> Result<(Vec<SegmentName>, BTreeMap<Offset, SegmentHeader>), LogError> {
        let (mut stale, mut found) = (Vec::new(), Vec::new());
        for &(base, generation) in &self.compacted {
            match read_segment_header(disk, dir, base, generation)? {
                Some(header) if header.compacted.is_some() => found.push(header),
                _ => stale.push((base, generation)),
            }
        }
        // A later generation covers whole segments of the earlier ones.
        found.sort_by_key(|header| std::cmp::Reverse(generation_of(header)));
        let mut chosen: BTreeMap<Offset, SegmentHeader> = BTreeMap::new();
        for header in found {
            let covered = chosen.values().any(|other| header_covers(other, header.base_offset));
            if covered {
                stale.push((header.base_offset, generation_of(&header)));
            } else {
                chosen.insert(header.base_offset, header);
            }
        }
        let replaced = |base: Offset| chosen.values().any(|header| header_covers(header, base));
        stale.extend(self.segments.extract_if(.., |base| replaced(*base)).map(|base| (base, 0)));
        self.segments.extend(chosen.keys());
        self.segments.sort_unstable();
        Ok((stale, chosen))
    }
}

fn generation_of(header: &SegmentHeader) -> u32 {
    header.compacted.map_or(0, |compacted| compacted.generation)
}

fn header_covers(header: &SegmentHeader, base: Offset) -> bool {
    header.compacted.is_some_and(|compacted| (header.base_offset..compacted.end_offset).contains(&base))
}

/// `None` if it is missing or damaged, which the chain of indexes makes up for, except for compacted segments.
pub(crate) fn read_segment_header<D: Disk>(
    disk: &D,
    dir: &Path,
    base: Offset,
    generation: u32,
) -> Result<Option<SegmentHeader>, LogError> {
    let path = names::path_of(dir, base, generation, Kind::Header);
    // A longer file is damaged, and as good as none.
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
