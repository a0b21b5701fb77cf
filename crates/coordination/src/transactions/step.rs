//! Dispatch of events, log records, loads and timers to the coordinator.

use std::sync::Arc;

use tailrace_records::internal::TransactionLogKey;
use tailrace_types::TimestampMs;

use super::coordinator::{TransactionCoordinator, answer, markers, needed_markers};
use super::event::{TransactionEvent, TransactionReply, TransactionWork, WriteMarkers};
use super::transaction::Transaction;
use crate::coordinator::{Coordinator, Effects, Moment, ReplayError, Replayed};

impl TransactionCoordinator {
    /// Handles an event that changes state.
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
        // A repeated or late report is about a transaction that is no longer prepared, or about another one.
        let Some(transaction) = self.get(transactional_id).filter(|_| self.needs(markers)) else { return };
        let complete = transaction.complete(moment.now);
        self.change(transactional_id, complete, moment.now, effects);
        self.wake(transactional_id, moment, effects);
    }
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
