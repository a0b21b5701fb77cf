//! Where a replica stands that may hibernate.

use std::collections::BTreeMap;

use raft::StateRole;
use tailrace_types::NodeId;

/// A node that a sleeping replica relies on, and the number with which it has to beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The node.
    pub node: NodeId,
    /// The number of its lease.
    pub number: u64,
}

/// What raft was when a replica went to sleep. Whatever changes it wakes the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepState {
    pub(crate) term: u64,
    pub(crate) state: StateRole,
    pub(crate) leader: u64,
    pub(crate) last_index: u64,
    pub(crate) committed: u64,
    pub(crate) is_disturbed: bool,
}

/// Where a replica stands.
#[derive(Debug, Default)]
pub(crate) struct Hibernation {
    /// The number of its own node's lease, while that holds.
    pub(crate) own: Option<u64>,
    pub(crate) quiet_ticks: usize,
    /// Where its log ended at the last tick.
    pub(crate) quiet_at: u64,
    /// Members that have agreed, with the numbers of their nodes' leases.
    pub(crate) agreed: BTreeMap<u64, u64>,
    pub(crate) sleep: Option<(SleepState, Vec<Lease>)>,
}
