//! What a run is told and tells, and the names that all of it uses.

use std::collections::BTreeMap;

use tailrace_replication::raft::DeliberateBug;
use tailrace_types::{PartitionId, RaftGroup, TopicId, TopicName, TopicPartition};

use super::faults::Fault;
use crate::Mask;

/// The metadata log's group.
pub(super) const CONTROLLER: RaftGroup =
    RaftGroup { topic: TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), partition: PartitionId(0) };
pub(super) const DATA_TOPIC: &str = "data";
pub(super) const OUT_TOPIC: &str = "out";
/// How a run is set up.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
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
    /// A node that lost its disk opens its replicas under their old ids.
    ReuseReplicaId,
    /// A leader answers reads before an entry of its own term is committed.
    StaleLeaderReads,
    /// The replicas' own.
    Replicas(DeliberateBug),
}

/// What a run has seen and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterReport {
    /// How often each fault and each rare state happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The faults that were injected.
    pub faults: Vec<Fault>,
    /// Checksum of all that happened, in order: two runs of one seed have the same.
    pub trace: u32,
}

pub(super) fn topic_partition(topic: &str, partition: PartitionId) -> TopicPartition {
    TopicPartition::new(TopicName::new(topic).expect("the simulator's topics have legal names"), partition)
}
