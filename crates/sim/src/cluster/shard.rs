//! The coordinator of one partition, and what its answers wait for.

use std::collections::BTreeMap;

use tailrace_coordination::coordinator::{Coordinator, Token};
use tailrace_replication::Appended;
use tailrace_types::{HighWatermark, LeaderEpoch};

use super::tasks::Promise;

/// The coordinator of one partition.
pub(super) struct Shard<C: Coordinator> {
    pub(super) core: C,
    /// The epoch in which it was loaded: in another one, others may have written in between.
    pub(super) epoch: LeaderEpoch,
    pub(super) next_token: u64,
    pub(super) waiting: BTreeMap<Token, Promise<C::Reply>>,
    /// What everything that was decided so far rests on.
    pub(super) appended_to: Awaited,
}

/// A high watermark, and the epoch of the record before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Awaited {
    pub(super) at: HighWatermark,
    pub(super) epoch: LeaderEpoch,
}

impl From<&Appended> for Awaited {
    fn from(appended: &Appended) -> Self {
        Self { at: appended.committed_at, epoch: appended.epoch }
    }
}
