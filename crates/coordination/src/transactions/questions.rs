//! ListTransactions and DescribeTransactions.

use tailrace_types::TimestampMs;

use super::coordinator::{Outcome, TransactionCoordinator, legal_id};
use super::event::{TransactionError, TransactionReply};
use super::listing::{TransactionDescription, TransactionFilter, TransactionListing};

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
