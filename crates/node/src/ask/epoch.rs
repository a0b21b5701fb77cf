//! The metadata-log epoch of a replica. A replica that is in no later epoch has not voted for a later
//! controller.

use serde::{Deserialize, Serialize};

/// Asks for the epoch of this replica of the metadata log. The answer is `None` if the node has a different
/// replica, or the replica has stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochOf {
    /// The replica's id.
    pub replica: u64,
}
