//! What acknowledgements change.

use std::sync::Arc;

use super::ack::{AckKind, AckSubject};
use super::advisory::{Advisory, Refused};
use super::durable::Sequences;
use super::output::{Moment, Outbox, Send};
use super::pending::{Held, Stage};
use super::ranges::Range;
use super::rules::AckPolicy;
use super::state::Consumer;
use super::view::StreamView;

/// An acknowledgement as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// What its subject says.
    pub subject: AckSubject<'a>,
    /// Its payload, without headers.
    pub payload: &'a [u8],
    /// Where the answer goes, if the client wants one.
    pub reply: Option<&'a Arc<str>>,
}

pub(super) fn to_ms(ns: i64) -> u64 {
    // Rounded up, so that nothing happens too early.
    u64::try_from(ns).unwrap_or(0).div_ceil(1_000_000)
}

impl Consumer {
    /// Takes in an acknowledgement. An answer to one that settles a message is left in
    /// [`Outbox::after_save`]: a message whose acknowledgement was answered is never delivered again.
    pub fn ack(&mut self, ack: Ack<'_>, view: &mut impl StreamView, at: Moment, out: &mut Outbox) {
        if self.is_closed || ack.subject.stream_seq == 0 {
            return;
        }
        let is_answered = match AckKind::parse(ack.payload) {
            AckKind::Ack => {
                if self.acknowledge(&ack.subject, Some(at), view, out) {
                    self.answer_after_save(ack.reply, out);
                }
                false
            }
            AckKind::Next { request } => {
                self.acknowledge(&ack.subject, Some(at), view, out);
                if let Some(inbox) = ack.reply {
                    self.pull(inbox, request, view, at, out);
                }
                false
            }
            AckKind::Term { reason } => {
                if self.acknowledge(&ack.subject, None, view, out) {
                    self.answer_after_save(ack.reply, out);
                    // Also the second time, as in nats-server.
                    let reason = reason.to_owned();
                    out.advise(Advisory::Terminated { message: refused(&ack.subject), reason });
                }
                false
            }
            AckKind::Nak { delay_ns } => {
                self.nak(&ack.subject, delay_ns, at, out);
                true
            }
            AckKind::Progress => {
                self.progress(ack.subject.stream_seq, at);
                true
            }
            AckKind::Unknown => true,
        };
        if let (true, Some(to)) = (is_answered, ack.reply) {
            out.now.push(Send::Empty { to: Arc::clone(to) });
        }
    }

    fn answer_after_save(&mut self, reply: Option<&Arc<str>>, out: &mut Outbox) {
        if let Some(to) = reply {
            // What settled the message may still be on its way to the disk: the next save is behind it.
            self.saving.is_dirty = true;
            self.after_save(out, Send::Empty { to: Arc::clone(to) });
        }
    }

    /// Settles a message. Returns whether the client gets an answer: also for one that was settled before,
    /// not for one that was never delivered.
    fn acknowledge(
        &mut self,
        ack: &AckSubject<'_>,
        sampled: Option<Moment>,
        view: &mut impl StreamView,
        out: &mut Outbox,
    ) -> bool {
        if self.rules.ack == AckPolicy::None {
            return false;
        }
        let seq = ack.stream_seq;
        if seq > self.position {
            return self.acknowledge_ahead(ack, view, out);
        }
        if self.is_ack_all() {
            self.last_ack_ns = sampled.map_or(self.last_ack_ns, |at| at.now_ns);
            self.acknowledge_through(Sequences { stream: seq, consumer: ack.consumer_seq }, view, out);
            return true;
        }
        match self.pending.remove(seq) {
            Some(held) => {
                if let Some(at) = sampled {
                    self.sample(ack, &held, at, out);
                    self.last_ack_ns = at.now_ns;
                }
                self.settle(held);
                self.done(seq, seq, out);
            }
            None if self.given_up.remove(&seq) => {
                self.given_up_changed = true;
                self.saving.is_dirty = true;
                self.done(seq, seq, out);
            }
            None => {}
        }
        true
    }

    /// Settles everything up to a message: ack policies `all` and `flow_control`.
    pub(super) fn acknowledge_through(
        &mut self,
        to: Sequences,
        view: &mut impl StreamView,
        out: &mut Outbox,
    ) {
        let to = Sequences { stream: to.stream, consumer: to.consumer.min(self.consumer_seq) };
        if to.stream <= self.floor.stream || to.stream > view.last_seq() {
            return;
        }
        let first = self.settled_through().min(self.floor.stream) + 1;
        while let Some(held) = self.pending.first().filter(|held| held.seq <= to.stream) {
            self.pending.remove(held.seq);
        }
        if to.stream > self.position {
            self.move_position(to.stream);
            self.delivered_seq = to.stream;
            self.recount(view);
        }
        self.raise_floor(to);
        self.settled.remove_through(self.settled_through());
        self.saving.is_dirty = true;
        self.done(first, to.stream, out);
    }

