//! One connection to a system under test, as the load generator sees it.
//!
//! A [`Requester`] never waits: [`Requester::publish`] hands a message over or reports that there is no room,
//! and [`Requester::receive`] reports what has come. Only set-up and teardown may block. A requester knows no
//! schedules and keeps no statistics. It reports everything to a [`Sink`], with the time at which it was read
//! from the socket.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags};

use crate::clock::Clock;
use crate::error::RequesterError;
use crate::payload;

/// What happened to a message that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// It is on its way, or will be after [`Requester::flush`].
    Taken,
    /// The client's buffer is full. The caller must offer the same message again.
    Full,
}

/// What a returned payload means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadBack {
    /// A subscriber got the message.
    Receipt,
    /// The system answered a request.
    Reply,
}

/// What a system reports about each message. At least one of the two, since otherwise nothing could be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expects {
    /// Each message is acknowledged or rejected.
    pub acknowledgement: bool,
    /// Each message's payload comes back.
    pub payload: Option<PayloadBack>,
}

/// A socket to wait for: until it is readable, or, if bytes are `unsent`, writable.
pub struct Watched<'a> {
    /// The socket.
    pub fd: BorrowedFd<'a>,
    /// Whether bytes wait to be written.
    pub unsent: bool,
}

impl<'a> Watched<'a> {
    /// The descriptor for poll(2).
    pub(crate) fn poll_fd(&self) -> PollFd<'a> {
        let flags = if self.unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        PollFd::from_borrowed_fd(self.fd, flags)
    }
}

/// When to call [`Requester::receive`] again.
pub enum Readiness<'a> {
    /// When one of the sockets is ready: the publisher's, or the subscriber's if it has its own.
    Sockets(Watched<'a>, Option<Watched<'a>>),
    /// At this time on the clock; `u64::MAX` for never.
    At(u64),
    /// At short intervals: there is no signal when something comes.
    Often,
}

/// Receives what a [`Requester`] reports.
pub trait Sink {
    /// The system has acknowledged a message.
    fn acknowledged(&mut self, at_ns: u64, sequence: u64);
    /// The system has rejected a message.
    fn refused(&mut self, at_ns: u64, sequence: u64, reason: &str);
    /// A payload has come back.
    fn payload(&mut self, at_ns: u64, bytes: &[u8]);
}

/// One connection, or one pair of publisher and subscriber, to a system under test.
pub trait Requester: Send {
    /// What the system reports about each message.
    fn expects(&self) -> Expects;

    /// Connects, and creates what is needed: subjects, topics, queues, subscriptions. May block.
    ///
    /// # Errors
    /// The system cannot be reached, or answers wrongly.
    fn set_up(&mut self) -> Result<(), RequesterError>;

    /// Makes the next [`Requester::set_up`] connect to another address of the same system. Returns false if
    /// it cannot.
    fn turn_to(&mut self, _address: &str) -> bool {
        false
    }

    /// Hands a message over. Never waits for the system.
    ///
    /// # Errors
    /// The connection is broken.
    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError>;

    /// Sends what was handed over since the last call, as far as possible without waiting.
    ///
    /// # Errors
    /// The connection is broken.
    fn flush(&mut self) -> Result<(), RequesterError>;

    /// Reports what has come to `sink`. Never waits.
    ///
    /// # Errors
    /// The connection is broken, or the data is not in the protocol.
    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError>;

    /// When there may be something to receive.
    fn readiness(&self) -> Readiness<'_>;

    /// Removes what [`Requester::set_up`] created. May block.
    ///
    /// # Errors
    /// The system does not allow it.
    fn tear_down(&mut self) -> Result<(), RequesterError>;

    /// Sends one message and waits for everything that is expected of it, to show before a run that the
    /// system works.
    ///
    /// Returns the time that it took, in nanoseconds.
    ///
    /// # Errors
    /// Nothing came in time, or the payload came back changed.
    fn request(
        &mut self,
        sequence: u64,
        payload: &[u8],
        clock: &dyn Clock,
        timeout_ns: u64,
    ) -> Result<u64, RequesterError> {
        request_and_wait(self, sequence, payload, clock, timeout_ns)
    }
}

