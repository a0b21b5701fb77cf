//! Adding partitions to a transaction, which happens before anything is written to them.

use std::collections::BTreeSet;

use tailrace_types::ProducerEpoch;

use super::coordinator::{Outcome, TransactionCoordinator, answer, legal_id};
use super::event::{AddPartitions, TransactionError, TransactionEvent, TransactionReply, VerifyPartitions};
use super::limits::PARTITIONS_PER_TRANSACTION_MAX;
use super::state::TransactionState;
use super::transaction::Transaction;
use super::waiting::Waiting;
use crate::coordinator::{Effects, Moment, TransactionalProducer};

impl TransactionCoordinator {
    /// Replies, or lets the request wait for markers.
    pub(super) fn add_or_wait(
        &mut self,
        add: AddPartitions,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let token = add.token;
        match self.add(&add, moment, effects) {
            Err(TransactionError::Concurrent) => {
                let id = add.transactional_id.clone();
                let again = TransactionEvent::Add(add);
                self.wait(Waiting::new(token, id, again, &self.timers, moment.now), effects);
            }
            outcome => answer(effects, token, outcome),
        }
    }

    fn add(&mut self, add: &AddPartitions, moment: &Moment<'_>, effects: &mut Effects<Self>) -> Outcome {
        legal_id(&add.transactional_id)?;
        let transaction = self.get(&add.transactional_id).ok_or(TransactionError::ProducerIdMapping)?;
        present_producer(transaction, add.producer)?;
        let ongoing = transaction.state == TransactionState::Ongoing;
        // This also holds for an empty list, which starts no transaction.
        if add.partitions.is_subset(&transaction.partitions) {
            return Ok(TransactionReply::Added);
        }
        let present = if ongoing { transaction.partitions.len() } else { 0 };
        let added = add.partitions.iter().filter(|&partition| !transaction.partitions.contains(partition));
        if present + added.count() > PARTITIONS_PER_TRANSACTION_MAX {
            return Err(TransactionError::TooManyPartitions { max: PARTITIONS_PER_TRANSACTION_MAX });
        }
        let next = transaction.with_partitions(add.partitions.iter().cloned(), add.protocol, moment.now);
        self.change(&add.transactional_id, next, moment.now, effects);
        Ok(TransactionReply::Added)
    }

    pub(super) fn verify(&self, verify: &VerifyPartitions) -> Outcome {
        legal_id(&verify.transactional_id)?;
        let transaction = self.get(&verify.transactional_id).ok_or(TransactionError::ProducerIdMapping)?;
        present_producer(transaction, verify.producer)?;
        let missing: BTreeSet<_> = verify.partitions.difference(&transaction.partitions).cloned().collect();
        Ok(TransactionReply::Verified { missing })
    }
}

/// Checks the producer. Only the current one may continue, and only while no transaction is being completed.
fn present_producer(
    transaction: &Transaction,
    producer: TransactionalProducer,
) -> Result<(), TransactionError> {
    // The reply to EndTxn already contained the next producer id, which is not in use yet.
    let successor = TransactionalProducer { epoch: ProducerEpoch(0), ..producer };
    if transaction.next_id == Some(producer.id) && producer == successor {
        return Err(TransactionError::Concurrent);
    }
    if transaction.producer.id != producer.id {
        return Err(TransactionError::ProducerIdMapping);
    }
    if transaction.producer.epoch != producer.epoch {
        return Err(TransactionError::Fenced);
    }
    if transaction.state.is_prepared() {
        return Err(TransactionError::Concurrent);
    }
    Ok(())
}
