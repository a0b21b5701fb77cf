//! Syncs that run without holding the partition.

use tailrace_log::{CheckpointPlan, Disk, LogError, SyncPlan};
use tailrace_types::LogEnd;

/// The state after a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// Nothing more is due.
    Done,
    /// Another sync is already due.
    Again,
    /// The sync failed. The partition takes no more writes.
    Halted,
}

/// A sync that runs without holding the partition. Run it, then pass it to
/// [`Solo::finish_sync`](crate::Solo::finish_sync).
pub struct SyncTicket<D: Disk>(pub(crate) Plan<D>);

pub(crate) enum Plan<D: Disk> {
    Sync(SyncPlan<D>),
    Checkpoint(CheckpointPlan<D>),
}

impl<D: Disk> SyncTicket<D> {
    /// Makes everything the ticket covers durable, and writes a recovery checkpoint after it if requested.
    /// Blocks.
    ///
    /// # Errors
    /// The device's error. Never retry the sync: the page cache may have dropped what failed.
    pub fn run(&self) -> Result<(), LogError> {
        match &self.0 {
            Plan::Sync(plan) => plan.run(),
            Plan::Checkpoint(plan) => plan.run(),
        }
    }

    /// The offset below which everything is durable once [`SyncTicket::run`] has succeeded.
    pub fn covers(&self) -> LogEnd {
        match &self.0 {
            Plan::Sync(plan) => plan.covers(),
            Plan::Checkpoint(plan) => plan.covers(),
        }
    }
}
