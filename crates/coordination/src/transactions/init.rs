//! InitProducerId: decides which producer may write under a transactional id from now on.

use super::coordinator::{Outcome, TransactionCoordinator, answer, legal_id};
use super::event::{InitProducer, TransactionError, TransactionEvent, TransactionReply};
use super::state::TransactionState;
use super::transaction::{Transaction, is_exhausted};
use super::waiting::Waiting;
use crate::coordinator::{Effects, Moment, TransactionalProducer};

impl TransactionCoordinator {
    /// Replies, or lets the request wait for markers.
    pub(super) fn init_or_wait(
        &mut self,
        init: InitProducer,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let token = init.token;
        match self.init(&init, moment, effects) {
            // The request is retried when the markers are written, without the id: it may have been used.
            Err(TransactionError::Concurrent) => {
                let id = init.transactional_id.clone();
                let again = TransactionEvent::Init(InitProducer { fresh: None, ..init });
                self.wait(Waiting::new(token, id, again, &self.timers, moment.now), effects);
            }
            outcome => answer(effects, token, outcome),
        }
    }

    fn init(&mut self, init: &InitProducer, moment: &Moment<'_>, effects: &mut Effects<Self>) -> Outcome {
        legal_id(&init.transactional_id)?;
        let max_ms = moment.image.broker().transaction_max_timeout_ms;
        if !(1..=max_ms).contains(&init.timeout_ms) {
            return Err(TransactionError::Timeout { timeout_ms: init.timeout_ms, max_ms });
        }
        match self.get(&init.transactional_id) {
            None => self.init_unknown(init, moment, effects),
            Some(transaction) => {
                let transaction = transaction.clone();
                self.init_known(&transaction, init, moment, effects)
            }
        }
    }

    /// Handles an unknown transactional id. The client is treated as new, even if it expects an epoch: the id
    /// may have expired.
    fn init_unknown(
        &mut self,
        init: &InitProducer,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Outcome {
        let max = moment.image.broker().tailrace_transactional_ids_max as usize;
        if self.transactions.len() >= max {
            return Err(TransactionError::TooManyTransactionalIds { max });
        }
        let Some(fresh) = init.fresh else { return Ok(TransactionReply::FreshIdNeeded) };
        let transaction = Transaction::new(fresh, init.timeout_ms, moment.now);
        let producer = transaction.producer;
        self.change(&init.transactional_id, transaction, moment.now, effects);
        Ok(TransactionReply::Initialized(producer))
    }

    fn init_known(
        &mut self,
        transaction: &Transaction,
        init: &InitProducer,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Outcome {
        if !init.expected.is_none_or(|expected| may_go_on(transaction, expected)) {
            return Err(TransactionError::Fenced);
        }
        match transaction.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                Err(TransactionError::Concurrent)
            }
            TransactionState::Ongoing => {
                if is_exhausted(transaction.producer.epoch) && init.fresh.is_none() {
                    return Ok(TransactionReply::FreshIdNeeded);
                }
                // A client that is not the current producer gets the epoch after the one that the abort sets.
                let aborted = transaction.aborted(init.fresh, moment.now);
                self.change(&init.transactional_id, aborted, moment.now, effects);
                Err(TransactionError::Concurrent)
            }
            TransactionState::Empty
            | TransactionState::CompleteCommit
            | TransactionState::CompleteAbort
            | TransactionState::Dead
            | TransactionState::PrepareEpochFence => self.next_generation(transaction, init, moment, effects),
        }
    }

    /// Moves on to the next epoch, or to the next producer id. A repeated request gets the same reply as the
    /// first one.
    fn next_generation(
        &mut self,
        transaction: &Transaction,
        init: &InitProducer,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Outcome {
        let present = transaction.producer;
        let expected_epoch = init.expected.map(|expected| expected.epoch);
        let (producer, last_epoch) = match expected_epoch {
            Some(epoch) if epoch != present.epoch => {
                if transaction.last_epoch != Some(epoch) {
                    return Err(TransactionError::Fenced);
                }
                (present, transaction.last_epoch)
            }
            _ if is_exhausted(present.epoch) => {
                let Some(id) = init.fresh else { return Ok(TransactionReply::FreshIdNeeded) };
                (Transaction::new(id, init.timeout_ms, moment.now).producer, expected_epoch)
            }
            _ => (transaction.next_generation(), expected_epoch),
        };
        let next = transaction.initialized(producer, last_epoch, init.timeout_ms, moment.now);
        self.change(&init.transactional_id, next, moment.now, effects);
        Ok(TransactionReply::Initialized(producer))
    }
}

/// Reports whether a client that believes to be `expected` may be the current producer. The epoch is checked
/// later. If the epochs of the previous producer id are exhausted, the client may still have that id: the
/// reply with the new one may have been lost (KIP-360).
fn may_go_on(transaction: &Transaction, expected: TransactionalProducer) -> bool {
    expected.id == transaction.producer.id
        || (transaction.previous_id == Some(expected.id) && is_exhausted(expected.epoch))
}
