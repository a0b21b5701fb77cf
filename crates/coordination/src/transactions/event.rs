//! Events of the transaction coordinator, its replies, and its work.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tailrace_types::{ProducerId, TimestampMs, TopicPartition};

use super::listing::{TransactionDescription, TransactionFilter, TransactionListing};
use super::state::TransactionState;
use super::transaction::TransactionProtocol;
use crate::coordinator::{Token, TransactionalProducer};

/// InitProducerId of a transactional producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitProducer {
    /// Identifies the request.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// Transaction timeout in milliseconds.
    pub timeout_ms: i32,
    /// The producer id and epoch that the client believes it has and wants to continue with (KIP-360).
    /// Without them it fences any other producer.
    pub expected: Option<TransactionalProducer>,
    /// An unused producer id. Without one the reply may be [`TransactionReply::FreshIdNeeded`].
    pub fresh: Option<ProducerId>,
}

/// AddPartitionsToTxn, or its implicit form in a newer Produce or TxnOffsetCommit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitions {
    /// Identifies the request.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer: TransactionalProducer,
    /// Partitions that the producer is about to write to.
    pub partitions: BTreeSet<TopicPartition>,
    /// The client's transaction protocol.
    pub protocol: TransactionProtocol,
}

/// Verifies that partitions are in the transaction. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyPartitions {
    /// Identifies the request.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer: TransactionalProducer,
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
}

/// EndTxn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTransaction {
    /// Identifies the request.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer: TransactionalProducer,
    /// True to commit, false to abort.
    pub committed: bool,
    /// The client's transaction protocol.
    pub protocol: TransactionProtocol,
    /// An unused producer id. Without one the reply may be [`TransactionReply::FreshIdNeeded`].
    pub fresh: Option<ProducerId>,
}

/// An event of the transaction coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// A producer is initialized.
    Init(InitProducer),
    /// Partitions are added.
    Add(AddPartitions),
    /// Partitions are verified.
    Verify(VerifyPartitions),
    /// A transaction is committed or aborted.
    End(EndTransaction),
    /// Asks for the markers to be written now. The reply is [`TransactionReply::Markers`].
    AskMarkers {
        /// Identifies the request.
        token: Token,
        /// The transactional id.
        transactional_id: String,
    },
    /// All markers of a [`WriteMarkers`] are written and committed, or no longer needed. The reply is
    /// [`TransactionReply::MarkersNoted`], even for a repeated report.
    MarkersWritten {
        /// Identifies the request.
        token: Token,
        /// The written markers.
        markers: WriteMarkers,
    },
    /// ListTransactions.
    List {
        /// Identifies the request.
        token: Token,
        /// The transactions to list.
        filter: TransactionFilter,
    },
    /// DescribeTransactions.
    Describe {
        /// Identifies the request.
        token: Token,
        /// The transactional id.
        transactional_id: String,
    },
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionReply {
    /// The producer id and epoch to use.
    Initialized(TransactionalProducer),
    /// The partitions are in the transaction.
    Added,
    /// The result of [`TransactionEvent::Verify`].
    Verified {
        /// The partitions that are not in the transaction.
        missing: BTreeSet<TopicPartition>,
    },
    /// The outcome is final. The producer continues with this id and epoch.
    Ended(TransactionalProducer),
    /// The markers that the transaction needs. `None` if it is not prepared.
    Markers(Option<WriteMarkers>),
    /// The transaction is complete, now or before.
    MarkersNoted,
    /// Transactions.
    Listed(Vec<TransactionListing>),
    /// One transaction.
    Described(TransactionDescription),
    /// Nothing was changed: the caller must retry with a fresh producer id.
    FreshIdNeeded,
    /// The request was refused. Nothing was changed.
    Refused(TransactionError),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum TransactionError {
    /// The transactional id is empty or too long.
    #[error("the transactional id has {bytes} bytes; 1 to {max} are allowed")]
    TransactionalId {
        /// Its length.
        bytes: usize,
        /// The maximum length.
        max: usize,
    },
    /// The transaction timeout is not positive, or too long.
    #[error(
        "the transaction timeout of {timeout_ms} ms is not between 1 and transaction.max.timeout.ms, {max_ms} ms"
    )]
    Timeout {
        /// The requested timeout, in milliseconds.
        timeout_ms: i32,
        /// The maximum, in milliseconds.
        max_ms: i32,
    },
    /// The transactional id is unknown.
    #[error("there is no such transactional id")]
    UnknownTransactionalId,
    /// The transactional id is unknown, or belongs to another producer id.
    #[error("the producer id does not belong to the transactional id")]
    ProducerIdMapping,
    /// Another producer took over, or the coordinator aborted the transaction.
    #[error("the producer was fenced: its epoch is not the current one")]
    Fenced,
    /// The previous transaction is still being completed.
    #[error("the previous transaction is still being completed")]
    Concurrent,
    /// The request does not match the state.
    #[error("a transaction in the state {} cannot be {}", state.name(), if *committed { "committed" } else { "aborted" })]
    State {
        /// The state.
        state: TransactionState,
        /// The requested outcome.
        committed: bool,
    },
    /// Too many partitions in one transaction.
    #[error("a transaction may have at most {max} partitions")]
    TooManyPartitions {
        /// The maximum number.
        max: usize,
    },
    /// Too many transactional ids.
    #[error(
        "there are {max} transactional ids in this partition of __transaction_state, as many as tailrace.transactional.ids.max allows"
    )]
    TooManyTransactionalIds {
        /// The maximum number.
        max: usize,
    },
}

/// Markers to be written to every partition of a prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteMarkers {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer in the markers. Its epoch may be above the one that wrote, which is fenced by it.
    pub producer: TransactionalProducer,
    /// True to commit, false to abort.
    pub committed: bool,
    /// With an epoch per transaction, the epoch of the markers is above that of the transaction. So a
    /// partition that already knows the epoch has its marker, and an open transaction of that epoch is the
    /// next one (KIP-1228).
    pub protocol: TransactionProtocol,
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
    /// The time at which the outcome became final. In the classic protocol the next transaction may be equal
    /// to this one in everything else.
    pub prepared_at: TimestampMs,
}

/// Work that the coordinator needs done elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionWork {
    /// Write markers, then report [`TransactionEvent::MarkersWritten`]. The same work may be requested again
    /// while it is in progress.
    WriteMarkers(WriteMarkers),
}
