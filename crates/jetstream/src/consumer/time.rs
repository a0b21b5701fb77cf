//! What time brings.

use super::advisory::Advisory;
use super::output::{Moment, Outbox, Send};
use super::pending::{Held, Stage};
use super::state::Consumer;
use super::view::StreamView;

impl Consumer {
    /// Does what is due. To be called at [`Consumer::next_deadline_ns`], and then [`Consumer::serve`].
    pub fn tick(&mut self, view: &mut impl StreamView, at: Moment, out: &mut Outbox) {
        if self.is_closed {
            return;
        }
        self.expire(at, out);
        if self.waiting.due_ns() <= at.now_ns {
            self.sweep(false, view, at, out);
        }
        self.beat(at, out);
        if self.pin.as_ref().is_some_and(|pin| pin.until_ns <= at.now_ns) {
            self.unpin(false, out);
        }
        if self.paused_until_ns != 0 && self.paused_until_ns <= at.now_ns {
            let until_ns = std::mem::take(&mut self.paused_until_ns);
            out.advise(Advisory::Pause { paused: false, until_ns: Some(until_ns) });
        }
        if self.inactive_at_ns().is_some_and(|due_ns| due_ns <= at.now_ns) && self.is_unused(view, at, out) {
            // Said again after as long, if it is still there then.
            self.active_ns = at.now_ns;
            out.now.push(Send::Inactive);
        }
    }

    /// Messages whose deadline has passed are delivered again, or given up.
    fn expire(&mut self, at: Moment, out: &mut Outbox) {
        let now_ms = u64::try_from(at.now_ns).unwrap_or(0) / 1_000_000;
        for seq in self.pending.expired(now_ms) {
            let Some(held) = self.pending.get(seq) else { continue };
            if self.is_exhausted(held.deliveries) {
                self.give_up(held, out);
            } else {
                self.pending.set(Held { stage: Stage::Queued, ..held });
            }
        }
    }

    fn inactive_at_ns(&self) -> Option<i64> {
        let is_in_use = self.rules.push().is_some() && self.window.is_bound;
        (self.rules.inactive_ns > 0 && !is_in_use)
            .then(|| self.active_ns.saturating_add(self.rules.inactive_ns))
    }

    /// Looks closer: requests that wait, and messages that a client may be working on, are a use.
    fn is_unused(&mut self, view: &mut impl StreamView, at: Moment, out: &mut Outbox) -> bool {
        if self.rules.push().is_some() {
            return true;
        }
        self.sweep(false, view, at, out);
        if !self.waiting.is_empty() {
            self.active_ns = at.now_ns;
            return false;
        }
        let last_ms = self.pending.iter().map(|held| held.deadline_ms).max().unwrap_or(0);
        let last_ns = i64::try_from(last_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        self.active_ns = self.active_ns.max(last_ns);
        self.inactive_at_ns().is_some_and(|due_ns| due_ns <= at.now_ns)
    }

    /// Returns when [`Consumer::tick`] has something to do, in ns. It may be early, never late.
    pub fn next_deadline_ns(&mut self) -> Option<i64> {
        if self.is_closed {
            return None;
        }
        let expiry_ns = self
            .pending
            .next_deadline()
            .map(|ms| i64::try_from(ms).unwrap_or(i64::MAX))
            .map(|ms| ms.saturating_mul(1_000_000));
        let some = |ns: i64| (ns != 0).then_some(ns);
        let waiting_ns = self.waiting.due_ns();
        [
            expiry_ns,
            (waiting_ns != i64::MAX).then_some(waiting_ns),
            some(self.window.heartbeat_at_ns),
            self.pin.as_ref().map(|pin| pin.until_ns),
            some(self.paused_until_ns),
            self.inactive_at_ns(),
            some(self.hold_until_ns),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
