//! Transactions, as ListTransactions and DescribeTransactions show them.

use std::collections::BTreeSet;

use tailrace_types::{ProducerId, TimestampMs, TopicPartition};

use super::state::TransactionState;
use super::transaction::Transaction;
use crate::coordinator::TransactionalProducer;

/// A filter of transactions. The default lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// The states to list. `None` for any.
    pub states: Option<BTreeSet<TransactionState>>,
    /// The producers to list. `None` for any.
    pub producers: Option<BTreeSet<ProducerId>>,
    /// The minimum time since the transaction started, in milliseconds.
    pub longer_than_ms: Option<i64>,
}

/// A transaction in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionListing {
    /// The transactional id.
    pub transactional_id: String,
    /// Its producer id.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: TransactionState,
}

/// The description of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionDescription {
    /// Its producer.
    pub producer: TransactionalProducer,
    /// Its state.
    pub state: TransactionState,
    /// Its timeout in milliseconds.
    pub timeout_ms: i32,
    /// The time at which it started. It is kept after the end until the next transaction starts.
    pub started: Option<TimestampMs>,
    /// Its partitions, while it is open or being completed.
    pub partitions: BTreeSet<TopicPartition>,
}

impl TransactionFilter {
    /// Reports whether a transaction is to be listed.
    pub(super) fn lets_through(&self, transaction: &Transaction, now: TimestampMs) -> bool {
        let is_longer = |least: i64| transaction.started.is_some_and(|started| now.since(started) > least);
        self.states.as_ref().is_none_or(|states| states.contains(&transaction.state))
            && self.producers.as_ref().is_none_or(|producers| producers.contains(&transaction.producer.id))
            && self.longer_than_ms.is_none_or(is_longer)
    }
}
