//! Transactions as ListTransactions and DescribeTransactions show them.

use std::collections::BTreeSet;

use tailrace_types::{ProducerId, TimestampMs, TopicPartition};

use super::state::TransactionState;
use super::transaction::Transaction;
use crate::coordinator::TransactionalProducer;

/// Which transactions are listed. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// In one of these states; `None` for any.
    pub states: Option<BTreeSet<TransactionState>>,
    /// Of one of these producers; `None` for any.
    pub producers: Option<BTreeSet<ProducerId>>,
    /// Begun longer ago than this, in milliseconds.
    pub longer_than_ms: Option<i64>,
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionListing {
    /// The transactional id.
    pub transactional_id: String,
    /// Its producer.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: TransactionState,
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionDescription {
    /// Its producer.
    pub producer: TransactionalProducer,
    /// Its state.
    pub state: TransactionState,
    /// Time that it may stay open, in milliseconds.
    pub timeout_ms: i32,
    /// When it began; of one that has ended, until the next begins.
    pub started: Option<TimestampMs>,
    /// Its partitions, while it is open or being completed.
    pub partitions: BTreeSet<TopicPartition>,
}

impl TransactionFilter {
    /// True for one that is to be listed.
    pub(super) fn lets_through(&self, transaction: &Transaction, now: TimestampMs) -> bool {
        let is_longer = |least: i64| transaction.started.is_some_and(|started| now.since(started) > least);
        self.states.as_ref().is_none_or(|states| states.contains(&transaction.state))
            && self.producers.as_ref().is_none_or(|producers| producers.contains(&transaction.producer.id))
            && self.longer_than_ms.is_none_or(is_longer)
    }
}
