//! Why a batch is not stored.

use std::sync::Arc;

use tailrace_replication::AppendError;

use crate::partitions::{AppendFailure, WaitOutcome};

/// Why a batch is not stored, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// There is no such partition.
    #[error("there is no such partition")]
    NoSuchPartition,
    /// The partition cannot be used, and no other node has it.
    #[error("the partition is offline: {0}")]
    Offline(Arc<str>),
    /// The topic takes no batch of that size.
    #[error("the batch is larger than max.message.bytes of the topic")]
    TooLarge,
    /// The partition was deleted, or the server is stopping.
    #[error("the partition is gone")]
    Gone,
    /// Another node leads the partition since.
    #[error("another node leads the partition")]
    NotLeader,
    /// Too much waits for other replicas.
    #[error("too few replicas keep up")]
    TooFewReplicas,
    /// Nothing was tried.
    #[error("too much waits for the leaders of partitions on other nodes")]
    QueueFull,
    /// Nobody was asked to store it.
    #[error("no leader of the partition was found in time: {0}")]
    NoLeader(String),
    /// It may be stored.
    #[error("the leader of the partition did not answer in time, the batch may be stored: {0}")]
    Unanswered(String),
    /// The partition refuses it, for good.
    #[error("{0}")]
    Refused(String),
    /// It may be stored: what reached the disk before the failure is found there when the partition is opened.
    #[error("the log could not be written, the batch may be stored: {0}")]
    LogFailed(String),
    /// It may be stored.
    #[error("the partition stopped before the batch was committed")]
    Halted,
    /// The server's own fault.
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

impl NotStored {
    /// What became of a batch for which somebody has waited; `None` of a wait that nobody answered.
    pub(super) fn of_wait(outcome: Option<WaitOutcome>) -> Result<(), Self> {
        match outcome {
            Some(WaitOutcome::Committed) => Ok(()),
            Some(WaitOutcome::Deposed) => Err(Self::NotLeader),
            Some(WaitOutcome::Halted) | None => Err(Self::Halted),
        }
    }
}
