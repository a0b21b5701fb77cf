//! In which epoch of the metadata log somebody is: whoever is in no later one has voted for no later controller.

use serde::{Deserialize, Serialize};

/// In which epoch is this replica of the metadata log? `None` if the node has another one, or it has stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochOf {
    /// The replica's id.
    pub replica: u64,
}
