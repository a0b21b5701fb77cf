//! Why the metadata log has stopped.

use tailrace_replication::raft::Replica;

use super::log::MetadataError;
use crate::disk::NodeDisk;

/// A reason why the metadata log has stopped that opening it again may fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The disk was full. Opening helps once there is room.
    NoRoom,
    /// Damage. Opening rebuilds a damaged index. Damaged records are then out of service, and the other
    /// replicas repair them.
    Damage,
}

impl StopReason {
    pub(super) fn is_of(self, replica: &Replica<NodeDisk>) -> bool {
        match self {
            Self::NoRoom => replica.ran_out_of_room(),
            Self::Damage => replica.halted().is_some() && replica.beyond_repair().is_some(),
        }
    }

    /// Returns the reason for a log that could not even be opened. A problem of the disk may be temporary.
    pub(super) fn of_opening(error: &MetadataError) -> Self {
        match error {
            MetadataError::Log(error) if error.is_no_space() => Self::NoRoom,
            _ => Self::Damage,
        }
    }
}
