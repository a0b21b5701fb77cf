//! Redis: publish/subscribe, and streams. A publisher and a subscriber, each with its own connection.
//!
//! The answer to PUBLISH or XADD is the acknowledgement. A stream is read with XREAD, one blocking call after the other, and kept
//! near 100,000 entries, so that the memory of the server stays bounded.

use std::collections::VecDeque;

use super::resp::{Value, parse, push_command};
use super::wire::{Wire, both_ready};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

/// Which of Redis's two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    PublishSubscribe,
    Streams,
}

pub(super) struct Redis {
    address: String,
    key: String,
    way: Way,
    publisher: Option<Wire>,
    subscriber: Option<Wire>,
    unanswered: VecDeque<u64>,
    last_id: Vec<u8>,
}

impl Redis {
    pub(super) fn new(address: String, name: &str, way: Way) -> Self {
        Self {
            address,
            key: format!("bench.{name}"),
            way,
            publisher: None,
            subscriber: None,
            unanswered: VecDeque::new(),
            last_id: b"0".to_vec(),
        }
    }

    /// Sends a command and waits for its answer.
    fn ask(&self, wire: &mut Wire, words: &[&[u8]]) -> Result<(), RequesterError> {
        push_command(wire.out(), words);
        let address = self.address.clone();
        wire.wait_for("setting up", |data| match parse(data) {
            Ok(Some((Value::Error(reason), _))) => {
                let reason = String::from_utf8_lossy(reason);
                Err(RequesterError::Unsupported(format!("{address} says {reason}")))
            }
            Ok(found) => Ok(found.map(|(_, used)| ((), used))),
            Err(expected) => Err(super::nats_wire::wrong(&address, expected, data)),
        })
    }

    fn read_on(&mut self) {
        if let Some(wire) = &mut self.subscriber {
            let words: [&[u8]; 6] =
                [b"XREAD", b"BLOCK", b"0", b"STREAMS", self.key.as_bytes(), self.last_id.as_slice()];
            push_command(wire.out(), &words);
        }
    }

    fn take_answers(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.publisher else { return Ok(()) };
        if !wire.fill()? {
            return Ok(());
        }
        let now = clock.now_ns();
        let mut used = 0;
        loop {
            let data = &wire.data()[used..];
            let Some((value, bytes)) = parse(data).map_err(|expected| wire.protocol(expected, data))? else {
                break;
            };
            let sequence =
                self.unanswered.pop_front().ok_or_else(|| wire.protocol("no answer to nothing", data))?;
            match value {
                Value::Error(reason) => sink.refused(now, sequence, &String::from_utf8_lossy(reason)),
                _ => sink.acknowledged(now, sequence),
            }
            used += bytes;
        }
        wire.consume(used);
        Ok(())
    }

    fn take_messages(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.subscriber else { return Ok(()) };
        if !wire.fill()? {
            return Ok(());
        }
        let now = clock.now_ns();
        let (mut used, mut answered) = (0, false);
        loop {
            let data = &wire.data()[used..];
            let Some((value, bytes)) = parse(data).map_err(|expected| wire.protocol(expected, data))? else {
                break;
            };
            let deliver = match self.way {
                Way::PublishSubscribe => published(&value, now, sink),
                Way::Streams => {
                    answered = true;
                    streamed(&value, now, sink, &mut self.last_id)
                }
            };
            deliver.ok_or_else(|| wire.protocol("a message", data))?;
            used += bytes;
        }
        wire.consume(used);
        if answered {
            self.read_on();
        }
        self.subscriber.as_mut().map_or(Ok(()), Wire::flush)
    }
}

/// `message CHANNEL PAYLOAD`.
fn published(value: &Value<'_>, now: u64, sink: &mut dyn Sink) -> Option<()> {
    let items = value.items()?;
    if items.first()?.bulk()? == b"message" {
        sink.payload(now, items.get(2)?.bulk()?);
    }
    Some(())
}

/// `[[KEY, [[ID, [p, PAYLOAD]], ...]]]`.
fn streamed(value: &Value<'_>, now: u64, sink: &mut dyn Sink, last_id: &mut Vec<u8>) -> Option<()> {
    for entry in value.items()?.first()?.items()?.get(1)?.items()? {
        let [id, fields] = entry.items()? else { return None };
        sink.payload(now, fields.items()?.get(1)?.bulk()?);
        last_id.clear();
        last_id.extend_from_slice(id.bulk()?);
    }
    Some(())
}

impl Requester for Redis {
    fn expects(&self) -> Expects {
        Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        let mut publisher = Wire::connect(&self.address)?;
        let mut subscriber = Wire::connect(&self.address)?;
        self.ask(&mut publisher, &[b"PING"])?;
        match self.way {
            Way::PublishSubscribe => self.ask(&mut subscriber, &[b"SUBSCRIBE", self.key.as_bytes()])?,
            Way::Streams => self.ask(&mut publisher, &[b"DEL", self.key.as_bytes()])?,
        }
        (self.publisher, self.subscriber) = (Some(publisher), Some(subscriber));
        if self.way == Way::Streams {
            self.read_on();
        }
        self.subscriber.as_mut().map_or(Ok(()), Wire::flush)
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.publisher.as_mut().and_then(|wire| wire.room_for(payload.len() + 128)) else {
            return Ok(Handed::Full);
        };
        let key = self.key.as_bytes();
        match self.way {
            Way::PublishSubscribe => push_command(out, &[b"PUBLISH", key, payload]),
            Way::Streams => {
                push_command(out, &[b"XADD", key, b"MAXLEN", b"~", b"100000", b"*", b"p", payload]);
            }
        }
        self.unanswered.push_back(sequence);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.publisher.as_mut().map_or(Ok(()), Wire::flush)
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        self.take_messages(clock, sink)?;
        self.take_answers(clock, sink)
    }

    fn readiness(&self) -> Readiness<'_> {
        both_ready(self.publisher.as_ref(), self.subscriber.as_ref())
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        (self.publisher, self.subscriber) = (None, None);
        if self.way == Way::Streams {
            let mut wire = Wire::connect(&self.address)?;
            self.ask(&mut wire, &[b"DEL", self.key.as_bytes()])?;
        }
        Ok(())
    }
}
