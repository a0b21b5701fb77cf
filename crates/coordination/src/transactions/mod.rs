//! Transactions: the coordinator of one partition of `__transaction_state`.
//!
//! For each transactional id, the coordinator stores the producer that may write and the state of its
//! transaction. Two writes decide. A *prepared* record makes the outcome final. When every partition has its
//! marker, a *complete* record lets the next transaction start. Between the two, the coordinator requests
//! markers as [`TransactionWork`], and requests them again after a restart.
//!
//! The rules are those of Kafka 4.3: KIP-98, KIP-360 (a producer continues after an error), KIP-890 (an epoch
//! per transaction). One difference is not visible to clients. While markers are being written, Kafka answers
//! CONCURRENT_TRANSACTIONS at once. Here, requests that could continue afterwards wait for a short time
//! (`add.partitions.to.txn.max.timeout.ms`).
//!
//! Deliberately not here: writing markers, drawing producer ids, checking that topics exist, error codes.

mod coordinator;
mod end;
mod event;
mod expiry;
mod init;
mod limits;
mod listing;
mod partitions;
mod questions;
mod state;
mod step;
mod timers;
mod transaction;
mod wait;
mod waiting;

pub use coordinator::TransactionCoordinator;
pub use event::{
    AddPartitions, EndTransaction, InitProducer, TransactionError, TransactionEvent, TransactionReply,
    TransactionWork, VerifyPartitions, WriteMarkers,
};
pub use listing::{TransactionDescription, TransactionFilter, TransactionListing};
pub use state::TransactionState;
pub use transaction::TransactionProtocol;
