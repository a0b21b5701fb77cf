//! One connection under load: its schedule, what it has in flight, and what that measures.
//!
//! A lane never waits. It decides whose fault a late message is: the time for which the connection could take no more is *held*,
//! what remains of the delay before sending is the *lateness* of the generator.

use rustix::event::{PollFd, PollFlags};

use super::flight::{ACKNOWLEDGEMENT, Entry, Flight, PAYLOAD};
use super::options::{Load, LoadOptions};
use super::span::Span;
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::payload::{self, Header, PayloadBuffer};
use crate::recorder::{Outcomes, Recorder};
use crate::requester::{Expects, Handed, Readiness, Requester, Sink};
use crate::schedule::DueTimes;
use crate::windowed::{Arrival, Tracker};

/// Messages that one lane sends before others have their turn and answers are read.
const BURST: usize = 64;

/// Sequences within which duplicates and reorderings are recognised.
const WINDOW: u64 = 1 << 16;

/// How long a client that has no room, or that cannot tell when something comes, is left alone.
const LOOK_AGAIN_NS: u64 = 100_000;

/// How the next due time comes about.
#[derive(Debug)]
enum Pace {
    Open(DueTimes),
    /// The shift grows whenever an answer was waited for.
    Closed(DueTimes, u64),
    FullThrottle,
}

/// What the sink and the sender share.
struct Books {
    flight: Flight,
    tracker: Tracker,
    expects: Expects,
    run: u16,
    connection: u16,
    payload_bytes: usize,
    span: Span,
    first_refusal: Option<String>,
}

pub(super) struct Lane {
    requester: Box<dyn Requester>,
    pace: Pace,
    next_due_ns: Option<u64>,
    messages_left: u64,
    bound: usize,
    timeout_ns: u64,
    blocked: bool,
    unblocked_ns: u64,
    broken: Option<RequesterError>,
    books: Books,
}

impl Lane {
    pub(super) fn new(
        requester: Box<dyn Requester>,
        options: &LoadOptions,
        span: Span,
        connection: u32,
        connections: u32,
    ) -> Self {
        let pace = match &options.load {
            Load::Open(schedule) => Pace::Open(schedule.due_times(connection, connections)),
            Load::Closed(schedule) => Pace::Closed(schedule.due_times(connection, connections), 0),
            Load::FullThrottle => Pace::FullThrottle,
        };
        let (all, own, others) = (options.messages_max, u64::from(connection), u64::from(connections));
        let books = Books {
            flight: Flight::new(options.bound()),
            tracker: Tracker::new(WINDOW),
            expects: requester.expects(),
            run: options.run,
            connection: connection as u16,
            payload_bytes: options.payload_bytes,
            span,
            first_refusal: None,
        };
        let mut lane = Self {
            requester,
            pace,
            next_due_ns: None,
            messages_left: all.saturating_sub(own).div_ceil(others),
            bound: options.bound(),
            timeout_ns: options.timeout_ns,
            blocked: false,
            unblocked_ns: 0,
            broken: None,
            books,
        };
        lane.advance();
        lane
    }

    /// Sends what is due, as far as there is room, and at most a burst.
    pub(super) fn send_due(
        &mut self,
        clock: &dyn Clock,
        buffer: &mut PayloadBuffer,
        recorder: &mut Recorder,
    ) {
        let mut now = clock.now_ns();
        let mut sent = 0;
        while sent < BURST && self.next_due_ns.is_some_and(|due| due <= now) {
            if self.broken.is_some() {
                self.give_up_next(now, recorder);
            } else if !self.send_next(now, buffer, recorder) {
                break;
            }
            sent += 1;
            now = clock.now_ns();
        }
        if sent > 0 && self.broken.is_none() {
            let flushed = self.requester.flush();
            self.survive(flushed, now, recorder);
        }
    }

