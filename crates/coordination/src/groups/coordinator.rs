//! The coordinator's tables. What happens to them is in `step` and in each kind's own steps.

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
    /// When offsets are looked through for expired ones; not before everything is loaded.
    pub(super) expiry_check_at: Option<TimestampMs>,
}

impl GroupCoordinator {
    /// A coordinator that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has happened so far.
    pub fn counts(&self) -> GroupCounts {
        self.counts
    }

    /// How many transactions of a producer have ended in this coordinator's partition, as far as its log and memory go;
    /// `None` of a producer that is not known. Who asks a transaction's coordinator before offsets are committed in the
    /// transaction compares it before and after: another number means that the transaction has ended meanwhile.
    pub fn transactions_ended(&self, producer: ProducerId) -> Option<u64> {
        self.offsets.transactions_ended(producer)
    }

    /// Number of committed offsets.
    pub fn offsets(&self) -> usize {
        self.offsets.committed_count()
    }

    /// Number of groups by kind and state.
    pub fn census(&self) -> BTreeMap<(GroupKind, GroupState), usize> {
        let mut census = BTreeMap::new();
        for group in self.groups.values() {
            *census.entry((group.kind(), group.state())).or_default() += 1;
        }
        census
    }
}
