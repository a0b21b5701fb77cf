//! The state of one connection's messages, and how answers turn into latencies and counts.

use super::flight::{ACKNOWLEDGEMENT, Entry, Flight, PAYLOAD};
use super::options::LoadOptions;
use super::orphans::{Orphans, WINDOW};
use super::span::Span;
use crate::payload;
use crate::recorder::{Counts, Distribution, Outcomes, Recorder};
use crate::requester::{Expects, PayloadBack, Sink};
use crate::windowed::Tracker;

/// State that the sink and the sender share.
pub(super) struct Books {
    pub(super) flight: Flight,
    pub(super) orphans: Orphans,
    pub(super) tracker: Tracker,
    pub(super) expects: Expects,
    pub(super) run: u16,
    pub(super) connection: u16,
    pub(super) payload_bytes: usize,
    pub(super) span: Span,
    pub(super) first_refusal: Option<String>,
}

impl Books {
    pub(super) fn new(options: &LoadOptions, span: Span, expects: Expects, connection: u16) -> Self {
        Self {
            flight: Flight::new(options.bound()),
            orphans: Orphans::new(options.bound()),
            tracker: Tracker::new(WINDOW),
            expects,
            run: options.run,
            connection,
            payload_bytes: options.payload_bytes,
            span,
            first_refusal: None,
        }
    }

    pub(super) fn awaits(&self) -> u8 {
        let acknowledgement = if self.expects.acknowledgement { ACKNOWLEDGEMENT } else { 0 };
        let payload = if self.expects.payload.is_some() { PAYLOAD } else { 0 };
        acknowledgement | payload
    }

    /// Records everything that `entry` still awaits as ended, in the distribution that `choose` picks.
    pub(super) fn close(
        &self,
        entry: Entry,
        now: u64,
        recorder: &mut Recorder,
        choose: impl Fn(&mut Outcomes) -> &mut Distribution,
    ) {
        if !self.span.measures(entry.due_ns) {
            return;
        }
        let latency_ns = now.saturating_sub(entry.due_ns);
        if entry.awaits & ACKNOWLEDGEMENT != 0 {
            choose(&mut recorder.acknowledgement).record(latency_ns);
        }
        if entry.awaits & PAYLOAD != 0 {
            choose(&mut recorder.receipt).record(latency_ns);
        }
    }
}

impl Books {
    /// Handles a broken connection. Acknowledgements and replies to messages in flight will not come.
    /// Deliveries may, if the connection `comes_back`.
    pub(super) fn cut_off(&mut self, comes_back: bool, now: u64, recorder: &mut Recorder) {
        while let Some((sequence, entry)) = self.flight.pop() {
            let delivered_later = comes_back && self.expects.payload == Some(PayloadBack::Receipt);
            let awaits_payload = entry.awaits & PAYLOAD != 0;
            let hope = if delivered_later { entry.awaits & PAYLOAD } else { 0 };
            let ended = Entry { awaits: entry.awaits & !hope, ..entry };
            self.close(ended, now, recorder, |outcomes| &mut outcomes.error);
            if hope != 0 {
                if let Some(given_up) = self.orphans.add(sequence, Entry { awaits: hope, ..entry }) {
                    self.close(given_up, now, recorder, |outcomes| &mut outcomes.error);
                }
            } else if awaits_payload {
                self.orphans.add_hopeless();
            }
        }
    }

    /// Times out messages that were sent at `limit_ns` or earlier.
    pub(super) fn expire(&mut self, limit_ns: u64, now: u64, recorder: &mut Recorder) {
        while let Some(entry) = self.flight.expire(limit_ns) {
            self.close(entry, now, recorder, |outcomes| &mut outcomes.timeout);
        }
        while let Some(entry) = self.orphans.expire(limit_ns) {
            self.close(entry, now, recorder, |outcomes| &mut outcomes.error);
        }
    }

    /// When the oldest message with anything outstanding was sent.
    pub(super) fn oldest_sent_ns(&mut self) -> Option<u64> {
        self.flight.oldest_sent_ns().into_iter().chain(self.orphans.oldest_sent_ns()).min()
    }

    /// When the oldest measured message with anything outstanding was due.
    pub(super) fn oldest_due_ns(&self) -> Option<u64> {
        let from_ns = self.span.measured_ns;
        self.flight.oldest_due_ns(from_ns).into_iter().chain(self.orphans.oldest_due_ns(from_ns)).min()
    }

    /// Reports whether anything is outstanding.
    pub(super) fn awaits_something(&self) -> bool {
        self.flight.open() > 0 || self.orphans.oldest_sent_ns().is_some()
    }

    /// Counts, at the end, what did not come.
    pub(super) fn count_missing(&self, counts: &mut Counts) {
        if self.expects.payload.is_none() {
            return;
        }
        let missing = self.tracker.missing(self.flight.next_sequence());
        let cut_off = self.orphans.cut_off().min(missing);
        counts.cut_off += cut_off;
        counts.lost += missing - cut_off;
    }
}

/// Records what a requester receives.
pub(super) struct LaneSink<'a> {
    pub(super) books: &'a mut Books,
    pub(super) recorder: &'a mut Recorder,
}

impl Sink for LaneSink<'_> {
    fn acknowledged(&mut self, at_ns: u64, sequence: u64) {
        let Some(entry) = self.books.flight.came(sequence, ACKNOWLEDGEMENT) else {
            self.recorder.counts.unknown += 1;
            return;
        };
        if self.books.span.measures(entry.due_ns) {
            self.recorder.counts.acknowledged += 1;
            self.recorder.acknowledgement.success.record(at_ns.saturating_sub(entry.due_ns));
        }
    }

    fn refused(&mut self, at_ns: u64, sequence: u64, reason: &str) {
        if self.books.first_refusal.is_none() {
            self.books.first_refusal = Some(reason.chars().take(200).collect());
        }
        // No answer comes to a message that was rejected.
        let payload = self.books.flight.came(sequence, PAYLOAD);
        let Some(entry) = self.books.flight.came(sequence, ACKNOWLEDGEMENT).or(payload) else {
            self.recorder.counts.unknown += 1;
            return;
        };
        let entry = Entry { awaits: self.books.awaits(), ..entry };
        self.books.close(entry, at_ns, self.recorder, |outcomes| &mut outcomes.error);
    }

    fn payload(&mut self, at_ns: u64, bytes: &[u8]) {
        let counts = &mut self.recorder.counts;
        let Ok(header) = payload::verify(bytes, self.books.payload_bytes) else {
            counts.corrupt += 1;
            return;
        };
        let own = header.run == self.books.run && header.connection == self.books.connection;
        if !own || header.sequence >= self.books.flight.next_sequence() {
            counts.foreign += 1;
            return;
        }
        if !counts.note(self.books.tracker.observe(header.sequence)) {
            return;
        }
        let mut entry = self.books.flight.came(header.sequence, PAYLOAD);
        if let Some((orphan, in_time)) = self.books.orphans.came(header.sequence) {
            counts.redelivered += 1;
            entry = in_time.then_some(orphan);
        }
        if !self.books.span.measures(header.due_ns) {
            return;
        }
        counts.received += 1;
        // A message that has timed out was counted as such, and keeps that latency.
        if let Some(entry) = entry {
            self.recorder.receipt.success.record(at_ns.saturating_sub(entry.due_ns));
        }
    }
}
