//! HTTP/1.1: each message is the body of a POST. One request at a time and connection, as most clients do it.
//!
//! What is due while an answer is outstanding waits, and counts from when it was due: open more connections than
//! requests that must overlap. With `reply = echo` the answer's body must be the payload, otherwise any status of 2xx
//! is an acknowledgement. No chunked answers, no redirects, no TLS.

use super::settings::Settings;
use super::wire::{Wire, line};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

#[derive(Debug)]
pub(super) struct Http {
    address: String,
    path: String,
    echoes: bool,
    wire: Option<Wire>,
    outstanding: Option<u64>,
}

impl Http {
    pub(super) fn new(address: String, settings: &mut Settings) -> Result<Self, RequesterError> {
        let path = settings.take("path").unwrap_or_else(|| "/".to_owned());
        let echoes = match settings.take("reply").as_deref() {
            None | Some("echo") => true,
            Some("status") => false,
            Some(other) => {
                let reason = format!("reply={other} is unknown: expected echo or status");
                return Err(RequesterError::Unsupported(reason));
            }
        };
        Ok(Self { address, path, echoes, wire: None, outstanding: None })
    }
}

/// A complete answer: status, where its body begins, and where it ends.
struct Answer {
    status: u16,
    body: std::ops::Range<usize>,
}

fn parse(wire: &Wire) -> Result<Option<Answer>, RequesterError> {
    let data = wire.data();
    let Some((first, mut at)) = line(data) else { return Ok(None) };
    let status = std::str::from_utf8(first)
        .ok()
        .and_then(|text| text.strip_prefix("HTTP/1."))
        .and_then(|text| text.get(2..5))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| wire.protocol("a status line of HTTP/1.1", first))?;
    let mut length = 0;
    loop {
        let Some((header, used)) = line(&data[at..]) else { return Ok(None) };
        at += used;
        if header.is_empty() {
            break;
        }
        let text = String::from_utf8_lossy(header).to_ascii_lowercase();
        if let Some(value) = text.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(|_| wire.protocol("a content length", header))?;
        } else if text.starts_with("transfer-encoding:") {
            return Err(wire.protocol("an answer with a content length", header));
        }
    }
    Ok((data.len() - at >= length).then(|| Answer { status, body: at..at + length }))
}

impl Requester for Http {
    fn expects(&self) -> Expects {
        let payload = self.echoes.then_some(PayloadBack::Reply);
        Expects { acknowledgement: !self.echoes, payload }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.wire = Some(Wire::connect(&self.address)?);
        self.outstanding = None;
        Ok(())
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        if self.outstanding.is_some() {
            return Ok(Handed::Full);
        }
        let Some(out) = self.wire.as_mut().and_then(|wire| wire.room_for(payload.len())) else {
            return Ok(Handed::Full);
        };
        let (path, host, length) = (&self.path, &self.address, payload.len());
        let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(payload);
        self.outstanding = Some(sequence);
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
        while let Some(answer) = parse(wire)? {
            let sequence =
                self.outstanding.take().ok_or_else(|| wire.protocol("no answer to nothing", wire.data()))?;
            if !(200..300).contains(&answer.status) {
                sink.refused(now, sequence, &format!("HTTP status {}", answer.status));
            } else if self.echoes {
                sink.payload(now, &wire.data()[answer.body.clone()]);
            } else {
                sink.acknowledged(now, sequence);
            }
            wire.consume(answer.body.end);
        }
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
