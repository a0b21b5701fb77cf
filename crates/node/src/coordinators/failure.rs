//! Why a coordinator has no answer.

use serde::{Deserialize, Serialize};

/// Why a coordinator has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CoordinatorFailure {
    /// Its partition cannot be read or written now, or its topic cannot be created.
    #[error("the coordinator is not available: {0}")]
    Unavailable(String),
    /// It was evicted while the answer was due. The request may or may not have taken effect.
    #[error("the coordinator was reloaded")]
    Reloaded,
    /// Another node leads its partition.
    #[error("another node coordinates this")]
    Elsewhere,
    /// The caller's deadline passed, and nothing was started. This does not travel: a node that asks over a
    /// link sets no deadline.
    #[error("the deadline passed before this was started")]
    Late,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}
