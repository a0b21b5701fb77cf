//! Which message goes out next, and to whom.

use std::sync::Arc;

use super::acks::to_ms;
use super::durable::Sequences;
use super::output::{Delivery, Moment, Outbox, Send, Status};
use super::pending::{Held, Stage};
use super::rules::{AckPolicy, Mode};
use super::state::Consumer;
use super::view::{Candidate, Found, StreamView};

/// Why [`Consumer::serve`] has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It has taken as many steps as allowed: there may be more to do.
    More,
    /// Nothing can go out until something changes.
    Idle,
    /// [`StreamView`] has said [`Found::Later`].
    Later,
    /// The state must be saved first.
    Save,
}

enum Step {
    /// A message went out, or is done without.
    Taken,
    /// There is nothing to deliver, or nobody to deliver it to.
    End,
    /// There may be something, but not now.
    Held,
    Later,
    Save,
}

impl Consumer {
    /// Delivers what can be delivered, at most `steps` messages. To be called after everything that may make
    /// that possible: a pull request, an acknowledgement, an append, a saved state, a tick.
    pub fn serve(
        &mut self,
        steps: usize,
        view: &mut impl StreamView,
        at: Moment,
        out: &mut Outbox,
    ) -> Served {
        self.hold_until_ns = 0;
        if self.is_beyond && self.position <= view.last_seq() {
            self.recount(view);
        }
        for _ in 0..steps {
            match self.step(view, at, out) {
                Step::Taken => {}
                Step::Held => return Served::Idle,
                Step::Later => return Served::Later,
                Step::Save => return Served::Save,
                Step::End => {
                    if self.waiting.has_no_wait() {
                        self.sweep(true, view, at, out);
                    }
                    return Served::Idle;
                }
            }
        }
        Served::More
    }

    fn step(&mut self, view: &mut impl StreamView, at: Moment, out: &mut Outbox) -> Step {
        if self.is_closed || self.paused_until_ns > at.now_ns {
            return Step::End;
        }
        match &self.rules.mode {
            Mode::Pull(_) if self.waiting.is_empty() => return Step::End,
            Mode::Push(push) if !self.may_push(push, at.now_ns) => {
                if self.window.is_bound {
                    self.hold(self.window.rate_due_ns(push, &self.bounds), at);
                }
                return Step::End;
            }
            _ => {}
        }
        if !self.may_number() {
            return Step::Save;
        }
        if let Some(held) = self.pending.next_queued() {
            return self.redeliver(held, view, at, out);
        }
        let is_full = self.pending.len() >= self.pending_max();
        if (is_full && self.rules.ack != AckPolicy::None)
            || self.settled.len() > self.bounds.ranges_max as usize
        {
            return Step::Held;
        }
        self.deliver_next(view, at, out)
    }

    fn hold(&mut self, until_ns: i64, at: Moment) {
        if until_ns > at.now_ns {
            self.hold_until_ns = until_ns;
        }
    }

    fn redeliver(&mut self, held: Held, view: &mut impl StreamView, at: Moment, out: &mut Outbox) -> Step {
        if self.is_exhausted(held.deliveries) {
            self.give_up(held, out);
            return Step::Taken;
        }
        match view.get(held.seq) {
            Found::Later => Step::Later,
            Found::Nothing { .. } => {
                self.terminate_deleted(held.seq, out);
                Step::Taken
            }
            Found::Message(candidate) => self.send(candidate, Some(held), view, at, out),
        }
    }

    pub(super) fn is_exhausted(&self, deliveries: u32) -> bool {
        self.rules.max_deliver > 0 && deliveries >= self.rules.max_deliver
    }

    fn deliver_next(&mut self, view: &mut impl StreamView, at: Moment, out: &mut Outbox) -> Step {
        let mut from = self.position.saturating_add(1);
        if let Some(end) = self.settled.end_of(from) {
            from = end.saturating_add(1);
        }
        let cut = self.cut.filter(|cut| from <= *cut);
        match view.next(from, cut) {
            Found::Later => Step::Later,
            Found::Nothing { through } => {
                self.move_position(cut.unwrap_or(through).max(from - 1));
                match cut {
                    // What comes behind the cut is next.
                    Some(_) => Step::Taken,
                    None => {
                        self.replay = None;
                        Step::End
                    }
                }
            }
            Found::Message(candidate) => self.deliver(candidate, view, at, out),
        }
    }

    fn deliver(
        &mut self,
        candidate: Candidate,
        view: &mut impl StreamView,
        at: Moment,
        out: &mut Outbox,
    ) -> Step {
        let seq = candidate.seq;
        assert!(seq > self.position, "{seq} is offered, the position is {}", self.position);
        if self.settled.contains(seq) {
            self.move_position(seq);
            return Step::Taken;
        }
        if let Some(recalled) = self.recalled.get(&seq).copied() {
            let exhausted = self.is_exhausted(recalled.deliveries);
            if exhausted || recalled.not_before_ms > to_ms(at.now_ns) {
                self.skip_recalled(seq, recalled.deliveries, recalled.not_before_ms);
                if exhausted {
                    let held = self.pending.get(seq);
                    held.into_iter().for_each(|held| self.give_up(held, out));
                }
                return Step::Taken;
            }
        }
        if self.is_too_early(&candidate, at) {
            return Step::Held;
        }
        self.send(candidate, None, view, at, out)
    }

