//! Why a coordinator has no answer.

use serde::{Deserialize, Serialize};

/// Why a coordinator has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CoordinatorFailure {
    /// Its partition cannot be read or written now, or its topic cannot be created.
    #[error("the coordinator is not available: {0}")]
    Unavailable(String),
    /// It was thrown away while the answer was due; what was asked for may or may not have happened.
    #[error("the coordinator was reloaded")]
    Reloaded,
    /// Another node leads its partition.
    #[error("another node coordinates this")]
    Elsewhere,
    /// The caller waits no longer, and nothing was begun. It does not travel: a node that asks over a link sets no
    /// deadline.
    #[error("the time given was used up before this was begun")]
    Late,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}
