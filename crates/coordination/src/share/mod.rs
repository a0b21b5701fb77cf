//! Share groups (KIP-932): the log as a work queue.
//!
//! Two cores are here. [`SharePartition`] is what happens to the records of one partition in one group: which are
//! acquired, by whom, until when, how often they were delivered. [`ShareCoordinator`] keeps what must survive a restart, in
//! `__share_group_state`, in Kafka's record formats.
//!
//! # The log of the share coordinator
//! Each share-partition has a snapshot, and at most a number of updates to it
//! (`share.coordinator.snapshot.update.records.per.snapshot`) until the next one. An update holds everything that
//! changed since its snapshot, not only the latest change: since all updates of a share-partition have the same key, a
//! compacted log keeps the snapshot and the last update, and nothing is missing. An update whose snapshot is not the
//! present one says nothing.
//!
//! The requests of Kafka's persister (InitializeShareGroupState, Read..., Write..., Delete..., ReadShareGroupStateSummary;
//! 83 to 87) are calls within the process, or questions to the node that coordinates, as [`ShareRequest`].
//!
//! # Generations
//! What the coordinator of a group asks for carries the generation of the group's states (`groups`), a number that grows over all groups
//! of one name. A state has that of the request that made it. So a request that comes late, when the states were deleted or another group
//! has taken the name, finds nothing to make, set, delete or write.
//!
//! Deliberately not here: who is a member of a share group and what it is assigned (`groups`), sessions, reading the log.

mod coordinator;
mod intervals;
mod key;
mod partition;
mod state;
#[cfg(test)]
mod tests;

pub use coordinator::{
    ShareAnswer, ShareCoordinator, ShareEvent, ShareReply, ShareRequest, ShareStateError, ShareWork,
};
pub use key::SharePartitionKey;
pub use partition::{
    AcknowledgeError, AcknowledgeKind, Acknowledgement, AcquireMode, AcquireTerms, AcquiredBatch, Fetched,
    FetchedBatch, GroupTerms, SharePartition,
};
pub use state::{DeliveryState, KeptState, StateBatch, StateWrite};
