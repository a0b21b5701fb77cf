//! Why a batch is not stored.

use std::sync::Arc;

use tailrace_replication::AppendError;

use crate::partitions::{AppendFailure, WaitOutcome};
use crate::streams::NotPublished;

/// Why a batch is not stored, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// The partition does not exist.
    #[error("there is no such partition")]
    NoSuchPartition,
    /// The partition is offline, and no other node has it.
    #[error("the partition is offline: {0}")]
    Offline(Arc<str>),
    /// The batch is larger than the topic allows.
    #[error("the batch is larger than max.message.bytes of the topic")]
    TooLarge,
    /// The partition was deleted, or the server is stopping.
    #[error("the partition is gone")]
    Gone,
    /// Another node has become leader.
    #[error("another node leads the partition")]
    NotLeader,
    /// Too many appends wait for other replicas.
    #[error("too few replicas keep up")]
    TooFewReplicas,
    /// The queue is full, and nothing was tried.
    #[error("too many messages wait for partition leaders on other nodes")]
    QueueFull,
    /// No node was asked to store it.
    #[error("no leader of the partition was found in time: {0}")]
    NoLeader(String),
    /// The leader did not answer. The batch may be stored.
    #[error("the leader of the partition did not answer in time, the batch may be stored: {0}")]
    Unanswered(String),
    /// The partition refuses it for good.
    #[error("{0}")]
    Refused(String),
    /// The write failed. The batch may be stored: opening the partition finds what reached the disk before
    /// the failure.
    #[error("the log could not be written, the batch may be stored: {0}")]
    LogFailed(String),
    /// The partition stopped. The batch may be stored.
    #[error("the partition stopped before the batch was committed")]
    Halted,
    /// A bug in the server.
    #[error("building the batch panicked")]
    Panicked,
}

impl From<AppendFailure> for NotStored {
    fn from(failure: AppendFailure) -> Self {
        match failure {
            AppendFailure::Gone => Self::Gone,
            AppendFailure::NotLeader => Self::NotLeader,
            AppendFailure::TooFewReplicas => Self::TooFewReplicas,
            AppendFailure::Refused(AppendError::Log(error)) => Self::LogFailed(error.to_string()),
            AppendFailure::Refused(error) => Self::Refused(error.to_string()),
        }
    }
}

impl From<NotPublished> for NotStored {
    fn from(failure: NotPublished) -> Self {
        match failure {
            NotPublished::Again(reason) => Self::NoLeader(reason),
            NotPublished::Refused(reason) => Self::Refused(reason),
            NotPublished::Unknown(reason) => Self::Unanswered(reason),
        }
    }
}

impl NotStored {
    /// Converts the outcome of a wait. `None` if the wait was never answered.
    pub(super) fn of_wait(outcome: Option<WaitOutcome>) -> Result<(), Self> {
        match outcome {
            Some(WaitOutcome::Committed) => Ok(()),
            Some(WaitOutcome::Deposed) => Err(Self::NotLeader),
            Some(WaitOutcome::Halted) | None => Err(Self::Halted),
        }
    }
}
