//! Transactions: the coordinator of one partition of `__transaction_state`.
//!
//! It knows, per transactional id, the producer that may write and how far its transaction is. Two writes decide: a
//! record that says *prepared* makes the outcome final; when every partition has its marker, a record that says
//! *complete* lets the next transaction begin. Between the two the coordinator asks for markers as
//! [`TransactionWork`], and asks again after a restart.
//!
//! Rules are those of Kafka 4.3: KIP-98, KIP-360 (a producer goes on after an error), KIP-890 (an epoch per
//! transaction). One thing differs and no client can tell: where Kafka answers CONCURRENT_TRANSACTIONS at once while
//! markers are being written, requests that could go on afterwards wait a moment
//! (`add.partitions.to.txn.max.timeout.ms`).
//!
//! Deliberately not here: writing markers, drawing producer ids, whether topics exist, error codes.

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
