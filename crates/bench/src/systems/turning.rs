//! A connection to one of several addresses, which moves on to the next one at each reconnect.

use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, Readiness, Requester, Sink};

pub(super) struct Turning {
    inner: Box<dyn Requester>,
    addresses: Vec<String>,
    at: usize,
    /// Whether the current address was tried.
    is_tried: bool,
}

impl Turning {
    /// Creates it; `inner` is at address `at`.
    pub(super) fn new(inner: Box<dyn Requester>, addresses: Vec<String>, at: usize) -> Self {
        Self { inner, addresses, at, is_tried: false }
    }
}

impl Requester for Turning {
    fn expects(&self) -> Expects {
        self.inner.expects()
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        if std::mem::replace(&mut self.is_tried, true) {
            self.at = (self.at + 1) % self.addresses.len();
            self.inner.turn_to(&self.addresses[self.at]);
        }
        self.inner.set_up()
    }

    fn turn_to(&mut self, address: &str) -> bool {
        self.inner.turn_to(address)
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        self.inner.publish(sequence, payload)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.inner.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        self.inner.receive(clock, sink)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.inner.readiness()
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.inner.tear_down()
    }

    fn request(
        &mut self,
        sequence: u64,
        payload: &[u8],
        clock: &dyn Clock,
        timeout_ns: u64,
    ) -> Result<u64, RequesterError> {
        self.inner.request(sequence, payload, clock, timeout_ns)
    }
}
