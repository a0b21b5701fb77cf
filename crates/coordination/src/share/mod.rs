//! Share groups (KIP-932): the log as a work queue.
//!
//! This module has two state machines. [`SharePartition`] tracks the records of one partition in one group:
//! which are acquired, by which member, until when, and how often they were delivered. [`ShareCoordinator`]
//! stores the part that must survive a restart in `__share_group_state`, in Kafka's record formats.
//!
//! # The log of the share coordinator
//! Each share-partition has a snapshot, and a bounded number of updates to it
//! (`share.coordinator.snapshot.update.records.per.snapshot`) until the next snapshot. An update holds all
//! changes since its snapshot, not only the latest. All updates of a share-partition have the same key, so a
//! compacted log keeps the snapshot and the last update, and loses nothing. An update is ignored if its
//! snapshot is not the current one.
//!
//! The requests of Kafka's persister (InitializeShareGroupState, Read..., Write..., Delete...,
//! ReadShareGroupStateSummary; 83 to 87) are sent as [`ShareRequest`]: calls within the process, or requests
//! to the node with the coordinator.
//!
//! # Generations
//! Requests of a group coordinator carry the generation of the group's states (`groups`). The number grows
//! over all groups of the same name. A state has the generation of the request that initialized it. So a late
//! request, after the states were deleted or another group has taken the name, has no effect.
//!
//! Deliberately not here: membership and assignment of share groups (`groups`), sessions, reading the log.

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
