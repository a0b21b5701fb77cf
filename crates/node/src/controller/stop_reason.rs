//! Why the metadata log has stopped.

use tailrace_replication::raft::Replica;

use super::log::MetadataError;
use crate::disk::NodeDisk;

/// Why the metadata log has stopped, where opening it anew may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It helps once there is room.
    NoRoom,
    /// A damaged index is built again on the way. Damaged records are out of service then, and the other replicas mend them.
    Damage,
}

impl StopReason {
    pub(super) fn is_of(self, replica: &Replica<NodeDisk>) -> bool {
        match self {
            Self::NoRoom => replica.ran_out_of_room(),
            Self::Damage => replica.halted().is_some() && replica.beyond_repair().is_some(),
        }
    }

    /// Of a log that was not even opened. What is wrong with the disk may pass.
    pub(super) fn of_opening(error: &MetadataError) -> Self {
        match error {
            MetadataError::Log(error) if error.is_no_space() => Self::NoRoom,
            _ => Self::Damage,
        }
    }
}
