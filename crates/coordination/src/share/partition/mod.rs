//! The records of one partition in flight to the consumers of one share group (KIP-932).
//!
//! A [`SharePartition`] stores for each offset whether it is available, acquired by a member until some time,
//! accepted, or archived (rejected, delivered too often, or without a record), and how often it was
//! delivered. It starts at the start offset, before which everything is final. It ends at the first offset
//! that was never delivered; everything from there on is fresh. Adjacent offsets in the same state are one
//! run, so the cost depends on the number of runs, not of records.
//!
//! It is deterministic. The caller passes in the content of the log and the time, and then asks for the
//! changes that must be stored ([`SharePartition::take_unsaved`]). A change takes effect at once, so the
//! caller must not reply before the change is stored: otherwise the reply might turn out wrong. If storing
//! fails, the caller drops the value and restores another one.
//!
//! Deliberately not here: reading the log, storing the state, sessions, waiting.

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
