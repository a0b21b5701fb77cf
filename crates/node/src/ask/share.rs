//! The state of share groups across nodes: questions to the node that leads a partition of `__share_group_state`.
//!
//! Kafka has requests between brokers for this (83 to 87). What nodes ask here is more: everything that a group has a state of,
//! and that it was deleted.

use serde::{Deserialize, Serialize};
use tailrace_coordination::share::{ShareAnswer, ShareRequest, ShareStateError};

/// About the state of share groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareQuestion {
    /// To the coordinator of one share-partition.
    One(ShareRequest),
    /// To all coordinators of the node.
    All(ShareRequest),
    /// The state of a share-partition is about to be set anew or deleted. The text is its key.
    Forget(String),
}

/// What the coordinators say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareAnswers {
    /// From each coordinator that was asked.
    Done(Vec<ShareAnswer>),
    Refused(ShareStateError),
    /// This node coordinates it no more, or not yet.
    Elsewhere,
    Failed(String),
}
