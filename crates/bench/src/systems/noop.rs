//! A system that does nothing: it measures the harness itself.

use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, Readiness, Requester, Sink};

/// Acknowledges every message at the next opportunity.
#[derive(Debug, Default)]
pub(super) struct Noop {
    waiting: Vec<u64>,
}

impl Requester for Noop {
    fn expects(&self) -> Expects {
        Expects { acknowledgement: true, payload: None }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }

    fn publish(&mut self, sequence: u64, _payload: &[u8]) -> Result<Handed, RequesterError> {
        self.waiting.push(sequence);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let now = clock.now_ns();
        for sequence in self.waiting.drain(..) {
            sink.acknowledged(now, sequence);
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::At(if self.waiting.is_empty() { u64::MAX } else { 0 })
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }
}
