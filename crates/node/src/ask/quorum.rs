//! The replicas of the metadata log and their progress, as its leader knows them.

use serde::{Deserialize, Serialize};

/// Asks for the replicas of the metadata log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescribeQuorum {}

/// The replicas of the metadata log, as its leader knows them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quorum {
    /// Node id of the leader.
    pub leader: i32,
    /// The leader's epoch.
    pub epoch: i32,
    /// One past the last committed offset.
    pub high_watermark: i64,
    /// Voters.
    pub voters: Vec<QuorumReplica>,
    /// Learners: replicas that follow without a vote.
    pub learners: Vec<QuorumReplica>,
}

/// One replica of the metadata log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QuorumReplica {
    /// The node that has it.
    pub node: i32,
    /// One past the last record that it has stored durably, if known.
    pub stored: Option<i64>,
    /// When the leader last heard from it, in milliseconds of the leader's wall clock. `None` if it never
    /// did.
    pub heard_at_ms: Option<i64>,
}
