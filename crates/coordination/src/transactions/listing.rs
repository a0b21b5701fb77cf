//! ListTransactions and DescribeTransactions.

use std::collections::BTreeSet;

use tailrace_types::{ProducerId, TimestampMs, TopicPartition};

use super::coordinator::{Outcome, TransactionCoordinator, legal_id};
use super::event::{TransactionError, TransactionReply};
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
    fn lets_through(&self, transaction: &Transaction, now: TimestampMs) -> bool {
        let is_longer = |least: i64| transaction.started.is_some_and(|started| now.since(started) > least);
        self.states.as_ref().is_none_or(|states| states.contains(&transaction.state))
            && self.producers.as_ref().is_none_or(|producers| producers.contains(&transaction.producer.id))
            && self.longer_than_ms.is_none_or(is_longer)
    }
}

impl TransactionCoordinator {
    pub(super) fn list(&self, filter: &TransactionFilter, now: TimestampMs) -> Vec<TransactionListing> {
        let listed =
            self.transactions.iter().filter(|(_, transaction)| filter.lets_through(transaction, now));
        listed
            .map(|(transactional_id, transaction)| TransactionListing {
                transactional_id: transactional_id.to_string(),
                producer_id: transaction.producer.id,
                state: transaction.state,
            })
            .collect()
    }

    pub(super) fn describe(&self, transactional_id: &str) -> Outcome {
        legal_id(transactional_id)?;
        let transaction = self.get(transactional_id).ok_or(TransactionError::UnknownTransactionalId)?;
        Ok(TransactionReply::Described(TransactionDescription {
            producer: transaction.producer,
            state: transaction.state,
            timeout_ms: transaction.timeout_ms,
            started: transaction.started,
            partitions: transaction.partitions.clone(),
        }))
    }
}
