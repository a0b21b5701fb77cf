//! One connection under load: its schedule, its messages in flight, and their measurements.
//!
//! A lane never waits. It decides who is to blame for a late message. The time for which the connection could
//! take no more is *held*. The rest of the delay before sending is the generator's *lateness*. Messages due
//! while the connection is broken are held in the same way, unless it stays broken for longer than a
//! message's timeout.

use std::time::Duration;

use super::books::{Books, LaneSink};
use super::flight::Entry;
use super::link::{Link, LinkEnd, Repair};
use super::options::{Load, LoadOptions};
use super::span::Span;
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::payload::{Header, PayloadBuffer};
use crate::recorder::Recorder;
use crate::requester::{Handed, Readiness, Requester};
use crate::schedule::DueTimes;

/// Messages that one lane sends before it is the other lanes' turn, and answers are read.
const BURST: usize = 64;

/// How long to wait before trying a client again that has no room, or that cannot signal when something
/// arrives.
const CHECK_INTERVAL_NS: u64 = 100_000;

/// Where the next due time comes from.
#[derive(Debug)]
enum Pace {
    Open(DueTimes),
    /// The shift grows with each wait for an answer.
    Closed(DueTimes, u64),
    FullThrottle,
}

pub(super) struct Lane {
    link: Link,
    pace: Pace,
    next_due_ns: Option<u64>,
    messages_left: u64,
    bound: usize,
    timeout_ns: u64,
    blocked: bool,
    unblocked_ns: u64,
    books: Books,
}

impl Lane {
    pub(super) fn new(
        requester: Box<dyn Requester>,
        options: &LoadOptions,
        repair: Option<Repair>,
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
        let books = Books::new(options, span, requester.expects(), connection as u16);
        let mut lane = Self {
            link: Link::new(requester, repair, span.begin_ns, connection, connections),
            pace,
            next_due_ns: None,
            messages_left: all.saturating_sub(own).div_ceil(others),
            bound: options.bound(),
            timeout_ns: options.timeout_ns,
            blocked: false,
            unblocked_ns: 0,
            books,
        };
        lane.advance();
        lane
    }

    /// Sends due messages, as long as there is room, and at most a burst.
    pub(super) fn send_due(
        &mut self,
        clock: &dyn Clock,
        buffer: &mut PayloadBuffer,
        recorder: &mut Recorder,
    ) {
        let mut now = clock.now_ns();
        let mut sent = 0;
        while sent < BURST && self.next_due_ns.is_some_and(|due| due <= now) {
            if !self.link.is_up() {
                if self.patience_ends_ns().is_none_or(|end| end > now) {
                    break;
                }
                self.give_up_next(now, recorder);
            } else if !self.send_next(now, buffer, recorder) {
                break;
            }
            sent += 1;
            now = clock.now_ns();
        }
        if sent > 0
            && let Some(requester) = self.link.up()
        {
            let flushed = requester.flush();
            self.survive(flushed, now, recorder);
        }
    }

    /// Until when the next message waits for a broken connection.
    fn patience_ends_ns(&self) -> Option<u64> {
        let timeout_ns = if self.link.is_lost() { 0 } else { self.timeout_ns };
        match self.pace {
            // Full throttle has no due times that a broken connection could miss.
            Pace::FullThrottle if !self.link.is_lost() => None,
            _ => self.next_due_ns.map(|due| due.saturating_add(timeout_ns)),
        }
    }

    /// Continues to reconnect a broken connection.
    pub(super) fn mend(&mut self, now: u64, recorder: &mut Recorder) {
        if !self.link.is_up() && self.link.mend(now) {
            recorder.counts.reconnected += 1;
        }
    }

