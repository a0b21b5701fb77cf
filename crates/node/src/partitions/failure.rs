//! Why a partition refuses an append, or a lookup by time has no answer.

use tailrace_log::LogError;
use tailrace_replication::AppendError;
use tailrace_replication::raft::ProposeError;

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendFailure {
    /// The partition was deleted, or the server is stopping.
    #[error("the partition is gone")]
    Gone,
    /// Another node leads the partition, or none does.
    #[error("this node does not lead the partition")]
    NotLeader,
    /// Too many appends are waiting for the other replicas.
    #[error("too much is waiting for the other replicas")]
    TooFewReplicas,
    /// The partition refuses the append.
    #[error(transparent)]
    Refused(AppendError),
}

impl From<ProposeError> for AppendFailure {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { .. } | ProposeError::OwnRemoval => Self::NotLeader,
            ProposeError::Busy => Self::TooFewReplicas,
            ProposeError::Append(error) => Self::Refused(error),
        }
    }
}

/// Why a lookup by time has no answer.
#[derive(Debug, thiserror::Error)]
pub enum LookupFailure {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A bug in the server.
    #[error("looking up an offset by time panicked")]
    Panicked,
}
