//! Changes from outside: messages that are deleted, new settings, pauses, resets, the end.

use super::advisory::Advisory;
use super::advisory::Refused;
use super::durable::Sequences;
use super::output::{Moment, Outbox, StatusKind, Unserved};
use super::pending::{Held, Stage};
use super::rules::{Rules, StartRule};
use super::state::Consumer;
use super::view::StreamView;

/// Why messages at the start of the stream are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A purge. Nobody is told.
    Purge,
    /// A limit of the stream. Messages that were pending are reported.
    Limits,
}

/// Why a reset is refused: the texts behind `invalid reset: ` (error 10204).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum ResetError {
    BelowStartSeq,
    BelowStartTime,
    NotAllowed,
}

impl std::fmt::Display for ResetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::BelowStartSeq => "below start seq",
            Self::BelowStartTime => "below start time",
            Self::NotAllowed => "not allowed",
        })
    }
}

impl std::error::Error for ResetError {}

impl Consumer {
    /// Takes in that one message was deleted. Consumers with [`Consumer::settled_through`] at or above it
    /// need not be told, unless the stream keeps messages until they are done.
    ///
    /// `is_counted`: whether it matched the filter; below a cut, whether it was the last of its subject
    /// there.
    pub fn removed(&mut self, seq: u64, is_counted: bool, out: &mut Outbox) {
        if seq > self.position {
            if is_counted && !self.settled.contains(seq) {
                self.take(seq);
            }
            self.recalled.remove(&seq);
            return;
        }
        self.terminate_deleted(seq, out);
        if self.given_up.remove(&seq) {
            self.given_up_changed = true;
            self.saving.is_dirty = true;
        }
    }

    /// Takes in that the stream now begins at `first`: everything below is gone.
    pub fn removed_below(&mut self, first: u64, why: Removal, view: &mut impl StreamView, out: &mut Outbox) {
        let through = first.saturating_sub(1);
        while let Some(held) = self.pending.first().filter(|held| held.seq <= through) {
            self.drop_pending(held, why, out);
        }
        let kept = self.given_up.split_off(&first);
        self.given_up_changed |= !self.given_up.is_empty();
        self.given_up = kept;
        if self.position < through {
            self.move_position(through);
            self.delivered_seq = through;
            self.recount(view);
            if why == Removal::Purge || self.pending.is_empty() {
                let consumer = self
                    .pending
                    .first()
                    .map_or(self.consumer_seq, |held| held.consumer_seq.saturating_sub(1));
                self.raise_floor(Sequences { stream: through, consumer });
            }
            self.saving.is_dirty = true;
        } else if why == Removal::Purge {
            self.delivered_seq = self.delivered_seq.max(through);
            self.raise_floor(Sequences { stream: through, consumer: 0 });
        }
    }

    fn drop_pending(&mut self, held: Held, why: Removal, out: &mut Outbox) {
        self.pending.remove(held.seq);
        self.settle(held);
        if why == Removal::Limits {
            let (consumer_seq, stream_seq) = (held.consumer_seq, held.seq);
            let message = Refused { consumer_seq, stream_seq, deliveries: u64::from(held.deliveries) };
            let reason = "Message deleted by stream limits".to_owned();
            out.advise(Advisory::Terminated { message, reason });
        }
    }

    /// Looks which of the messages it holds are still there, and counts the pending ones of the stream: after
    /// a purge by filter or of many single messages.
    pub fn recheck(&mut self, view: &mut impl StreamView) {
        let is_gone =
            |view: &mut _, seq| matches!(StreamView::get(view, seq), super::view::Found::Nothing { .. });
        let gone: Vec<Held> = self.pending.iter().filter(|held| is_gone(view, held.seq)).collect();
        for held in gone {
            self.pending.remove(held.seq);
            self.settle(held);
        }
        let before = self.given_up.len();
        self.given_up.retain(|seq| !is_gone(view, *seq));
        self.given_up_changed |= before != self.given_up.len();
        self.recount(view);
    }

