//! The outcome of an append.

use tailrace_log::LogError;
use tailrace_types::{HighWatermark, LeaderEpoch, Offset};

use crate::producers::{ProducerError, RememberedBatch};

/// The outcome of a successful append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The high watermark that commits the batch.
    pub committed_at: HighWatermark,
    /// The epoch under which it was appended. Under another leader the same offset may hold something else.
    pub epoch: LeaderEpoch,
    /// The stored batch that this one repeats. Nothing was appended in that case.
    pub duplicate: Option<RememberedBatch>,
    /// A sync should be scheduled now.
    pub sync_due: bool,
    /// A segment was closed, so this is a good moment for a sync with a recovery checkpoint.
    pub checkpoint_due: bool,
}

/// The reason why a batch was not appended. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The batch does not follow its producer's earlier batches, or violates the rules of transactions.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The partition failed earlier and accepts no writes. Reads continue.
    #[error("the partition accepts no writes: {reason}")]
    Halted {
        /// The failure that stopped it.
        reason: String,
    },
    /// The disk is full. Later appends may succeed.
    #[error("no space is left on the device")]
    Full,
    /// The log could not be written. The partition is halted now.
    #[error(transparent)]
    Log(LogError),
}