const CHECK_INTERVAL_NS: u64 = 1_000_000;

/// The default of [`Requester::request`], for implementations that add to it.
pub(crate) fn request_and_wait<R: Requester + ?Sized>(
    requester: &mut R,
    sequence: u64,
    payload: &[u8],
    clock: &dyn Clock,
    timeout_ns: u64,
) -> Result<u64, RequesterError> {
    let begun = clock.now_ns();
    let deadline = begun.saturating_add(timeout_ns);
    let mut probe =
        Probe { sequence, payload, expects: requester.expects(), is_acknowledged: false, wrong: None };
    let mut taken = false;
    loop {
        taken = taken || requester.publish(sequence, payload)? == Handed::Taken;
        requester.flush()?;
        requester.receive(clock, &mut probe)?;
        let now = clock.now_ns();
        if let Some(wrong) = probe.wrong {
            return Err(wrong);
        }
        if taken && probe.is_done() && !has_unsent(&requester.readiness()) {
            return Ok(now - begun);
        }
        if now >= deadline {
            let timeout_ms = timeout_ns / 1_000_000;
            return Err(RequesterError::Timeout {
                address: "the system".to_owned(),
                timeout_ms,
                doing: probe.waits_for(),
            });
        }
        wait(requester.readiness(), clock, deadline.min(now + CHECK_INTERVAL_NS));
    }
}

fn has_unsent(readiness: &Readiness<'_>) -> bool {
    match readiness {
        Readiness::Sockets(first, second) => {
            first.unsent || second.as_ref().is_some_and(|second| second.unsent)
        }
        Readiness::At(_) | Readiness::Often => false,
    }
}

pub(crate) fn wait(readiness: Readiness<'_>, clock: &dyn Clock, until_ns: u64) {
    match readiness {
        Readiness::Sockets(first, second) => {
            let mut watched: Vec<_> =
                std::iter::once(first).chain(second).map(|socket| socket.poll_fd()).collect();
            clock.wait(until_ns, &mut watched);
        }
        Readiness::At(at_ns) => clock.wait(until_ns.min(at_ns), &mut []),
        Readiness::Often => clock.wait(until_ns, &mut []),
    }
}

/// The sink of a single request.
struct Probe<'a> {
    sequence: u64,
    payload: &'a [u8],
    expects: Expects,
    is_acknowledged: bool,
    wrong: Option<RequesterError>,
}

impl Probe<'_> {
    fn is_done(&self) -> bool {
        !self.expects.acknowledgement && self.expects.payload.is_none()
    }

    fn waits_for(&self) -> &'static str {
        match (self.is_acknowledged, self.expects.payload) {
            (true, Some(_)) => "delivering a message that it had acknowledged, before the run",
            _ => "one message was tried before the run",
        }
    }
}

impl Sink for Probe<'_> {
    fn acknowledged(&mut self, _at_ns: u64, sequence: u64) {
        if sequence == self.sequence {
            self.expects.acknowledgement = false;
            self.is_acknowledged = true;
        }
    }

    fn refused(&mut self, _at_ns: u64, sequence: u64, reason: &str) {
        if sequence == self.sequence {
            let reason = format!("the system refused a message before the run: {reason}");
            self.wrong = Some(RequesterError::Unsupported(reason));
        }
    }

    fn payload(&mut self, _at_ns: u64, bytes: &[u8]) {
        if bytes == self.payload {
            self.expects.payload = None;
            return;
        }
        // A leftover of an earlier run is not the system's fault.
        if payload::verify(bytes, bytes.len()).is_err() {
            self.wrong = Some(RequesterError::Protocol {
                address: "the system".to_owned(),
                expected: "the payload that was sent",
                found: format!("{} other bytes", bytes.len()),
            });
        }
    }
}
