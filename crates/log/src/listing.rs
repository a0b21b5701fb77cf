//! The files in a partition's folder, by their names.

use std::path::Path;

use tailrace_types::Offset;

use crate::disk::{Disk, remove_if_there};
use crate::error::{IoContext, LogError};
use crate::format::names::{self, DELETED_SUFFIX, Kind, TEMPORARY_SUFFIX};

/// The name of a segment's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    pub(crate) base: Offset,
    /// 0 as appended.
    pub(crate) generation: u32,
}

impl SegmentName {
    pub(crate) fn new(base: Offset, generation: u32) -> Self {
        Self { base, generation }
    }

    /// The name of a segment as appended.
    pub(crate) fn appended(base: Offset) -> Self {
        Self::new(base, 0)
    }
}

/// The files in a partition's folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Base offsets of the `.log` files as appended, ascending.
    pub(crate) segments: Vec<Offset>,
    /// Base offsets and generations of the `.log` files that compaction wrote, ascending.
    pub(crate) compacted: Vec<SegmentName>,
    /// Offsets of the producer snapshots, ascending.
    pub(crate) snapshots: Vec<Offset>,
    /// Names of files that were being removed or were half written.
    pub(crate) leftovers: Vec<String>,
    /// `.index` and `.header` files without a `.log`, with the segments that they name.
    pub(crate) orphans: Vec<(SegmentName, String)>,
    pub(crate) has_identity: bool,
    /// True if there is a file that is written only after the identity was synced.
    pub(crate) was_synced: bool,
}

impl Listing {
    pub(crate) fn read<D: Disk>(disk: &D, dir: &Path) -> Result<Self, LogError> {
        let mut listing = Self::default();
        let mut others = Vec::new();
        for entry in disk.read_dir(dir).context("list", dir)?.into_iter().filter(|e| !e.is_dir) {
            let name = entry.name;
            if name.ends_with(DELETED_SUFFIX) || name.ends_with(TEMPORARY_SUFFIX) {
                listing.leftovers.push(name);
            } else if name == names::IDENTITY {
                listing.has_identity = true;
            } else if name == names::CHECKPOINT || name == names::ENTRIES {
                listing.was_synced = true;
            } else {
                match names::parse(&name) {
                    Some((base, 0, Kind::Log)) => listing.segments.push(base),
                    Some((base, generation, Kind::Log)) => {
                        listing.compacted.push(SegmentName::new(base, generation));
                    }
                    Some((offset, 0, Kind::Snapshot)) => listing.snapshots.push(offset),
                    Some((base, generation, Kind::Index | Kind::Header)) => {
                        others.push((SegmentName::new(base, generation), name));
                    }
                    Some((_, _, Kind::Snapshot)) | None => {}
                }
            }
        }
        // The names are sorted, and twenty digits sort like numbers, but generations do not.
        listing.compacted.sort_unstable();
        let has_log = |segment: &SegmentName| match segment.generation {
            0 => listing.segments.binary_search(&segment.base).is_ok(),
            _ => listing.compacted.binary_search(segment).is_ok(),
        };
        others.retain(|(segment, _)| !has_log(segment));
        listing.orphans = others;
        Ok(listing)
    }

    pub(crate) fn remove_leftovers<D: Disk>(&self, disk: &D, dir: &Path) -> Result<(), LogError> {
        self.leftovers.iter().try_for_each(|name| remove_if_there(disk, &dir.join(name)))
    }
}
