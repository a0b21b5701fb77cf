//! The consumer's state, its creation, and what it tells of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::durable::{DurableState, Head, Recalled, Saving, Sequences};
use super::names::Names;
use super::output::{Moment, Outbox, Send};
use super::pending::{Held, Pending};
use super::ranges::Ranges;
use super::rules::{AckPolicy, Bounds, Rules};
use super::view::StreamView;
use super::waiting::Waiting;
use super::window::Window;

/// Who the consumer is and what it may do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The names of stream and consumer.
    pub names: Names,
    /// Its configuration.
    pub rules: Rules,
    /// The node's bounds.
    pub bounds: Bounds,
    /// Until when it is paused, in ns. 0: it is not.
    pub paused_until_ns: i64,
}

/// Where a new consumer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The first sequence that it may deliver, at least 1.
    pub first: u64,
    /// For `last_per_subject`: the stream's last sequence.
    pub cut: Option<u64>,
}

/// The pin of a priority group.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    pub(super) id: Arc<str>,
    pub(super) group: Arc<str>,
    pub(super) since_ns: i64,
    pub(super) until_ns: i64,
}

/// Catching up with the pauses of the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    /// The stream's end at the start: from there on messages go out at once.
    pub(super) through: u64,
    /// The message before, and when it went out.
    pub(super) last: Option<(i64, i64)>,
}

/// A consumer: see the module's documentation for its use.
#[derive(Clone, Debug)]
pub struct Consumer {
    pub(super) names: Names,
    pub(super) rules: Rules,
    pub(super) bounds: Bounds,
    /// The last stream sequence that was delivered or skipped.
    pub(super) position: u64,
    /// The last stream sequence that was delivered. Behind it, non-matching ones may have been skipped.
    pub(super) delivered_seq: u64,
    /// The number of the last delivery.
    pub(super) consumer_seq: u64,
    /// The ack floor as clients see it.
    pub(super) floor: Sequences,
    pub(super) pending: Pending,
    /// Done messages above the first pending one, or above the position: these an earlier leader has
    /// delivered.
    pub(super) settled: Ranges,
    /// Delivered too often, and still in the stream. For streams that keep messages until they are done.
    pub(super) given_up: BTreeSet<u64>,
    pub(super) given_up_changed: bool,
    /// Known deliveries above the position.
    pub(super) recalled: BTreeMap<u64, Recalled>,
    pub(super) cut: Option<u64>,
    /// Messages at or below the cut that are still to be delivered.
    pub(super) lasts_left: u64,
    /// Matching messages of the shared counter that are not pending for this consumer any more.
    pub(super) taken: u64,
    /// True if the position lies beyond the stream's end: what is appended below it does not count.
    pub(super) is_beyond: bool,
    /// The deliveries of earlier leaders end at this number.
    pub(super) inherited: u64,
    pub(super) waiting: Waiting,
    pub(super) pin: Option<Pin>,
    pub(super) window: Window,
    pub(super) paused_until_ns: i64,
    pub(super) replay: Option<Box<Replay>>,
    /// Until when pauses or the rate hold the next message back. 0: they do not.
    pub(super) hold_until_ns: i64,
    /// When somebody used the consumer last.
    pub(super) active_ns: i64,
    pub(super) last_delivery_ns: i64,
    pub(super) last_ack_ns: i64,
    pub(super) saving: Saving,
    pub(super) is_closed: bool,
}

/// Facts of a consumer for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The last delivery. Heartbeats tell the sequence skipped to instead, as in nats-server.
    pub delivered: Sequences,
    /// When, in ns. 0: never.
    pub delivered_ns: i64,
    /// Everything up to here is done.
    pub ack_floor: Sequences,
    /// The last acknowledgement, in ns. 0: never.
    pub acked_ns: i64,
    /// Delivered messages that are not done.
    pub num_ack_pending: u64,
    /// Those of them that were delivered more than once.
    pub num_redelivered: u64,
    /// Waiting pull requests.
    pub num_waiting: u64,
    /// Matching messages that were not delivered yet.
    pub num_pending: u64,
    /// A push consumer: whether somebody listens.
    pub push_bound: bool,
    /// Until when it is paused, in ns.
    pub paused_until_ns: Option<i64>,
    /// The pin: its group, its id, since when (ns).
    pub pin: Option<(Arc<str>, Arc<str>, i64)>,
}

impl Consumer {
    /// Creates a consumer that nobody has used yet. A durable one delivers nothing before its first state is
    /// saved.
    pub fn create(setup: Setup, start: Start, view: &mut impl StreamView, at: Moment) -> Self {
        let position = start.first.max(1) - 1;
        let head = Head {
            settled_through: position,
            floor: Sequences { stream: position, consumer: 0 },
            reserved: 0,
            cut: start.cut,
        };
        Self::load(setup, &DurableState { head, ..DurableState::default() }, view, at)
    }

    /// Continues a consumer from its durable state, after a failover or a restart. Everything that is not
    /// known to be done is delivered again. Acknowledgements for deliveries of earlier leaders are accepted.
    pub fn load(setup: Setup, state: &DurableState, view: &mut impl StreamView, at: Moment) -> Self {
        let Setup { names, rules, bounds, paused_until_ns } = setup;
        let head = state.head;
        let replay = rules.replay_original.then(|| Replay { through: view.last_seq(), last: None });
        let mut consumer = Self {
            position: head.settled_through,
            delivered_seq: head.settled_through,
            consumer_seq: head.reserved,
            floor: head.floor,
            pending: Pending::default(),
            settled: state.settled.clone(),
            given_up: state.given_up.iter().copied().collect(),
            given_up_changed: false,
            recalled: state.recalled.clone(),
            cut: head.cut,
            lasts_left: 0,
            taken: 0,
            is_beyond: false,
            inherited: head.reserved,
            waiting: Waiting::default(),
            pin: None,
            window: Window::new(&rules, at),
            paused_until_ns,
            replay: replay.map(Box::new),
            hold_until_ns: 0,
            active_ns: at.now_ns,
            last_delivery_ns: 0,
            last_ack_ns: 0,
            saving: Saving {
                snapshot: state.snapshot,
                reserved: head.reserved,
                reserving: head.reserved,
                is_dirty: true,
                needs_snapshot: true,
                version: 0,
                void_through: 0,
            },
            is_closed: false,
            names,
            rules,
            bounds,
        };
        consumer.recount(view);
        consumer
    }

