//! The state of share groups across nodes: questions to the node that leads a partition of `__share_group_state`.
//!
//! Kafka has requests between brokers for this (83 to 87).

use serde::{Deserialize, Serialize};
use tailrace_coordination::share::{ShareAnswer, ShareRequest, ShareStateError};

/// About the state of share groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareQuestion {
    /// To the coordinator of one share-partition.
    One(ShareRequest),
    /// The states of share-partitions were reset or deleted. The texts are their keys.
    Forget(Vec<String>),
}

/// What the coordinators say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareAnswers {
    /// From the coordinator, if it was asked.
    Done(Option<ShareAnswer>),
    Refused(ShareStateError),
    /// This node coordinates it no more, or not yet.
    Elsewhere,
    Failed(String),
}
