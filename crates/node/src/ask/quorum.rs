//! Who keeps the metadata, and how far they are: the node that leads the metadata log knows.

use serde::{Deserialize, Serialize};

/// Who keeps the metadata?
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DescribeQuorum {}

/// As the leader of the metadata log knows it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quorum {
    /// The node that leads.
    pub leader: i32,
    /// Its epoch.
    pub epoch: i32,
    /// One past the last offset that is committed.
    pub high_watermark: i64,
    /// Replicas whose vote counts.
    pub voters: Vec<QuorumReplica>,
    /// Replicas that follow without a vote.
    pub learners: Vec<QuorumReplica>,
}

/// One who keeps the metadata.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QuorumReplica {
    /// Where it is.
    pub node: i32,
    /// One past the last record that it has durably, where that is known.
    pub stored: Option<i64>,
    /// When the leader last heard of it, in milliseconds of its wall clock; `None` if it never did.
    pub heard_at_ms: Option<i64>,
}
