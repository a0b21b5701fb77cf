//! Why a partition takes nothing.

use tailrace_replication::AppendError;
use tailrace_replication::raft::ProposeError;

/// Why nothing was appended.
#[derive(Debug)]
pub enum AppendFailure {
    /// The partition was deleted, or the server is stopping.
    Gone,
    /// Another node leads the partition, or none does.
    NotLeader,
    /// Too much is waiting for the other replicas.
    TooFewReplicas,
    /// See the error.
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