    /// Makes a message pending that an earlier leader has delivered, without a delivery.
    fn skip_recalled(&mut self, seq: u64, deliveries: u32, deadline_ms: u64) {
        self.move_position(seq);
        self.delivered_seq = seq;
        self.take(seq);
        let consumer_seq = self.consumer_seq;
        self.pending.push(Held { seq, consumer_seq, deliveries, deadline_ms, stage: Stage::Delayed });
    }

    /// While catching up with `replay_policy` original, the pause before the message is kept.
    fn is_too_early(&mut self, candidate: &Candidate, at: Moment) -> bool {
        let Some(replay) = &self.replay else { return false };
        if candidate.seq > replay.through {
            self.replay = None;
            return false;
        }
        let Some((timestamp_ns, sent_ns)) = replay.last else { return false };
        let pause_ns = candidate.timestamp_ns.saturating_sub(timestamp_ns).max(0);
        self.hold(sent_ns.saturating_add(pause_ns), at);
        self.hold_until_ns > at.now_ns
    }

    fn send(
        &mut self,
        candidate: Candidate,
        again: Option<Held>,
        view: &mut impl StreamView,
        at: Moment,
        out: &mut Outbox,
    ) -> Step {
        let recalled = self.recalled.get(&candidate.seq).map_or(0, |recalled| recalled.deliveries);
        let before = again.map_or(recalled, |held| held.deliveries);
        let to = self.rules.push().map_or(&self.names.consumer, |push| &push.deliver);
        let mut delivery = Delivery {
            to: Arc::clone(to),
            stream_seq: candidate.seq,
            consumer_seq: self.consumer_seq + 1,
            deliveries: before.saturating_add(1),
            timestamp_ns: candidate.timestamp_ns,
            // The message itself does not count.
            pending: self.num_pending(view).saturating_sub(u64::from(again.is_none())),
            headers_only: self.rules.headers_only,
            pin: None,
            is_last: false,
        };
        let size = self.size(&candidate, &delivery);
        let mut farewell = None;
        if self.rules.pull().is_some() {
            let Some(chosen) = self.choose(size, view, at, out) else { return Step::End };
            (delivery.to, delivery.pin) = (chosen.to, chosen.pin);
            farewell = chosen.farewell;
            delivery.is_last = chosen.is_last && farewell.is_none();
        }
        self.delivered(&delivery, again, at, out);
        let to = Arc::clone(&delivery.to);
        out.now.push(Send::Message(delivery));
        if let Some(kind) = farewell {
            out.now.push(Send::Status(Status { to, kind }));
        }
        self.pushed(size, at, out);
        Step::Taken
    }

    /// What a message counts: subject, reply, headers and payload as they are sent.
    fn size(&self, candidate: &Candidate, delivery: &Delivery) -> u64 {
        let Candidate { subject_len, header_len, payload_len, .. } = *candidate;
        let mut content = u64::from(header_len) + u64::from(payload_len);
        if self.rules.headers_only {
            let digits = u64::from(payload_len.checked_ilog10().unwrap_or(0)) + 1;
            let line = "Nats-Msg-Size: \r\n".len() as u64 + digits;
            let block = if header_len == 0 { "NATS/1.0\r\n\r\n".len() as u64 } else { u64::from(header_len) };
            content = block + line;
        }
        u64::from(subject_len) + self.names.reply_len(delivery) + content
    }

    fn delivered(&mut self, delivery: &Delivery, again: Option<Held>, at: Moment, out: &mut Outbox) {
        let Delivery { stream_seq: seq, consumer_seq, deliveries, .. } = *delivery;
        assert_eq!(consumer_seq, self.consumer_seq + 1, "deliveries are numbered without gaps");
        self.consumer_seq = consumer_seq;
        self.delivered_seq = self.delivered_seq.max(seq);
        self.last_delivery_ns = at.now_ns;
        self.active_ns = self.active_ns.max(at.now_ns);
        let deadline_ms = self.deadline_ms(deliveries, at.now_ns);
        // How often a message was delivered outlives this leader, if that matters.
        self.saving.is_dirty |= deliveries > 1 || self.rules.max_deliver > 0;
        if let Some(held) = again {
            self.pending.set(Held { deliveries, deadline_ms, stage: Stage::Delivered, ..held });
            return;
        }
        self.move_position(seq);
        self.take(seq);
        if let Some(replay) = &mut self.replay {
            replay.last = Some((delivery.timestamp_ns, at.now_ns));
        }
        if self.rules.ack == AckPolicy::None {
            self.raise_floor(Sequences { stream: seq, consumer: consumer_seq });
            self.saving.is_dirty = true;
            if self.rules.reports_done() {
                out.now.push(Send::Done { first: seq, last: seq });
            }
            return;
        }
        self.pending.push(Held { seq, consumer_seq, deliveries, deadline_ms, stage: Stage::Delivered });
    }

    /// Moves the position forward, and forgets what was known of the sequences on the way.
    pub(super) fn move_position(&mut self, to: u64) {
        if to <= self.position {
            return;
        }
        self.position = to;
        if self.cut.is_some_and(|cut| to >= cut) {
            self.lasts_left = 0;
        }
        while self.recalled.first_key_value().is_some_and(|(seq, _)| *seq <= to) {
            self.recalled.pop_first();
        }
        if self.pending.is_empty() {
            self.settled.remove_through(to);
        }
    }

    /// Takes back a delivery that did not reach the client: it does not count, and goes out again.
    pub fn not_delivered(&mut self, seq: u64) {
        let Some(held) = self.pending.get(seq).filter(|held| held.stage == Stage::Delivered) else { return };
        let deliveries = held.deliveries.saturating_sub(1);
        self.pending.set(Held { deliveries, stage: Stage::Queued, ..held });
    }
}
