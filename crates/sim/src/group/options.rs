//! What a run is told, and what it tells.

use std::collections::BTreeMap;

use tailrace_replication::raft::DeliberateBug;

use crate::Mask;

/// How many replicas there are.
pub(super) const REPLICAS: u64 = 3;

/// How a run is set up.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// Everything follows from it.
    pub seed: u64,
    /// How long the faults rage, in milliseconds of simulated time.
    pub storm_ms: u64,
    /// What is done wrong on purpose.
    pub bug: Option<Bug>,
    /// Which faults are left out.
    pub mask: Mask,
}

/// A fault of the cluster's own that a run must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Disks say that they synced, and did not: as if acknowledged before the sync.
    AcknowledgeBeforeSync,
    /// A replica that lost its disk comes back under its old id.
    ReuseReplicaId,
    /// A consumer reads what its replica holds, committed or not.
    ReadUncommitted,
    /// A producer takes what a leader appended for committed.
    AcknowledgeOnAppend,
    /// A leader takes its word for it that it leads.
    BarrierWithoutMajority,
    /// The replicas' own.
    Replicas(DeliberateBug),
}

/// What a run has seen and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// Batches that were acknowledged as committed.
    pub acknowledged: u64,
    /// Batches that consumers read.
    pub read: u64,
    /// How often each fault and each rare state happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// Checksum of all that happened, in order: two runs of one seed have the same.
    pub trace: u32,
}
