//! What opening a log finds, and what it goes by.

use std::path::PathBuf;

use tailrace_types::{LeaderEpoch, Offset};

use crate::damage::{Damage, DamagedRange};
use crate::epochs::EpochTable;
use crate::format::checkpoint::Checkpoint;
use crate::sections::Sections;

/// Where the log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The checkpoint says.
    Checkpoint,
    /// No checkpoint was ever written, so nothing was ever removed from its beginning: at offset 0, raft index 1.
    Fresh,
    /// The checkpoint is damaged: wherever the first segment begins.
    Unknown,
}

/// What opening found and did.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Nothing lay beyond the recovery point: a clean stop, or an idle partition.
    pub clean: bool,
    /// The folder was created.
    pub created: bool,
    /// Bytes of `.log` files read. Only what lies beyond the recovery point is.
    pub bytes_read: u64,
    /// Batches found beyond the recovery point.
    pub batches_recovered: u64,
    /// What was cut off the end, if anything.
    pub truncated: Option<TornTail>,
    /// The newest usable snapshot: what is derived from all batches below its offset. The rest is rebuilt from
    /// [`LogReader::headers`](crate::LogReader::headers) from that offset on, or from the log start if there is none.
    pub snapshot: Option<(Offset, Sections)>,
    /// Oddities that were put right, one line each, for the operator.
    pub notes: Vec<String>,
    /// Segments by base offset that have fewer bytes than were durable.
    pub(crate) cut_short: Vec<(Offset, Damage)>,
    /// What had been durable and is not what was written. It is not served; the rest is.
    pub damaged: Vec<DamagedRange>,
}

/// A tail that was cut off at open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The `.log` that was cut.
    pub file: PathBuf,
    /// Where it was cut.
    pub position: u64,
    /// Bytes removed, those of later segments included.
    pub bytes: u64,
    /// What was wrong there.
    pub reason: String,
    /// Good batches followed the bad one. Normal after a power loss, since pages reach the disk in any order. Alarming
    /// after a mere kill.
    pub valid_batches_follow: bool,
}

/// Where an epoch table starts from.
pub(crate) fn epochs_of(checkpoint: Option<&Checkpoint>) -> (EpochTable, LeaderEpoch) {
    let table = EpochTable(checkpoint.map(|c| c.epochs.clone()).unwrap_or_default());
    let last = table.0.last().map_or(LeaderEpoch::UNKNOWN, |entry| entry.0);
    (table, last)
}
