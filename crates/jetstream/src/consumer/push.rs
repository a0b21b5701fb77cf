//! Push consumers: interest, heartbeats, flow control, rate.

use std::sync::Arc;

use super::output::{Moment, Outbox, StatusKind};
use super::rules::{AckPolicy, PushRules};
use super::state::Consumer;
use super::view::StreamView;
use super::window::{WINDOW_MAX, duration_of};

impl Consumer {
    /// Takes in whether somebody listens at the deliver subject (with a queue group: some member).
    pub fn set_bound(&mut self, is_bound: bool, at: Moment) {
        if self.window.is_bound && !is_bound {
            self.active_ns = at.now_ns;
        }
        self.window.is_bound = is_bound;
    }

    /// Returns whether a push consumer may send now.
    pub(super) fn may_push(&self, push: &PushRules, now_ns: i64) -> bool {
        let is_stalled = push.flow_control && self.window.bytes > self.window.max;
        let is_too_fast = self.window.rate_due_ns(push, &self.bounds) > now_ns;
        self.window.is_bound && !is_stalled && !is_too_fast
    }

    /// Accounts for a message that was sent, and asks for an answer when half of the window is used.
    pub(super) fn pushed(&mut self, size: u64, at: Moment, out: &mut Outbox) {
        let Some(push) = self.rules.push() else { return };
        let window = &mut self.window;
        if push.heartbeat_ns > 0 {
            window.heartbeat_at_ns = at.now_ns.saturating_add(push.heartbeat_ns);
        }
        if push.rate_bps > 0 {
            let cost = duration_of(size, push.rate_bps);
            window.rate_full_ns = window.rate_full_ns.max(at.now_ns).saturating_add(cost);
        }
        if !push.flow_control {
            return;
        }
        window.bytes = window.bytes.saturating_add(size);
        match &mut window.asked {
            None => {
                let is_full =
                    self.rules.ack == AckPolicy::FlowControl && self.pending.len() >= self.pending_max();
                if self.window.bytes > self.window.max / 2 || is_full {
                    self.ask(at, out);
                }
            }
            // So much more is under way that the answer should free some of it.
            Some((_, covered)) if window.bytes - *covered >= window.max => *covered += size,
            Some(_) => {}
        }
    }

    fn ask(&mut self, at: Moment, out: &mut Outbox) {
        let Some(push) = self.rules.push() else { return };
        let to = Arc::clone(&push.deliver);
        let word = base62::<4>(at.random(self.consumer_seq));
        let answer: Arc<str> = format!("$JS.FC.{}.{}.{word}", self.names.stream, self.names.consumer).into();
        self.window.asked = Some((Arc::clone(&answer), self.window.bytes));
        out.status(&to, StatusKind::FlowControl { answer });
    }

    /// Takes in a message to `$JS.FC.<stream>.<consumer>.<word>`. `handled` are the headers
    /// `Nats-Last-Consumer` and `Nats-Last-Stream`: with ack policy `flow_control` they acknowledge. Only the
    /// answer to the last request counts.
    pub fn flow_answer(
        &mut self,
        subject: &str,
        handled: Option<super::durable::Sequences>,
        view: &mut impl StreamView,
        out: &mut Outbox,
    ) {
        let window = &mut self.window;
        let Some((_, covered)) = window.asked.take_if(|(asked, _)| **asked == *subject) else { return };
        window.max = (window.max * 2).min(WINDOW_MAX);
        window.bytes = window.bytes.saturating_sub(covered);
        if let (AckPolicy::FlowControl, Some(handled)) = (self.rules.ack, handled) {
            self.acknowledge_through(handled, view, out);
        }
    }

    /// Sends a heartbeat of a push consumer if it is due.
    pub(super) fn beat(&mut self, at: Moment, out: &mut Outbox) {
        let Some(push) = self.rules.push() else { return };
        if push.heartbeat_ns <= 0 || self.window.heartbeat_at_ns > at.now_ns {
            return;
        }
        self.window.heartbeat_at_ns = at.now_ns.saturating_add(push.heartbeat_ns);
        if !self.window.is_bound {
            return;
        }
        let to = Arc::clone(&push.deliver);
        out.status(&to, self.heartbeat());
        let acks_by_flow = self.rules.ack == AckPolicy::FlowControl && !self.pending.is_empty();
        if acks_by_flow && self.window.asked.is_none() {
            self.ask(at, out);
        }
    }

    /// Returns the heartbeat that tells the consumer's position.
    pub(super) fn heartbeat(&self) -> StatusKind {
        let stalled = self.window.asked.as_ref().map(|(subject, _)| Arc::clone(subject));
        StatusKind::IdleHeartbeat { consumer_seq: self.consumer_seq, stream_seq: self.position, stalled }
    }
}

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Writes a random number as a word of this length.
pub(super) fn base62<const N: usize>(mut random: u64) -> String {
    let mut word = String::with_capacity(N);
    for _ in 0..N {
        word.push(char::from(DIGITS[(random % 62) as usize]));
        // A word of 22 letters is longer than the number: the rest is derived from it.
        random = (random / 62) ^ random.rotate_left(29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    word
}
