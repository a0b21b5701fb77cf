//! Expiry: transactions that are open too long are aborted, and idle transactional ids are removed.

use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::coordinator::TransactionCoordinator;
use super::transaction::key;
use crate::coordinator::{CoordinatorRecord, Effects};

/// Number of transactional ids that are removed in one batch of the log.
const FORGOTTEN_PER_BATCH: usize = 500;

fn later(time: TimestampMs, ms: i64) -> TimestampMs {
    TimestampMs(time.0.saturating_add(ms))
}

impl TransactionCoordinator {
    pub(super) fn next_deadline(&self) -> Option<TimestampMs> {
        let abort = self.open.first().map(|(deadline, _)| Some(*deadline).max(self.timers.next_abort));
        let forget = self.idle.first().map(|(updated, _)| {
            Some(later(*updated, self.timers.expiration_ms)).max(self.timers.next_forget)
        });
        let give_up = self.waiting.iter().map(|waiting| waiting.until).min();
        [abort.flatten(), forget.flatten(), give_up].into_iter().flatten().min()
    }

    /// Aborts transactions that have been open for longer than their timeout.
    pub(super) fn abort_timed_out(&mut self, now: TimestampMs, effects: &mut Effects<Self>) {
        if self.timers.next_abort.is_some_and(|next| now < next) {
            return;
        }
        let mut looked = false;
        while let Some((_, transactional_id)) = self.open.first().filter(|(deadline, _)| *deadline <= now) {
            let transactional_id = transactional_id.clone();
            let transaction = self.get(&transactional_id).expect("the index names what is there");
            // No producer id can be drawn here. If the epochs are exhausted, the next InitProducerId draws
            // one.
            let aborted = transaction.aborted(None, now);
            self.change(&transactional_id, aborted, now, effects);
            looked = true;
        }
        if looked {
            self.timers.next_abort = Some(later(now, self.timers.abort_interval_ms));
        }
    }

    /// Removes ids that have not been used for `transactional.id.expiration.ms`.
    pub(super) fn forget_expired(&mut self, now: TimestampMs, effects: &mut Effects<Self>) {
        if self.timers.next_forget.is_some_and(|next| now < next) {
            return;
        }
        let expiration_ms = self.timers.expiration_ms;
        let is_expired = |updated: TimestampMs| later(updated, expiration_ms) <= now;
        let mut looked = false;
        loop {
            let expired: Vec<_> = self
                .idle
                .iter()
                .take_while(|(updated, _)| is_expired(*updated))
                .take(FORGOTTEN_PER_BATCH)
                .map(|(_, transactional_id)| transactional_id.clone())
                .collect();
            if expired.is_empty() {
                break;
            }
            let tombstone = |id: &Arc<str>| CoordinatorRecord { key: key(id), value: None };
            effects.append(expired.iter().map(tombstone).collect());
            expired.iter().for_each(|transactional_id| self.remove(transactional_id));
            looked = true;
        }
        if looked {
            self.timers.next_forget = Some(later(now, self.timers.forget_interval_ms));
        }
    }
}