    /// Settles a message that an earlier leader has delivered, before it is delivered again.
    fn acknowledge_ahead(
        &mut self,
        ack: &AckSubject<'_>,
        view: &mut impl StreamView,
        out: &mut Outbox,
    ) -> bool {
        let seq = ack.stream_seq;
        if ack.consumer_seq == 0 || ack.consumer_seq > self.inherited || seq > view.last_seq() {
            return false;
        }
        if self.is_ack_all() {
            self.acknowledge_through(Sequences { stream: seq, consumer: ack.consumer_seq }, view, out);
            return true;
        }
        if self.settled.contains(seq) {
            return true;
        }
        if self.settled.len() >= self.bounds.ranges_max as usize {
            return false;
        }
        let cut = self.cut.filter(|cut| seq <= *cut);
        if view.count(seq, seq, cut) > 0 {
            self.take(seq);
        }
        self.settled.insert(Range { first: seq, last: seq });
        self.recalled.remove(&seq);
        self.saving.is_dirty = true;
        self.done(seq, seq, out);
        true
    }

    /// Reports messages that this consumer is done with, where the stream wants to know.
    pub(super) fn done(&self, first: u64, last: u64, out: &mut Outbox) {
        if self.rules.reports_done() && first <= last {
            self.after_save(out, Send::Done { first, last });
        }
    }

    fn sample(&self, ack: &AckSubject<'_>, held: &Held, at: Moment, out: &mut Outbox) {
        let percent = u64::from(self.rules.sample_percent);
        if percent == 0 || (percent < 100 && at.random(ack.stream_seq) % 100 >= percent) {
            return;
        }
        let deadline_ns = i64::try_from(held.deadline_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let delivered_ns = deadline_ns.saturating_sub(self.rules.wait_ns(held.deliveries));
        let ack_time_ns = at.now_ns.saturating_sub(delivered_ns).max(0);
        out.advise(Advisory::Ack { message: refused(ack), ack_time_ns });
    }

    fn nak(&mut self, ack: &AckSubject<'_>, delay_ns: Option<i64>, at: Moment, out: &mut Outbox) {
        let is_known = ack.consumer_seq > self.floor.consumer && ack.consumer_seq <= self.consumer_seq;
        let Some(held) = self.pending.get(ack.stream_seq).filter(|_| is_known) else { return };
        out.advise(Advisory::Nak(refused(ack)));
        match delay_ns {
            Some(delay_ns) => {
                let deadline_ms = to_ms(at.now_ns.saturating_add(delay_ns));
                self.pending.set(Held { stage: Stage::Delayed, deadline_ms, ..held });
                self.saving.is_dirty = true;
            }
            None => self.pending.set(Held { stage: Stage::Queued, ..held }),
        }
    }

    /// The client is still at work. One that is to be delivered again already stays so.
    fn progress(&mut self, seq: u64, at: Moment) {
        let Some(held) = self.pending.get(seq).filter(|held| held.stage != Stage::Queued) else { return };
        let deadline_ms = self.deadline_ms(held.deliveries, at.now_ns);
        self.pending.set(Held { stage: Stage::Delivered, deadline_ms, ..held });
    }

    /// Returns until when the acknowledgement of a delivery at `now_ns` is waited for.
    pub(super) fn deadline_ms(&self, deliveries: u32, now_ns: i64) -> u64 {
        to_ms(now_ns.saturating_add(self.rules.wait_ns(deliveries)))
    }

    /// Gives up a message that was delivered too often. It stays in the stream.
    pub(super) fn give_up(&mut self, held: Held, out: &mut Outbox) {
        out.advise(Advisory::MaxDeliver { stream_seq: held.seq, deliveries: held.deliveries });
        self.pending.remove(held.seq);
        self.settle(held);
        self.keep_given_up(held.seq);
    }

    pub(super) fn keep_given_up(&mut self, seq: u64) {
        if !self.rules.reports_done() {
            return;
        }
        self.given_up.insert(seq);
        self.given_up_changed = true;
        while self.given_up.len() > self.bounds.given_up_max as usize {
            self.given_up.pop_first();
        }
    }

    /// Ends the wait for a message that was deleted.
    pub(super) fn terminate_deleted(&mut self, seq: u64, out: &mut Outbox) {
        let Some(held) = self.pending.remove(seq) else { return };
        let (consumer_seq, stream_seq) = (held.consumer_seq, seq);
        let message = Refused { consumer_seq, stream_seq, deliveries: u64::from(held.deliveries) };
        let reason = "Unacknowledged message was deleted".to_owned();
        out.advise(Advisory::Terminated { message, reason });
        self.settle(held);
    }
}

fn refused(ack: &AckSubject<'_>) -> Refused {
    let AckSubject { consumer_seq, stream_seq, deliveries, .. } = *ack;
    Refused { consumer_seq, stream_seq, deliveries }
}
