//! The state of hibernation.

use std::collections::BTreeMap;

use raft::StateRole;
use tailrace_types::NodeId;

/// A node that a sleeping replica relies on, and the lease number with which it has to beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The node.
    pub node: NodeId,
    /// Its lease number.
    pub number: u64,
}

/// The raft state of a replica when it went to sleep. Any change of it wakes the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepState {
    pub(crate) term: u64,
    pub(crate) state: StateRole,
    pub(crate) leader: u64,
    pub(crate) last_index: u64,
    pub(crate) committed: u64,
    pub(crate) is_disturbed: bool,
}

/// The hibernation state of a replica.
#[derive(Debug, Default)]
pub(crate) struct Hibernation {
    /// The lease number of its own node, while the lease holds.
    pub(crate) own: Option<u64>,
    pub(crate) quiet_ticks: usize,
    /// The end of its log at the last tick.
    pub(crate) quiet_at: u64,
    /// Members that have agreed, with the lease numbers of their nodes.
    pub(crate) agreed: BTreeMap<u64, u64>,
    pub(crate) sleep: Option<(SleepState, Vec<Lease>)>,
}
