//! The known state of the checkpoint file and the snapshots, so that nothing is written twice.

use tailrace_types::Offset;

use crate::format::checkpoint::Checkpoint;
use crate::format::snapshot;
use crate::sections::Sections;

/// The known state of the files that plans replace.
#[derive(Debug, Default)]
pub(crate) struct CheckpointFile {
    /// Number of the newest plan that has run. Older plans write nothing.
    pub(crate) sequence: u64,
    /// Content of the checkpoint file.
    pub(crate) written: Option<Checkpoint>,
    /// Offsets of the snapshots, ascending.
    pub(crate) snapshots: Vec<Offset>,
    /// The content of the newest snapshot, if known. The state at one offset can change: compaction removes
    /// the markers of aborted transactions, and producers expire.
    pub(crate) newest: Option<SnapshotContent>,
}

/// Identifies the content of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotContent {
    offset: Offset,
    bytes: usize,
    crc: u32,
}

impl SnapshotContent {
    pub(crate) fn of(offset: Offset, sections: &Sections) -> Self {
        let crc = crc32c::crc32c(&snapshot::encode_head(offset, sections));
        Self { offset, bytes: sections.total_bytes(), crc }
    }
}
