//! The report on a folder.

use std::path::{Path, PathBuf};

use tailrace_types::{Offset, TimestampMs};

use crate::config::PartitionIdentity;

/// The findings of [`verify_dir`](super::verify_dir).
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The partition that the log belongs to, if the folder says.
    pub identity: Option<PartitionIdentity>,
    /// The first offset that may be read, if there is a checkpoint.
    pub log_start: Option<Offset>,
    /// The recovery point, if there is a checkpoint. Anything beyond it may not be durable.
    pub recovery_point: Option<Offset>,
    /// The number of entries without records.
    pub entries: u64,
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Problems of the folder as a whole. Each segment has its own list.
    pub problems: Vec<Problem>,
}

/// The findings about one segment.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The `.log`.
    pub file: PathBuf,
    /// Base offset, from its name.
    pub base_offset: Offset,
    /// One past the last offset of the last good batch.
    pub next_offset: Offset,
    /// The number of good batches.
    pub batches: u64,
    /// The number of records in good batches.
    pub records: u64,
    /// Length of the `.log`.
    pub bytes: u64,
    /// Bytes of good batches.
    pub good_bytes: u64,
    /// Largest timestamp.
    pub max_timestamp: TimestampMs,
    /// The segment's problems.
    pub problems: Vec<Problem>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Position in the file.
    pub position: u64,
    /// What was expected and what was found.
    pub reason: String,
    /// True if the next start fixes it by itself.
    pub is_recoverable: bool,
}

impl Report {
    /// Iterates over all problems, including those of segments.
    pub fn all_problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().chain(self.segments.iter().flat_map(|s| &s.problems))
    }

    /// True if the next start fixes all problems, if any, by itself.
    pub fn is_sound(&self) -> bool {
        self.all_problems().all(|problem| problem.is_recoverable)
    }
}

impl Problem {
    pub(super) fn new(file: &Path, position: u64, reason: impl Into<String>, is_recoverable: bool) -> Self {
        Self { file: file.to_owned(), position, reason: reason.into(), is_recoverable }
    }
}
