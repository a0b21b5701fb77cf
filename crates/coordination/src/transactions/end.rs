//! EndTxn: commits or aborts a transaction.
//!
//! There are two protocols. In the classic one, all transactions of a producer share an epoch. A repeated
//! request is recognized only by the state, and a request that was delayed into the next transaction ends
//! that one: the coordinator cannot tell the difference. With an epoch per transaction (KIP-890), a request
//! names its transaction. A repetition has the epoch before the current one, and older requests are fenced.

use super::coordinator::{Outcome, TransactionCoordinator, legal_id};
use super::event::{EndTransaction, TransactionError, TransactionReply};
use super::state::TransactionState;
use super::transaction::{Transaction, TransactionProtocol, is_exhausted};
use crate::coordinator::{Effects, Moment};

/// The effect of an EndTxn on a transaction.
enum Meaning {
    /// It ends the transaction.
    Ends,
    /// It repeats a request that has ended the transaction.
    Repeats,
}

impl TransactionCoordinator {
    pub(super) fn end(
        &mut self,
        end: &EndTransaction,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Outcome {
        legal_id(&end.transactional_id)?;
        let transaction = self.get(&end.transactional_id).ok_or(TransactionError::ProducerIdMapping)?;
        let meaning = match end.protocol {
            TransactionProtocol::Classic => classic(transaction, end)?,
            TransactionProtocol::EpochPerTransaction => with_epochs(transaction, end)?,
        };
        if let Meaning::Repeats = meaning {
            return Ok(TransactionReply::Ended(transaction.producer));
        }
        let ended = match end.protocol {
            TransactionProtocol::Classic => transaction.ended(end.committed, moment.now),
            TransactionProtocol::EpochPerTransaction => {
                if is_exhausted(transaction.producer.epoch) && end.fresh.is_none() {
                    return Ok(TransactionReply::FreshIdNeeded);
                }
                transaction.ended_with_bump(end.committed, end.fresh, moment.now)
            }
        };
        let successor = ended.successor();
        self.change(&end.transactional_id, ended, moment.now, effects);
        Ok(TransactionReply::Ended(successor))
    }
}

fn classic(transaction: &Transaction, end: &EndTransaction) -> Result<Meaning, TransactionError> {
    if transaction.producer.id != end.producer.id {
        return Err(TransactionError::ProducerIdMapping);
    }
    if transaction.producer.epoch != end.producer.epoch {
        return Err(TransactionError::Fenced);
    }
    match transaction.state {
        TransactionState::Ongoing => Ok(Meaning::Ends),
        _ => repeats(transaction.state, end.committed),
    }
}

fn with_epochs(transaction: &Transaction, end: &EndTransaction) -> Result<Meaning, TransactionError> {
    let refused = TransactionError::State { state: transaction.state, committed: end.committed };
    if transaction.was_ended_by(end.producer) && transaction.state != TransactionState::Ongoing {
        return match transaction.state {
            // InitProducerId has bumped the epoch since, or before, so this is not a repetition.
            TransactionState::Empty => Err(TransactionError::Fenced),
            _ => repeats(transaction.state, end.committed),
        };
    }
    if transaction.producer.id != end.producer.id {
        return Err(TransactionError::ProducerIdMapping);
    }
    if transaction.producer.epoch != end.producer.epoch {
        return Err(TransactionError::Fenced);
    }
    match transaction.state {
        TransactionState::Ongoing => Ok(Meaning::Ends),
        // The current epoch of a prepared transaction is that of the next one, which cannot end before it has
        // started.
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => Err(TransactionError::Fenced),
        // A client that does not know whether any part of its transaction arrived aborts it to be sure.
        _ if !end.committed => Ok(Meaning::Ends),
        _ => Err(refused),
    }
}

/// Returns the effect of a request for an outcome that has already been decided.
fn repeats(state: TransactionState, committed: bool) -> Result<Meaning, TransactionError> {
    let refused = TransactionError::State { state, committed };
    match state {
        TransactionState::CompleteCommit if committed => Ok(Meaning::Repeats),
        TransactionState::CompleteAbort if !committed => Ok(Meaning::Repeats),
        TransactionState::PrepareCommit if committed => Err(TransactionError::Concurrent),
        TransactionState::PrepareAbort if !committed => Err(TransactionError::Concurrent),
        _ => Err(refused),
    }
}