    /// Sends one message; false if there is no room for it.
    fn send_next(&mut self, now: u64, buffer: &mut PayloadBuffer, recorder: &mut Recorder) -> bool {
        let Some(due_ns) = self.next_due_ns else { return false };
        if self.books.flight.open() >= self.bound {
            self.blocked = true;
            return false;
        }
        let counts_from_ns = if matches!(self.pace, Pace::Open(_)) { due_ns } else { now };
        let sequence = self.books.flight.next_sequence();
        let Books { run, connection, .. } = self.books;
        let payload = buffer.fill(Header { run, connection, sequence, due_ns: counts_from_ns });
        match self.requester.publish(sequence, payload) {
            Ok(Handed::Taken) => {}
            Ok(Handed::Full) => {
                self.blocked = true;
                return false;
            }
            Err(error) => {
                self.survive(Err(error), now, recorder);
                return true;
            }
        }
        if std::mem::take(&mut self.blocked) {
            self.unblocked_ns = now;
        }
        let entry = Entry { due_ns: counts_from_ns, sent_ns: now, awaits: self.books.awaits() };
        self.books.flight.push(entry);
        self.account(due_ns, counts_from_ns, now, recorder);
        if let Pace::Closed(_, shift) = &mut self.pace {
            *shift += now - due_ns;
        }
        self.advance();
        true
    }

    fn account(&self, due_ns: u64, counts_from_ns: u64, now: u64, recorder: &mut Recorder) {
        if !self.books.span.measures(counts_from_ns) {
            return;
        }
        recorder.counts.due += 1;
        recorder.counts.sent += 1;
        if matches!(self.pace, Pace::FullThrottle) {
            return;
        }
        let possible_ns = due_ns.max(self.unblocked_ns);
        if possible_ns > due_ns {
            recorder.held.record(possible_ns - due_ns);
        }
        recorder.lateness.record(now.saturating_sub(possible_ns));
    }

    /// The next message's time; none behind the end.
    fn advance(&mut self) {
        let span = self.books.span;
        let due_ns = match &mut self.pace {
            Pace::Open(times) => times.next().map(|due| span.begin_ns.saturating_add(due)),
            Pace::Closed(times, shift) => {
                times.next().map(|due| span.begin_ns.saturating_add(due).saturating_add(*shift))
            }
            Pace::FullThrottle => Some(span.begin_ns),
        };
        self.next_due_ns = due_ns.filter(|due| *due < span.end_ns && self.messages_left > 0);
        self.messages_left = self.messages_left.saturating_sub(1);
    }

    /// Counts the next message as failed without sending it.
    fn give_up_next(&mut self, now: u64, recorder: &mut Recorder) {
        let Some(due_ns) = self.next_due_ns else { return };
        // Full throttle has no due times that a broken connection could miss.
        if matches!(self.pace, Pace::FullThrottle) {
            self.next_due_ns = None;
            return;
        }
        if self.books.span.measures(due_ns) {
            recorder.counts.due += 1;
            recorder.counts.unsent += 1;
            let entry = Entry { due_ns, sent_ns: now, awaits: self.books.awaits() };
            let failed = self.broken.is_some();
            self.books.close(entry, now, recorder, |outcomes| {
                if failed { &mut outcomes.error } else { &mut outcomes.timeout }
            });
        }
        self.advance();
    }

    /// Reads what came.
    pub(super) fn receive(&mut self, clock: &dyn Clock, recorder: &mut Recorder) {
        if self.broken.is_some() {
            return;
        }
        let mut sink = LaneSink { books: &mut self.books, recorder };
        let mut result = self.requester.receive(clock, &mut sink);
        if result.is_ok() {
            result = self.requester.flush();
        }
        let failed = result.is_err();
        self.survive(result, if failed { clock.now_ns() } else { 0 }, recorder);
    }

    /// Gives up messages that were sent too long ago.
    pub(super) fn expire(&mut self, now: u64, recorder: &mut Recorder) {
        let Some(limit_ns) = now.checked_sub(self.timeout_ns) else { return };
        while let Some(entry) = self.books.flight.expire(limit_ns) {
            self.books.close(entry, now, recorder, |outcomes| &mut outcomes.timeout);
        }
    }

    /// Ends the run for this lane: what did not come or could not be sent counts as given up. Returns how many messages
    /// were left although there was room: those are the generator's fault.
    pub(super) fn finish(&mut self, now: u64, recorder: &mut Recorder) -> u64 {
        while let Some(entry) = self.books.flight.expire(u64::MAX) {
            self.books.close(entry, now, recorder, |outcomes| &mut outcomes.timeout);
        }
        let had_room = !self.blocked && self.broken.is_none();
        let mut left = 0;
        while self.next_due_ns.is_some_and(|due| due <= now) && !matches!(self.pace, Pace::FullThrottle) {
            self.give_up_next(now, recorder);
            left += 1;
        }
        if self.books.expects.payload.is_some() {
            recorder.counts.lost += self.books.tracker.missing(self.books.flight.next_sequence());
        }
        if had_room { left } else { 0 }
    }

