//! What looking at a folder tells.

use std::path::{Path, PathBuf};

use tailrace_types::{Offset, TimestampMs};

use crate::config::PartitionIdentity;

/// What [`verify_dir`](super::verify_dir) found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whose log it is, if the folder says.
    pub identity: Option<PartitionIdentity>,
    /// First offset that may be read, if there is a checkpoint.
    pub log_start: Option<Offset>,
    /// The recovery point, if there is a checkpoint: what lies beyond is not known to be durable.
    pub recovery_point: Option<Offset>,
    /// Entries without records.
    pub entries: u64,
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// What is wrong with the folder as a whole. Each segment has its own list.
    pub problems: Vec<Problem>,
}

/// What one segment holds.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The `.log`.
    pub file: PathBuf,
    /// From its name.
    pub base_offset: Offset,
    /// One past the last offset of the last good batch.
    pub next_offset: Offset,
    /// Good batches.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Length of the `.log`.
    pub bytes: u64,
    /// Bytes of good batches.
    pub good_bytes: u64,
    /// Largest timestamp.
    pub max_timestamp: TimestampMs,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub file: PathBuf,
    /// Position in the file.
    pub position: u64,
    /// What was expected and what was found.
    pub reason: String,
    /// The next start puts it right by itself.
    pub is_recoverable: bool,
}

impl Report {
    /// All problems, those of segments included.
    pub fn all_problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().chain(self.segments.iter().flat_map(|s| &s.problems))
    }

    /// True if there is no problem but those that the next start puts right.
    pub fn is_sound(&self) -> bool {
        self.all_problems().all(|problem| problem.is_recoverable)
    }
}

impl Problem {
    pub(super) fn new(file: &Path, position: u64, reason: impl Into<String>, is_recoverable: bool) -> Self {
        Self { file: file.to_owned(), position, reason: reason.into(), is_recoverable }
    }
}
