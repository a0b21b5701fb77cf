//! The coordinator's tables. `step` and the steps of each kind of group change them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_types::{ProducerId, TimestampMs};

use super::counts::GroupCounts;
use super::group::Group;
use super::offsets::Offsets;
use super::state::{GroupKind, GroupState};
use super::timers::Timers;

/// All groups of one partition of `__consumer_offsets`.
#[derive(Debug, Default)]
pub struct GroupCoordinator {
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    pub(super) offsets: Offsets,
    pub(super) timers: Timers,
    pub(super) counts: GroupCounts,
    /// The time of the next check for expired offsets. `None` until everything is loaded.
    pub(super) expiry_check_at: Option<TimestampMs>,
}

impl GroupCoordinator {
    /// Makes an empty coordinator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the event counts so far.
    pub fn counts(&self) -> GroupCounts {
        self.counts
    }

    /// Returns how many transactions of a producer have ended in this coordinator's partition, as far as its
    /// log and memory go. `None` if the producer is unknown. A caller that consults the transaction
    /// coordinator before committing offsets in a transaction compares the number before and after: a
    /// different number means that the transaction has ended in the meantime.
    pub fn transactions_ended(&self, producer: ProducerId) -> Option<u64> {
        self.offsets.transactions_ended(producer)
    }

    /// Returns the number of committed offsets.
    pub fn offsets(&self) -> usize {
        self.offsets.committed_count()
    }

    /// Returns the number of groups by kind and state.
    pub fn census(&self) -> BTreeMap<(GroupKind, GroupState), usize> {
        let mut census = BTreeMap::new();
        for group in self.groups.values() {
            *census.entry((group.kind(), group.state())).or_default() += 1;
        }
        census
    }
}
