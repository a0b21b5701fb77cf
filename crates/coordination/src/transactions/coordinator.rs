//! The coordinator itself: its tables, and the road of an event through it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_records::internal::TransactionLogKey;
use tailrace_types::TimestampMs;

use super::event::{TransactionError, TransactionEvent, TransactionReply, TransactionWork, WriteMarkers};
use super::limits::TRANSACTIONAL_ID_BYTES_MAX;
use super::state::TransactionState;
use super::timers::Timers;
use super::transaction::Transaction;
use super::waiting::Waiting;
use crate::coordinator::{Coordinator, Effects, Moment, ReplayError, Replayed, Token};

/// The transactions of one partition of `__transaction_state`.
#[derive(Debug, Default)]
pub struct TransactionCoordinator {
    pub(super) transactions: BTreeMap<Arc<str>, Transaction>,
    /// Open transactions by the time at which they are aborted.
    pub(super) open: BTreeSet<(TimestampMs, Arc<str>)>,
    /// Idle transactional ids by their last use.
    pub(super) idle: BTreeSet<(TimestampMs, Arc<str>)>,
    /// Requests that wait until markers are written.
    pub(super) waiting: Vec<Waiting>,
    pub(super) timers: Timers,
}

/// What became of an event, as far as its sender is concerned.
pub(super) type Outcome = Result<TransactionReply, TransactionError>;

impl TransactionCoordinator {
    /// A coordinator of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if a transaction is prepared that needs exactly these markers.
    pub fn needs(&self, markers: &WriteMarkers) -> bool {
        let id = &markers.transactional_id;
        self.get(id).and_then(|transaction| needed_markers(id, transaction)).as_ref() == Some(markers)
    }

    pub(super) fn get(&self, transactional_id: &str) -> Option<&Transaction> {
        self.transactions.get(transactional_id)
    }

    /// Takes over a transaction's new state, without writing it.
    fn put(&mut self, transactional_id: Arc<str>, transaction: Transaction) {
        self.remove(&transactional_id);
        if let Some(deadline) = transaction.times_out_at() {
            self.open.insert((deadline, Arc::clone(&transactional_id)));
        }
        if transaction.state.is_idle() {
            self.idle.insert((transaction.updated, Arc::clone(&transactional_id)));
        }
        self.transactions.insert(transactional_id, transaction);
    }

    /// Forgets a transactional id, without writing it.
    pub(super) fn remove(&mut self, transactional_id: &Arc<str>) {
        let Some(old) = self.transactions.remove(transactional_id) else { return };
        if let Some(deadline) = old.times_out_at() {
            self.open.remove(&(deadline, Arc::clone(transactional_id)));
        }
        if old.state.is_idle() {
            self.idle.remove(&(old.updated, Arc::clone(transactional_id)));
        }
    }

    /// Takes over a transaction's new state and writes it. Prepared ones ask for their markers; one that has no
    /// partitions needs none and is complete at once.
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

    /// Decides about an event that is neither a question nor a repetition of one that waits.
    fn decide(&mut self, event: TransactionEvent, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        match event {
            TransactionEvent::Init(init) => self.init_or_wait(init, moment, effects),
            TransactionEvent::Add(add) => self.add_or_wait(add, moment, effects),
            TransactionEvent::Verify(verify) => answer(effects, verify.token, self.verify(&verify)),
            TransactionEvent::End(end) => {
                let outcome = self.end(&end, moment, effects);
                answer(effects, end.token, outcome);
            }
            TransactionEvent::AskMarkers { token, transactional_id } => {
                let transaction = self.get(&transactional_id);
                let needed =
                    transaction.and_then(|transaction| needed_markers(&transactional_id, transaction));
                answer(effects, token, Ok(TransactionReply::Markers(needed)));
            }
            TransactionEvent::MarkersWritten { token, markers } => {
                self.markers_written(&markers, moment, effects);
                answer(effects, token, Ok(TransactionReply::MarkersNoted));
            }
            TransactionEvent::List { token, filter } => {
                answer(effects, token, Ok(TransactionReply::Listed(self.list(&filter, moment.now))));
            }
            TransactionEvent::Describe { token, transactional_id } => {
                answer(effects, token, self.describe(&transactional_id));
            }
        }
    }

    fn markers_written(&mut self, markers: &WriteMarkers, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        let transactional_id = &*markers.transactional_id;
        // A report that came twice, or late, is about a transaction that is no longer prepared, or about another one.
        let Some(transaction) = self.get(transactional_id).filter(|_| self.needs(markers)) else { return };
        let complete = transaction.complete(moment.now);
        self.change(transactional_id, complete, moment.now, effects);
        self.wake(transactional_id, moment, effects);
    }
}

/// The markers that a prepared transaction needs.
fn needed_markers(transactional_id: &str, transaction: &Transaction) -> Option<WriteMarkers> {
    transaction.state.is_prepared().then(|| WriteMarkers {
        transactional_id: transactional_id.to_owned(),
        producer: transaction.producer,
        committed: transaction.state == TransactionState::PrepareCommit,
        protocol: transaction.protocol,
        partitions: transaction.partitions.clone(),
        prepared_at: transaction.updated,
    })
}

fn markers(transactional_id: &str, transaction: &Transaction) -> Option<TransactionWork> {
    needed_markers(transactional_id, transaction).map(TransactionWork::WriteMarkers)
}

/// Adds an answer.
pub(super) fn answer(effects: &mut Effects<TransactionCoordinator>, token: Token, outcome: Outcome) {
    let reply = outcome.unwrap_or_else(TransactionReply::Refused);
    effects.replies.push((token, reply));
}

/// A transactional id of a legal length.
pub(super) fn legal_id(transactional_id: &str) -> Result<(), TransactionError> {
    let bytes = transactional_id.len();
    if (1..=TRANSACTIONAL_ID_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(TransactionError::TransactionalId { bytes, max: TRANSACTIONAL_ID_BYTES_MAX })
}

impl Coordinator for TransactionCoordinator {
    type Event = TransactionEvent;
    type Reply = TransactionReply;
    type Work = TransactionWork;

    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError> {
        let Replayed::Record { key, value, .. } = entry else { return Ok(()) };
        let key = TransactionLogKey::decode(key).map_err(|error| ReplayError(error.to_string()))?;
        let transactional_id: Arc<str> = Arc::from(key.transactional_id);
        match value {
            Some(value) => {
                let transaction = Transaction::from_record(value)?;
                self.put(transactional_id, transaction);
            }
            None => self.remove(&transactional_id),
        }
        Ok(())
    }

    fn loaded(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        self.timers.follow(moment.image.broker());
        let mut effects = Effects::default();
        let prepared = self.transactions.iter().filter(|(_, transaction)| transaction.state.is_prepared());
        let work =
            prepared.filter_map(|(transactional_id, transaction)| markers(transactional_id, transaction));
        effects.work.extend(work);
        effects
    }

    fn step(&mut self, event: Self::Event, moment: &Moment<'_>) -> Effects<Self> {
        self.timers.follow(moment.image.broker());
        let mut effects = Effects::default();
        self.decide(event, moment, &mut effects);
        effects
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.next_deadline()
    }

    fn tick(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        self.timers.follow(moment.image.broker());
        let mut effects = Effects::default();
        self.give_up_waiting(moment.now, &mut effects);
        self.abort_timed_out(moment.now, &mut effects);
        self.forget_expired(moment.now, &mut effects);
        effects
    }
}
