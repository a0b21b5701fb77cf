//! Bare TCP: payloads go out and come back unchanged. The minimum cost of any system on a network.

use super::wire::Wire;
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

#[derive(Debug)]
pub(super) struct TcpEcho {
    address: String,
    payload_bytes: usize,
    wire: Option<Wire>,
}

impl TcpEcho {
    pub(super) fn new(address: String, payload_bytes: usize) -> Self {
        Self { address, payload_bytes, wire: None }
    }
}

impl Requester for TcpEcho {
    fn expects(&self) -> Expects {
        Expects { acknowledgement: false, payload: Some(PayloadBack::Reply) }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.wire = Some(Wire::connect(&self.address)?);
        Ok(())
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.address);
        true
    }

    fn publish(&mut self, _sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.wire.as_mut().and_then(|wire| wire.room_for(payload.len())) else {
            return Ok(Handed::Full);
        };
        out.extend_from_slice(payload);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.wire.as_mut().map_or(Ok(()), Wire::flush)
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        if !wire.fill()? {
            return Ok(());
        }
        let now = clock.now_ns();
        let payloads = wire.data().chunks_exact(self.payload_bytes);
        let used = payloads.len() * self.payload_bytes;
        payloads.for_each(|payload| sink.payload(now, payload));
        wire.consume(used);
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wire.as_ref().map_or(Readiness::At(u64::MAX), |wire| Readiness::Sockets(wire.watched(), None))
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.wire = None;
        Ok(())
    }
}
