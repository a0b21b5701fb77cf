//! One partition: what may be appended, what counts as committed, and what a reader may see.
//!
//! [`Solo`] is a partition with a single replica. It keeps the same index rows as a replicated one will: every batch
//! has a raft index and an epoch, and the epoch is raised and made durable before the first append after each start,
//! so that one (offset, epoch) pair never names two records.
//!
//! The types here take `&mut self`, are handed the time, and never wait: locks, threads and wakers belong to the
//! server. Deliberately not here: sockets, requests, protocol error codes.
//!
//! # Traps
//!
//! * A leader that has not committed anything in its term does not know what is committed. Nobody but its own
//!   replica is told that it leads before.
//! * The engine's own bound on uncommitted bytes is not used: it takes off what it reads back of committed
//!   entries, and those are read without their records. A partition took nothing any more after 64 MiB
//!   (`raft/uncommitted.rs` counts).
//! * The engine panics where it cannot read its log. `raft/engine.rs` makes that the end of the replica, and asks
//!   the engine nothing more; whatever is half done then must not be published.
//! * Members are exchanged one by one, and one that is behind is taken out first only of an even number of voters:
//!   of an odd one its removal frees no majority, and it may come back.
//! * A single replica's epochs begin at 0, which for raft is the term of what is not there: a log that is taken
//!   over gets an entry of a term of its own, and everything below is snapshot.
//! * Readers take the last stable offset first, then the list of aborted transactions, then the log. The list is
//!   published before the offset passes a marker, and forgets one only after the log start has: any other order
//!   lets aborted records through. Compaction is the other way round: it takes a marker out of the log only when
//!   the list has forgotten the transaction, and a reader that holds the list from before reads again
//!   (`PartitionReader::read_committed`); else the client would skip what follows.

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
