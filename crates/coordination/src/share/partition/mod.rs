//! The records of one partition on their way to the consumers of one share group (KIP-932).
//!
//! A [`SharePartition`] knows of each offset whether it is available, acquired by a member until some time, accepted, or
//! archived (rejected, delivered too often, or without a record), and how often it was delivered. It begins at the start
//! offset, before which everything is final, and ends where nothing was delivered yet; what lies beyond is fresh.
//! Offsets in the same state are kept as one run, so the cost goes with the number of runs, not of records.
//!
//! It is deterministic: the shell hands in what the log holds and the time, and asks afterwards what must be kept
//! ([`SharePartition::take_unsaved`]). A change holds at once; whoever was answered before it was kept has been told a
//! lie, so the shell answers afterwards. If keeping it fails, the shell throws the value away and restores another one.
//!
//! Deliberately not here: reading the log, keeping the state, sessions, waiting.

mod acknowledge;
mod acquire;
mod in_flight;
#[cfg(test)]
mod model_test;
mod save;
#[cfg(test)]
mod tests;

pub use acknowledge::{AcknowledgeError, AcknowledgeKind, Acknowledgement};
pub use acquire::{AcquireMode, AcquireTerms, AcquiredBatch, Fetched, FetchedBatch};
pub use in_flight::{GroupTerms, SharePartition};