    /// Takes in a new configuration. The API has checked that it may replace the old one.
    pub fn update(&mut self, rules: Rules, filters: FiltersChanged, view: &mut impl StreamView, at: Moment) {
        let before = std::mem::replace(&mut self.rules, rules);
        let is_moved = before.push().map(|push| &push.deliver) != self.rules.push().map(|push| &push.deliver);
        if is_moved {
            self.window.restart();
            self.window.is_bound = false;
        }
        if before.inactive_ns != self.rules.inactive_ns {
            self.active_ns = at.now_ns;
        }
        if (before.ack_wait_ns, &before.backoff_ns) != (self.rules.ack_wait_ns, &self.rules.backoff_ns) {
            self.move_deadlines(&before);
        }
        if filters.0 {
            self.recount(view);
        }
    }

    fn move_deadlines(&mut self, before: &Rules) {
        let waiting: Vec<Held> = self.pending.iter().filter(|held| held.stage == Stage::Delivered).collect();
        for held in waiting {
            let longer_ns = self.rules.wait_ns(held.deliveries) - before.wait_ns(held.deliveries);
            let deadline_ms = held.deadline_ms.saturating_add_signed(longer_ns / 1_000_000);
            self.pending.set(Held { deadline_ms, ..held });
        }
    }

    /// Pauses until a time in ns; 0 or a time in the past: goes on. Deliveries stop, heartbeats and
    /// acknowledgements do not.
    pub fn pause(&mut self, until_ns: i64, at: Moment, out: &mut Outbox) {
        let is_paused = until_ns > at.now_ns;
        let is_same = until_ns == self.paused_until_ns;
        self.paused_until_ns = if is_paused { until_ns } else { 0 };
        if !is_same {
            let until_ns = (until_ns != 0).then_some(until_ns);
            out.advise(Advisory::Pause { paused: is_paused, until_ns });
        }
    }

    /// Starts again at `seq`, or behind the ack floor if it is 0. Pending messages are forgotten, deliveries
    /// are numbered from 1. Returns the sequence. `time_seq` is where a consumer that starts by time starts.
    ///
    /// # Errors
    /// If the consumer may not start there.
    pub fn reset(&mut self, seq: u64, time_seq: u64, view: &mut impl StreamView) -> Result<u64, ResetError> {
        match (seq, self.rules.start) {
            (0, _) | (_, StartRule::All) => {}
            (_, StartRule::Sequence(first)) if seq < first => return Err(ResetError::BelowStartSeq),
            (_, StartRule::Time) if seq < time_seq => return Err(ResetError::BelowStartTime),
            (_, StartRule::Sequence(_) | StartRule::Time) => {}
            (_, StartRule::Other) => return Err(ResetError::NotAllowed),
        }
        let first = if seq == 0 { self.floor.stream + 1 } else { seq };
        self.pending.clear();
        self.settled.clear();
        self.recalled.clear();
        self.given_up.clear();
        self.given_up_changed = true;
        (self.position, self.delivered_seq) = (first - 1, first - 1);
        self.floor = Sequences { stream: first - 1, consumer: 0 };
        (self.consumer_seq, self.inherited) = (0, 0);
        (self.last_delivery_ns, self.last_ack_ns) = (0, 0);
        let saving = &mut self.saving;
        (saving.reserved, saving.reserving, saving.void_through) = (0, 0, saving.version);
        (saving.is_dirty, saving.needs_snapshot) = (true, true);
        self.recount(view);
        Ok(first)
    }

    /// Ends the consumer: it was deleted.
    pub fn delete(&mut self, out: &mut Outbox) {
        self.close(out, |_| StatusKind::ConsumerDeleted);
    }

    /// Ends the consumer here: another node leads its stream now.
    pub fn step_down(&mut self, out: &mut Outbox) {
        self.close(out, |_| StatusKind::LeadershipChange);
    }

    /// Ends the consumer here: the server stops. If the state is encoded and saved once more, the successor
    /// numbers deliveries without a gap.
    pub fn shut_down(&mut self, out: &mut Outbox) {
        self.close(out, StatusKind::ServerShutdown);
    }

    fn close(&mut self, out: &mut Outbox, kind: impl Fn(Unserved) -> StatusKind) {
        self.is_closed = true;
        self.waiting.sweep(|request| {
            out.status(&request.inbox, kind(request.unserved()));
            false
        });
    }
}

/// Whether an update changes which messages match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiltersChanged(pub bool);
