//! Requests that wait for the markers of the previous transaction, instead of being refused and retried.

use tailrace_types::TimestampMs;

use super::coordinator::{TransactionCoordinator, answer};
use super::event::TransactionError;
use super::limits::WAITING_MAX;
use super::waiting::Waiting;
use crate::coordinator::{Coordinator, Effects, Moment};

impl TransactionCoordinator {
    /// Lets a request wait, or refuses it if too many wait.
    pub(super) fn wait(&mut self, waiting: Waiting, effects: &mut Effects<Self>) {
        if self.waiting.len() >= WAITING_MAX {
            answer(effects, waiting.token, Err(TransactionError::Concurrent));
        } else {
            self.waiting.push(waiting);
        }
    }

    /// Retries the requests that waited for a transaction, which is now complete, in the order in which they
    /// arrived. A request that has to wait again keeps its deadline.
    pub(super) fn wake(&mut self, transactional_id: &str, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        let all = std::mem::take(&mut self.waiting);
        let (woken, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|waiting| waiting.transactional_id == transactional_id);
        self.waiting = others;
        for Waiting { token, event, until, .. } in woken {
            effects.extend(self.step(event, moment));
            if let Some(again) = self.waiting.iter_mut().find(|waiting| waiting.token == token) {
                again.until = until;
            }
        }
    }

    /// Refuses requests that have waited too long.
    pub(super) fn give_up_waiting(&mut self, now: TimestampMs, effects: &mut Effects<Self>) {
        for late in self.waiting.extract_if(.., |waiting| waiting.until <= now) {
            answer(effects, late.token, Err(TransactionError::Concurrent));
        }
    }
}
