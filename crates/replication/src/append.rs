//! What becomes of a batch that somebody wants to append.

use tailrace_log::LogError;
use tailrace_types::{HighWatermark, LeaderEpoch, Offset};

use crate::producers::{ProducerError, RememberedBatch};

/// Where a batch ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The high watermark has to reach this before the batch counts as committed.
    pub committed_at: HighWatermark,
    /// The epoch under which it was appended: behind another leader something else may lie there.
    pub epoch: LeaderEpoch,
    /// The stored batch that this one repeats; nothing was appended then.
    pub duplicate: Option<RememberedBatch>,
    /// A sync should be scheduled now.
    pub sync_due: bool,
    /// A segment was closed: a good moment for a sync with a recovery checkpoint.
    pub checkpoint_due: bool,
}

/// Why a batch was not appended. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It does not follow its producer's earlier batches, or its transaction is not in order.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The partition has failed before and takes no writes; reads go on.
    #[error("the partition takes no writes: {reason}")]
    Halted {
        /// The failure that stopped it.
        reason: String,
    },
    /// The disk is full. Later appends may succeed.
    #[error("no space is left on the device")]
    Full,
    /// The log could not be written; the partition is now halted.
    #[error(transparent)]
    Log(LogError),
}