    /// Counts the pending messages of the stream from the log, where differences are not enough.
    pub fn recount(&mut self, view: &mut impl StreamView) {
        let (mut lasts, mut after) = (0, 0);
        let (cut, from) = (self.cut.unwrap_or(0), self.position.saturating_add(1));
        let mut count = |first: u64, last: u64| {
            let low = if first <= last.min(cut) { view.count(first, last.min(cut), self.cut) } else { 0 };
            let first = first.max(cut.saturating_add(1));
            let high = if first <= last { view.count(first, last, None) } else { 0 };
            (low, high)
        };
        (lasts, after) = sum((lasts, after), count(from, u64::MAX));
        for range in self.settled.iter().filter(|range| range.last >= from) {
            let (low, high) = count(range.first.max(from), range.last);
            (lasts, after) = (lasts.saturating_sub(low), after.saturating_sub(high));
        }
        self.is_beyond = self.position > view.last_seq();
        self.lasts_left = lasts;
        self.taken = view.appended().saturating_sub(after);
    }

    /// Returns how many matching messages were not delivered yet.
    pub fn num_pending(&self, view: &mut impl StreamView) -> u64 {
        if self.is_beyond {
            return view.count(self.position.saturating_add(1), u64::MAX, None);
        }
        self.lasts_left + view.appended().saturating_sub(self.taken)
    }

    /// Notes that a message above the position does not count as pending any more.
    pub(super) fn take(&mut self, seq: u64) {
        if self.cut.is_some_and(|cut| seq <= cut) {
            self.lasts_left = self.lasts_left.saturating_sub(1);
        } else {
            self.taken += 1;
        }
    }

    /// Returns what clients see.
    pub fn info(&self, view: &mut impl StreamView, now_ns: i64) -> Info {
        Info {
            delivered: Sequences { stream: self.delivered_seq, consumer: self.consumer_seq },
            delivered_ns: self.last_delivery_ns,
            ack_floor: self.floor,
            acked_ns: self.last_ack_ns,
            num_ack_pending: self.pending.len() as u64,
            num_redelivered: if self.rules.max_deliver == 1 { 0 } else { self.pending.redelivered() as u64 },
            num_waiting: self.waiting.len() as u64,
            num_pending: self.num_pending(view),
            push_bound: self.rules.push().is_some() && self.window.is_bound,
            paused_until_ns: (self.paused_until_ns > now_ns).then_some(self.paused_until_ns),
            pin: self.pin.as_ref().map(|pin| (Arc::clone(&pin.group), Arc::clone(&pin.id), pin.since_ns)),
        }
    }

    /// Returns whether the consumer takes acknowledgements. If not, nobody listens to their subjects: a
    /// client that wants an answer gets 503.
    pub fn takes_acks(&self) -> bool {
        self.rules.ack != AckPolicy::None
    }

    /// Returns the names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the configuration.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the sequence up to which everything is done or skipped. The consumer need not hear of
    /// deletions at or below it, and it needs none of these messages but those it has given up.
    pub fn settled_through(&self) -> u64 {
        self.pending.first().map_or(self.position, |first| first.seq - 1)
    }

    /// Returns whether a stream that keeps messages until they are done must keep this one, if it matches the
    /// consumer's filter.
    pub fn needs(&self, seq: u64) -> bool {
        if seq > self.position {
            return !self.settled.contains(seq);
        }
        self.pending.get(seq).is_some() || self.given_up.contains(&seq)
    }

    pub(super) fn pending_max(&self) -> usize {
        let own = if self.rules.max_ack_pending == 0 { u32::MAX } else { self.rules.max_ack_pending };
        own.min(self.bounds.pending_max) as usize
    }

    /// Moves the floors after a message has left the pending ones.
    pub(super) fn settle(&mut self, held: Held) {
        self.saving.is_dirty = true;
        match self.pending.first() {
            None => {
                self.raise_floor(Sequences { stream: self.delivered_seq, consumer: self.consumer_seq });
                self.settled.remove_through(self.position);
            }
            Some(first) if first.seq > held.seq => {
                let consumer = first.consumer_seq.saturating_sub(1);
                self.raise_floor(Sequences { stream: first.seq - 1, consumer });
                self.settled.remove_through(first.seq - 1);
            }
            Some(_) => self.settled.insert(self.pending.gap(held.seq, self.position)),
        }
    }

    /// Floors never fall.
    pub(super) fn raise_floor(&mut self, to: Sequences) {
        self.floor.stream = self.floor.stream.max(to.stream);
        self.floor.consumer = self.floor.consumer.max(to.consumer);
    }

    pub(super) fn is_ack_all(&self) -> bool {
        matches!(self.rules.ack, AckPolicy::All | AckPolicy::FlowControl)
    }

    /// Queues what must wait until the state is saved. A state that is never saved keeps nothing waiting.
    pub(super) fn after_save(&self, out: &mut Outbox, send: Send) {
        if self.rules.durable { out.after_save.push(send) } else { out.now.push(send) }
    }
}

fn sum(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}
