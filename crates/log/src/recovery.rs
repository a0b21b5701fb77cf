//! The result of opening a log, and its basis.

use std::path::PathBuf;

use tailrace_types::{LeaderEpoch, Offset};

use crate::damage::{Damage, DamagedRange};
use crate::epochs::EpochTable;
use crate::format::checkpoint::Checkpoint;
use crate::sections::Sections;

/// How the start of the log is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By the checkpoint.
    Checkpoint,
    /// No checkpoint was ever written, so nothing was ever removed: offset 0, raft index 1.
    Fresh,
    /// The checkpoint is damaged. The log starts with the first segment.
    Unknown,
}

/// What opening found and did.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// True if there was nothing beyond the recovery point, after a clean stop or in an idle partition.
    pub clean: bool,
    /// True if the folder was created.
    pub created: bool,
    /// Bytes of `.log` files read. Only what is beyond the recovery point is read.
    pub bytes_read: u64,
    /// Batches found beyond the recovery point.
    pub batches_recovered: u64,
    /// What was truncated at the end, if anything.
    pub truncated: Option<TornTail>,
    /// The newest usable snapshot: the state after all batches below its offset. The rest is rebuilt from
    /// [`LogReader::headers`](crate::LogReader::headers) from that offset on, or from the log start if there
    /// is no snapshot.
    pub snapshot: Option<(Offset, Sections)>,
    /// Repaired oddities, one line each, for the operator.
    pub notes: Vec<String>,
    /// Segments, by base offset, that have fewer bytes than were durable.
    pub(crate) cut_short: Vec<(Offset, Damage)>,
    /// Durable ranges that are not what was written. They are not served, but the rest is.
    pub damaged: Vec<DamagedRange>,
}

/// A tail that was truncated at open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The `.log` that was truncated.
    pub file: PathBuf,
    /// The position at which it was truncated.
    pub position: u64,
    /// Bytes removed, including those of later segments.
    pub bytes: u64,
    /// The fault at that position.
    pub reason: String,
    /// True if good batches followed the bad one. Normal after a power loss, since pages reach the disk in
    /// any order. Alarming after a mere kill of the process.
    pub valid_batches_follow: bool,
}

/// Returns the initial epoch table and its last epoch.
pub(crate) fn epochs_of(checkpoint: Option<&Checkpoint>) -> (EpochTable, LeaderEpoch) {
    let table = EpochTable(checkpoint.map(|c| c.epochs.clone()).unwrap_or_default());
    let last = table.0.last().map_or(LeaderEpoch::UNKNOWN, |entry| entry.0);
    (table, last)
}