    fn survive(&mut self, result: Result<(), RequesterError>, now: u64, recorder: &mut Recorder) {
        let Err(error) = result else { return };
        self.broken = Some(error);
        recorder.counts.broken_connections += 1;
        while let Some(entry) = self.books.flight.expire(u64::MAX) {
            self.books.close(entry, now, recorder, |outcomes| &mut outcomes.error);
        }
    }

    /// Full throttle ends by the clock.
    pub(super) fn stop_at_end(&mut self, now: u64) {
        if matches!(self.pace, Pace::FullThrottle) && now >= self.books.span.end_ns {
            self.next_due_ns = None;
        }
    }

    /// Sends no more; what is due already counts as given up.
    pub(super) fn stop(&mut self, now: u64, recorder: &mut Recorder) {
        while self.next_due_ns.is_some_and(|due| due <= now) {
            self.give_up_next(now, recorder);
        }
        self.next_due_ns = None;
    }

    pub(super) fn is_done(&self) -> bool {
        self.next_due_ns.is_none() && (self.books.flight.open() == 0 || self.broken.is_some())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.books.flight.open()
    }

    /// When this lane has something to do again, answers apart.
    pub(super) fn next_event_ns(&mut self) -> u64 {
        let next_due = self.next_due_ns.unwrap_or(u64::MAX);
        let due = if self.blocked { u64::MAX } else { next_due };
        let timeout = self.books.flight.oldest_sent_ns().map_or(u64::MAX, |sent| sent + self.timeout_ns);
        due.min(timeout)
    }

    /// What to wait for: a descriptor, or a time.
    pub(super) fn watch(&self, now: u64) -> Result<PollFd<'_>, u64> {
        if self.broken.is_some() {
            return Err(u64::MAX);
        }
        match self.requester.readiness() {
            Readiness::Descriptor { fd, unsent } => {
                let flags = if unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                Ok(PollFd::from_borrowed_fd(fd, flags))
            }
            Readiness::At(at_ns) => Err(at_ns),
            Readiness::Often => Err(now + LOOK_AGAIN_NS),
        }
    }

    /// The requester, and what went wrong.
    pub(super) fn into_parts(self) -> (Box<dyn Requester>, Option<String>, Option<String>) {
        (self.requester, self.broken.map(|error| error.to_string()), self.books.first_refusal)
    }
}

impl Books {
    fn awaits(&self) -> u8 {
        let acknowledgement = if self.expects.acknowledgement { ACKNOWLEDGEMENT } else { 0 };
        let payload = if self.expects.payload.is_some() { PAYLOAD } else { 0 };
        acknowledgement | payload
    }

    /// Records everything that `entry` still awaits as ended, in the distribution that `choose` picks.
    fn close(
        &self,
        entry: Entry,
        now: u64,
        recorder: &mut Recorder,
        choose: impl Fn(&mut Outcomes) -> &mut crate::recorder::Distribution,
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

/// Books what a requester sees.
struct LaneSink<'a> {
    books: &'a mut Books,
    recorder: &'a mut Recorder,
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
        // Nothing else comes of a message that was refused.
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
        match self.books.tracker.observe(header.sequence) {
            Arrival::InOrder => {}
            Arrival::Reordered { .. } => counts.reordered += 1,
            Arrival::Duplicate => {
                counts.duplicates += 1;
                return;
            }
            Arrival::Forgotten => {
                counts.unknown += 1;
                return;
            }
        }
        let entry = self.books.flight.came(header.sequence, PAYLOAD);
        if !self.books.span.measures(header.due_ns) {
            return;
        }
        counts.received += 1;
        // One that was given up has been counted as such, and keeps that latency.
        if let Some(entry) = entry {
            self.recorder.receipt.success.record(at_ns.saturating_sub(entry.due_ns));
        }
    }
}
