//! Requests that wait a moment for the markers of the transaction before, instead of being sent away and coming back.

use tailrace_types::TimestampMs;

use super::coordinator::{TransactionCoordinator, answer};
use super::event::TransactionError;
use super::limits::WAITING_MAX;
use super::waiting::Waiting;
use crate::coordinator::{Coordinator, Effects, Moment};

impl TransactionCoordinator {
    /// Lets a request wait, or sends it away if too many do.
    pub(super) fn wait(&mut self, waiting: Waiting, effects: &mut Effects<Self>) {
        if self.waiting.len() >= WAITING_MAX {
            answer(effects, waiting.token, Err(TransactionError::Concurrent));
        } else {
            self.waiting.push(waiting);
        }
    }

    /// The transaction before is complete: those who waited for it are decided about anew, in the order they came in.
    /// One that has to wait once more does so no longer than it would have.
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

    /// Those whose time is up are sent away.
    pub(super) fn give_up_waiting(&mut self, now: TimestampMs, effects: &mut Effects<Self>) {
        for late in self.waiting.extract_if(.., |waiting| waiting.until <= now) {
            answer(effects, late.token, Err(TransactionError::Concurrent));
        }
    }
}
