//! Syncs that are carried out without holding the partition.

use tailrace_log::{CheckpointPlan, Disk, LogError, SyncPlan};
use tailrace_types::LogEnd;

/// How things stand after a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// Nothing more is due.
    Done,
    /// Another sync is due already.
    Again,
    /// It failed: the partition takes no more writes.
    Halted,
}

/// A sync to be carried out without holding the partition: run it, then hand it to [`Solo::finish_sync`](crate::Solo::finish_sync).
pub struct SyncTicket<D: Disk>(pub(crate) Plan<D>);

pub(crate) enum Plan<D: Disk> {
    Sync(SyncPlan<D>),
    Checkpoint(CheckpointPlan<D>),
}

impl<D: Disk> SyncTicket<D> {
    /// Makes everything the ticket covers durable, and writes a recovery checkpoint behind it if that was asked for.
    /// Blocks.
    ///
    /// # Errors
    /// The device's. It must never be retried: the page cache may have dropped what failed.
    pub fn run(&self) -> Result<(), LogError> {
        match &self.0 {
            Plan::Sync(plan) => plan.run(),
            Plan::Checkpoint(plan) => plan.run(),
        }
    }

    /// Everything below this offset is durable once [`SyncTicket::run`] succeeded.
    pub fn covers(&self) -> LogEnd {
        match &self.0 {
            Plan::Sync(plan) => plan.covers(),
            Plan::Checkpoint(plan) => plan.covers(),
        }
    }
}
