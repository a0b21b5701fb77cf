//! One partition: what may be appended, what counts as committed, and what a reader may see.
//!
//! [`Solo`] is a partition with a single replica. It keeps the same index rows as a replicated one will: every batch
//! has a raft index and an epoch, and the epoch is raised and made durable before the first append after each start,
//! so that one (offset, epoch) pair never names two records.
//!
//! The types here take `&mut self`, are handed the time, and never wait: locks, threads and wakers belong to the
//! server. Deliberately not here: sockets, requests, protocol error codes.

mod aborted;
mod append;
mod compaction;
pub mod inspect;
mod ledger;
#[cfg(feature = "raft")]
mod partition;
mod policy;
mod producers;
#[cfg(feature = "raft")]
pub mod raft;
mod reader;
mod rebuild;
mod snapshot;
mod solo;
mod ticket;
mod unended;
mod verification;

pub use aborted::{ABORTED_TRANSACTIONS_MAX, AbortedTransaction, AbortedTransactions};
pub use append::{AppendError, Appended};
pub use compaction::CompactionPolicy;
#[cfg(feature = "raft")]
pub use partition::Partition;
pub use policy::{Durability, Policy};
pub use producers::{
    BATCHES_REMEMBERED, NO_COORDINATOR_EPOCH, PRODUCERS_MAX, ProducerError, ProducerState, Producers,
    RememberedBatch, SequenceCheck, TransactionMarker,
};
pub use reader::{CommittedSlice, PartitionReader};
pub use snapshot::SnapshotError;
pub use solo::Solo;
pub use ticket::{SyncOutcome, SyncTicket};
pub use verification::{VERIFICATIONS_MAX, VerificationGuard};