    /// Sends one message. Returns false if there is no room for it.
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
        let Some(requester) = self.link.up() else { return false };
        match requester.publish(sequence, payload) {
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

    /// Sets the next message's due time; `None` after the end.
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
            let failed = !self.link.is_up();
            self.books.close(entry, now, recorder, |outcomes| {
                if failed { &mut outcomes.error } else { &mut outcomes.timeout }
            });
        }
        self.advance();
    }

    /// Reads what has arrived.
    pub(super) fn receive(&mut self, clock: &dyn Clock, recorder: &mut Recorder) {
        let Some(requester) = self.link.up() else { return };
        let mut sink = LaneSink { books: &mut self.books, recorder };
        let mut result = requester.receive(clock, &mut sink);
        if result.is_ok() {
            result = requester.flush();
        }
        let failed = result.is_err();
        self.survive(result, if failed { clock.now_ns() } else { 0 }, recorder);
    }

    /// Times out messages that were sent too long ago.
    pub(super) fn expire(&mut self, now: u64, recorder: &mut Recorder) {
        let Some(limit_ns) = now.checked_sub(self.timeout_ns) else { return };
        self.books.expire(limit_ns, now, recorder);
    }

    /// Ends the run for this lane. Messages still outstanding, and messages that could not be sent, count as
    /// timed out. Returns the number of messages that were not sent although there was room: those are the
    /// generator's fault.
    pub(super) fn finish(&mut self, now: u64, recorder: &mut Recorder) -> u64 {
        self.books.expire(u64::MAX, now, recorder);
        let had_room = !self.blocked && self.link.is_up();
        let mut left = 0;
        while self.next_due_ns.is_some_and(|due| due <= now) && !matches!(self.pace, Pace::FullThrottle) {
            self.give_up_next(now, recorder);
            left += 1;
        }
        self.books.count_missing(&mut recorder.counts);
        if had_room { left } else { 0 }
    }

    fn survive(&mut self, result: Result<(), RequesterError>, now: u64, recorder: &mut Recorder) {
        let Err(error) = result else { return };
        self.link.broke(error, now);
        recorder.counts.broken_connections += 1;
        // Messages due from here on are held by the connection.
        self.blocked = true;
        self.books.cut_off(!self.link.is_lost(), now, recorder);
    }

    /// Ends full throttle at its time.
    pub(super) fn stop_at_end(&mut self, now: u64) {
        if matches!(self.pace, Pace::FullThrottle) && now >= self.books.span.end_ns {
            self.next_due_ns = None;
        }
    }

    /// Stops sending. Messages that wait for room count as timed out: a user would still wait for them.
    /// Messages that could be sent at this very moment do not count at all, since nobody asks for them any
    /// more.
    pub(super) fn stop(&mut self, now: u64, recorder: &mut Recorder) {
        let has_room = !self.blocked && self.link.is_up();
        while !has_room && self.next_due_ns.is_some_and(|due| due <= now) {
            self.give_up_next(now, recorder);
        }
        self.next_due_ns = None;
    }

    pub(super) fn is_done(&self) -> bool {
        self.next_due_ns.is_none() && (!self.books.awaits_something() || self.link.is_lost())
    }

    /// The connection's number, and the number of messages sent, warm-up included.
    pub(super) fn sent(&self) -> (u32, u64) {
        (u32::from(self.books.connection), self.books.flight.next_sequence())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.books.flight.open()
    }

    /// How long the oldest measured message that was due and has not ended had waited at `at_ns`; 0 if none
    /// waits. Only an open loop knows when an unsent message was due; other loads count from the sending.
    pub(super) fn oldest_waiting_ns(&self, at_ns: u64) -> u64 {
        let unsent = self
            .next_due_ns
            .filter(|due_ns| matches!(self.pace, Pace::Open(_)) && self.books.span.measures(*due_ns));
        let oldest = unsent.into_iter().chain(self.books.oldest_due_ns()).min();
        oldest.map_or(0, |due_ns| at_ns.saturating_sub(due_ns))
    }

    /// When this lane next has something to do, other than reading answers.
    pub(super) fn next_event_ns(&mut self, now: u64) -> u64 {
        let due = match self.next_due_ns {
            Some(due) if self.link.is_up() && !self.blocked => due,
            Some(_) if !self.link.is_up() => self.patience_ends_ns().unwrap_or(u64::MAX),
            _ => u64::MAX,
        };
        let timeout = self.books.oldest_sent_ns().map_or(u64::MAX, |sent| sent + self.timeout_ns);
        due.min(timeout).min(self.link.next_event_ns(now))
    }

    /// When to look for answers: as soon as a socket is ready, or at a given time.
    pub(super) fn readiness(&self, now: u64) -> Readiness<'_> {
        let Some(requester) = self.link.ready() else { return Readiness::At(u64::MAX) };
        match requester.readiness() {
            Readiness::Often => Readiness::At(now + CHECK_INTERVAL_NS),
            other => other,
        }
    }

    /// Ends the lane. Returns the connection, and the first reason for which the system rejected a message.
    /// Waits at most `patience` for a reconnect in progress.
    pub(super) fn end(self, patience: Duration) -> (LinkEnd, Option<String>) {
        (self.link.end(patience), self.books.first_refusal)
    }
}
