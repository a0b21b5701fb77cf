//! What can happen to the coordinator of transactions, what it answers, and what it wants done.

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
    /// Whom to answer.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// Time that a transaction may stay open, in milliseconds.
    pub timeout_ms: i32,
    /// Who the client thinks it is: it wants to go on as that (KIP-360). Without, it fences off whoever is there.
    pub expected: Option<TransactionalProducer>,
    /// A producer id that nobody has. Without one the answer may be [`TransactionReply::FreshIdNeeded`].
    pub fresh: Option<ProducerId>,
}

/// AddPartitionsToTxn, or what stands for it in a newer Produce or TxnOffsetCommit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitions {
    /// Whom to answer.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// Who asks.
    pub producer: TransactionalProducer,
    /// Partitions that are about to be written to.
    pub partitions: BTreeSet<TopicPartition>,
    /// The protocol that the client speaks.
    pub protocol: TransactionProtocol,
}

/// Are these partitions in the transaction? Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyPartitions {
    /// Whom to answer.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// Who asks.
    pub producer: TransactionalProducer,
    /// The partitions.
    pub partitions: BTreeSet<TopicPartition>,
}

/// EndTxn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTransaction {
    /// Whom to answer.
    pub token: Token,
    /// The transactional id.
    pub transactional_id: String,
    /// Who asks.
    pub producer: TransactionalProducer,
    /// Commit, or abort.
    pub committed: bool,
    /// The protocol that the client speaks.
    pub protocol: TransactionProtocol,
    /// A producer id that nobody has. Without one the answer may be [`TransactionReply::FreshIdNeeded`].
    pub fresh: Option<ProducerId>,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// A producer presents itself.
    Init(InitProducer),
    /// Partitions are added.
    Add(AddPartitions),
    /// Partitions are asked for.
    Verify(VerifyPartitions),
    /// A transaction is committed or aborted.
    End(EndTransaction),
    /// What is to be written now? Answered with [`TransactionReply::Markers`].
    AskMarkers {
        /// Whom to answer.
        token: Token,
        /// The transactional id.
        transactional_id: String,
    },
    /// All markers of a [`WriteMarkers`] are written, committed, or no longer needed. Answered with
    /// [`TransactionReply::MarkersNoted`] even if it is no news.
    MarkersWritten {
        /// Whom to answer.
        token: Token,
        /// What was written.
        markers: WriteMarkers,
    },
    /// ListTransactions.
    List {
        /// Whom to answer.
        token: Token,
        /// Which ones.
        filter: TransactionFilter,
    },
    /// DescribeTransactions.
    Describe {
        /// Whom to answer.
        token: Token,
        /// The transactional id.
        transactional_id: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionReply {
    /// The producer may write as this.
    Initialized(TransactionalProducer),
    /// The partitions are in the transaction.
    Added,
    /// Those of the partitions that are not in the transaction.
    Verified {
        /// Missing ones.
        missing: BTreeSet<TopicPartition>,
    },
    /// The outcome is final. The producer's next transaction is as this.
    Ended(TransactionalProducer),
    /// The markers that the transaction needs; none if it is not prepared.
    Markers(Option<WriteMarkers>),
    /// The transaction is complete, or was before.
    MarkersNoted,
    /// Transactions.
    Listed(Vec<TransactionListing>),
    /// One transaction.
    Described(TransactionDescription),
    /// Nothing was done: ask again with a fresh producer id.
    FreshIdNeeded,
    /// Nothing was done, and why.
    Refused(TransactionError),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum TransactionError {
    /// The transactional id is empty or too long.
    #[error("the transactional id has {bytes} bytes, allowed are 1 to {max}")]
    TransactionalId {
        /// Its bytes.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The transaction timeout is not positive or too long.
    #[error(
        "the transaction timeout of {timeout_ms} ms is not between 1 and transaction.max.timeout.ms, {max_ms} ms"
    )]
    Timeout {
        /// What was asked for, in milliseconds.
        timeout_ms: i32,
        /// The most, in milliseconds.
        max_ms: i32,
    },
    /// The transactional id is unknown.
    #[error("there is no such transactional id")]
    UnknownTransactionalId,
    /// The transactional id is unknown, or belongs to another producer id.
    #[error("the producer id does not belong to the transactional id")]
    ProducerIdMapping,
    /// Another producer took over, or the coordinator aborted the transaction.
    #[error("the producer was fenced off: its epoch is not the present one")]
    Fenced,
    /// The transaction before is still being completed.
    #[error("the previous transaction is still being completed")]
    Concurrent,
    /// What was asked for does not fit the state.
    #[error("a transaction in the state {} cannot be {}", state.name(), if *committed { "committed" } else { "aborted" })]
    State {
        /// The state.
        state: TransactionState,
        /// What was asked for.
        committed: bool,
    },
    /// Too many partitions in one transaction.
    #[error("a transaction may have {max} partitions at most")]
    TooManyPartitions {
        /// Allowed.
        max: usize,
    },
    /// Too many transactional ids.
    #[error(
        "there are {max} transactional ids in this partition of __transaction_state, as many as tailrace.transactional.ids.max allows"
    )]
    TooManyTransactionalIds {
        /// Allowed.
        max: usize,
    },
}

/// Markers to be written to every partition of a transaction whose outcome is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteMarkers {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer in the markers. Its epoch may be above the one that wrote, which is fenced off thereby.
    pub producer: TransactionalProducer,
    /// Commit, or abort.
    pub committed: bool,
    /// With an epoch per transaction the markers' epoch is above that of the transaction: a partition that knows the
    /// epoch already has its marker, and what is open there by that epoch is the next transaction (KIP-1228).
    pub protocol: TransactionProtocol,
    /// Where.
    pub partitions: BTreeSet<TopicPartition>,
    /// When the outcome became final. In the classic protocol the next transaction may be like this one in all else.
    pub prepared_at: TimestampMs,
}

/// What the coordinator wants done elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionWork {
    /// Write markers, then report [`TransactionEvent::MarkersWritten`]. May be asked for again while it is being done.
    WriteMarkers(WriteMarkers),
}
