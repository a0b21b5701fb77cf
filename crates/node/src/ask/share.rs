//! The state of share groups across nodes: questions to the node that leads a partition of
//! `__share_group_state`.
//!
//! Kafka has requests between brokers for this (83 to 87).

use serde::{Deserialize, Serialize};
use tailrace_coordination::share::{ShareAnswer, ShareRequest, ShareStateError};

/// A question about the state of share groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareQuestion {
    /// For the coordinator of one share-partition.
    One(ShareRequest),
    /// The states of these share-partitions, named by their keys, were reset or deleted.
    Forget(Vec<String>),
}

/// The answer of a share coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareAnswers {
    /// The coordinator's answer, if the question was for a coordinator.
    Done(Option<ShareAnswer>),
    Refused(ShareStateError),
    /// This node does not coordinate the share-partition, or no longer does.
    Elsewhere,
    Failed(String),
}
