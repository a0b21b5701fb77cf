//! The coordinator's tables, and how it writes changes of transactions. `step`, and one file for each
//! request, change them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::event::{TransactionError, TransactionReply, TransactionWork, WriteMarkers};
use super::limits::TRANSACTIONAL_ID_BYTES_MAX;
use super::state::TransactionState;
use super::timers::Timers;
use super::transaction::Transaction;
use super::waiting::Waiting;
use crate::coordinator::{Effects, Token};

/// The transactions of one partition of `__transaction_state`.
#[derive(Debug, Default)]
pub struct TransactionCoordinator {
    pub(super) transactions: BTreeMap<Arc<str>, Transaction>,
    /// Open transactions, ordered by the time at which they are aborted.
    pub(super) open: BTreeSet<(TimestampMs, Arc<str>)>,
    /// Idle transactional ids, ordered by their last use.
    pub(super) idle: BTreeSet<(TimestampMs, Arc<str>)>,
    /// Requests that wait until markers are written.
    pub(super) waiting: Vec<Waiting>,
    pub(super) timers: Timers,
}

/// The result of an event, for its sender.
pub(super) type Outcome = Result<TransactionReply, TransactionError>;

impl TransactionCoordinator {
    /// Makes a coordinator of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports whether a prepared transaction needs exactly these markers.
    pub fn needs(&self, markers: &WriteMarkers) -> bool {
        let id = &markers.transactional_id;
        self.get(id).and_then(|transaction| needed_markers(id, transaction)).as_ref() == Some(markers)
    }

    pub(super) fn get(&self, transactional_id: &str) -> Option<&Transaction> {
        self.transactions.get(transactional_id)
    }

    /// Sets a transaction's new state, without writing it.
    pub(super) fn put(&mut self, transactional_id: Arc<str>, transaction: Transaction) {
        self.remove(&transactional_id);
        if let Some(deadline) = transaction.times_out_at() {
            self.open.insert((deadline, Arc::clone(&transactional_id)));
        }
        if transaction.state.is_idle() {
            self.idle.insert((transaction.updated, Arc::clone(&transactional_id)));
        }
        self.transactions.insert(transactional_id, transaction);
    }

    /// Removes a transactional id, without writing it.
    pub(super) fn remove(&mut self, transactional_id: &Arc<str>) {
        let Some(old) = self.transactions.remove(transactional_id) else { return };
        if let Some(deadline) = old.times_out_at() {
            self.open.remove(&(deadline, Arc::clone(transactional_id)));
        }
        if old.state.is_idle() {
            self.idle.remove(&(old.updated, Arc::clone(transactional_id)));
        }
    }

    /// Sets a transaction's new state and writes it. A prepared transaction requests its markers. One without
    /// partitions needs none and completes at once.
    pub(super) fn change(
        &mut self,
        transactional_id: &str,
        transaction: Transaction,
        now: TimestampMs,
        effects: &mut Effects<Self>,
    ) {
        let transaction = if transaction.state.is_prepared() && transaction.partitions.is_empty() {
            transaction.complete(now)
        } else {
            transaction
        };
        effects.append(vec![transaction.record(transactional_id)]);
        effects.work.extend(markers(transactional_id, &transaction));
        let key = match self.transactions.get_key_value(transactional_id) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::from(transactional_id),
        };
        self.put(key, transaction);
    }
}

/// Returns the markers that a prepared transaction needs.
pub(super) fn needed_markers(transactional_id: &str, transaction: &Transaction) -> Option<WriteMarkers> {
    transaction.state.is_prepared().then(|| WriteMarkers {
        transactional_id: transactional_id.to_owned(),
        producer: transaction.producer,
        committed: transaction.state == TransactionState::PrepareCommit,
        protocol: transaction.protocol,
        partitions: transaction.partitions.clone(),
        prepared_at: transaction.updated,
    })
}

/// Returns the same markers as work to be done.
pub(super) fn markers(transactional_id: &str, transaction: &Transaction) -> Option<TransactionWork> {
    needed_markers(transactional_id, transaction).map(TransactionWork::WriteMarkers)
}

/// Adds a reply.
pub(super) fn answer(effects: &mut Effects<TransactionCoordinator>, token: Token, outcome: Outcome) {
    let reply = outcome.unwrap_or_else(TransactionReply::Refused);
    effects.replies.push((token, reply));
}

/// Checks the length of a transactional id.
pub(super) fn legal_id(transactional_id: &str) -> Result<(), TransactionError> {
    let bytes = transactional_id.len();
    if (1..=TRANSACTIONAL_ID_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(TransactionError::TransactionalId { bytes, max: TRANSACTIONAL_ID_BYTES_MAX })
}
