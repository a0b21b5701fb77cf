//! One partition: what may be appended, what counts as committed, and what a reader may see.
//!
//! [`Solo`] is a partition with a single replica. It keeps the same index rows as a replicated partition:
//! every batch has a raft index and an epoch. Before the first append after each start, the epoch is raised
//! and made durable, so that one (offset, epoch) pair never names two records.
//!
//! The types here take `&mut self`, receive the time as an argument, and never wait. Locks, threads and
//! wakers belong to the server. Deliberately not here: sockets, requests, protocol error codes.
//!
//! # Traps
//!
//! * A leader that has not committed an entry of its own term does not know what is committed. Until then,
//!   only its own replica treats it as the leader.
//! * The engine's own bound on uncommitted bytes is not used. It subtracts the bytes of committed entries as
//!   it reads them back, but those are read without their records, so a partition stopped accepting appends
//!   after 64 MiB. `raft/uncommitted.rs` counts instead.
//! * The engine panics if it cannot read its log. `raft/engine.rs` turns that into the end of the replica and
//!   never calls the engine again. State that is half done at that point must not be published.
//! * Members are exchanged one by one. A member that is behind is removed first only if the number of voters
//!   is even. With an odd number, its removal frees no majority, and it may come back.
//! * A single replica's epochs start at 0. In raft, term 0 belongs to entries that do not exist. So a log
//!   that raft takes over gets an entry of a new term, and everything below that entry counts as a snapshot.
//! * Readers take the last stable offset first, then the list of aborted transactions, then the log. The list
//!   is published before the offset passes a marker, and drops a transaction only after the log start has
//!   passed it. Any other order lets aborted records through. Compaction does the reverse: it removes a
//!   marker from the log only after the list has dropped the transaction. A reader that holds the older list
//!   reads again (`PartitionReader::read_committed`). Otherwise the client would skip what follows.

mod aborted;
mod append;
mod compaction;
pub mod inspect;
#[cfg(test)]
mod invariants_test;
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
pub use verification::VerificationGuard;
