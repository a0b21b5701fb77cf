//! The options and the report of a run.

use std::collections::BTreeMap;

use tailrace_replication::raft::DeliberateBug;

use crate::Mask;

/// The number of replicas.
pub(super) const REPLICAS: u64 = 3;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// The seed that everything follows from.
    pub seed: u64,
    /// How long the faults rage, in milliseconds of simulated time.
    pub storm_ms: u64,
    /// A deliberate bug.
    pub bug: Option<Bug>,
    /// The faults that are left out.
    pub mask: Mask,
}

/// A bug of the simulated cluster that a run must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Disks report a sync that they did not do, as if the leader acknowledged before the sync.
    AcknowledgeBeforeSync,
    /// A replica that lost its disk comes back under its old id.
    ReuseReplicaId,
    /// A consumer reads everything that its replica holds, committed or not.
    ReadUncommitted,
    /// A producer treats everything that a leader appended as committed.
    AcknowledgeOnAppend,
    /// A leader's barrier passes without confirmation by a majority.
    BarrierWithoutMajority,
    /// A bug in the replicas themselves.
    Replicas(DeliberateBug),
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// Batches that were acknowledged as committed.
    pub acknowledged: u64,
    /// Batches that consumers read.
    pub read: u64,
    /// How often each fault and each rare state happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// Checksum of everything that happened, in order. Two runs of one seed have the same.
    pub trace: u32,
}
