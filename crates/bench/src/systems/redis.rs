//! Redis: publish/subscribe, and streams. A publisher and a subscriber, each with its own connection.
//!
//! The answer to PUBLISH or XADD is the acknowledgement. A stream is read with XREAD, one blocking call after the other, and kept
//! near 100,000 entries, so that the memory of the server stays bounded.

use std::collections::VecDeque;

use super::Role;
use super::pair::Pair;
use super::resp::{Value, parse, push_command};
use super::wire::{Wire, wrong};
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
    wires: Pair,
    unanswered: VecDeque<u64>,
    last_id: Vec<u8>,
    /// The stream is this run's own, and was emptied of what an earlier one left.
    is_emptied: bool,
}

impl Redis {
    pub(super) fn new(address: String, name: &str, role: Role, way: Way) -> Self {
        Self {
            address,
            key: format!("bench.{name}"),
            way,
            wires: Pair::with_role(role),
            unanswered: VecDeque::new(),
            last_id: b"0".to_vec(),
            is_emptied: false,
        }
    }

    /// Connects and sends a first command.
    fn connect(&self, words: &[&[u8]]) -> Result<Wire, RequesterError> {
        let mut wire = Wire::connect(&self.address)?;
        self.ask(&mut wire, words)?;
        Ok(wire)
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
            Err(expected) => Err(wrong(&address, expected, data)),
        })
    }

    fn read_on(&mut self) {
        if let Some(wire) = &mut self.wires.subscriber {
            let words: [&[u8]; 6] =
                [b"XREAD", b"BLOCK", b"0", b"STREAMS", self.key.as_bytes(), self.last_id.as_slice()];
            push_command(wire.out(), &words);
        }
    }

    fn take_answers(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let unanswered = &mut self.unanswered;
        let Some(wire) = &mut self.wires.publisher else { return Ok(()) };
        wire.take_apart(clock, |heard| {
            let Some((value, bytes)) = parse(heard.data).map_err(|expected| heard.wrong(expected))? else {
                return Ok(None);
            };
            let sequence = unanswered.pop_front().ok_or_else(|| heard.wrong("no answer to nothing"))?;
            match value {
                Value::Error(reason) => sink.refused(heard.at_ns, sequence, &String::from_utf8_lossy(reason)),
                _ => sink.acknowledged(heard.at_ns, sequence),
            }
            Ok(Some(bytes))
        })
    }

    fn take_messages(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let (way, last_id, mut answered) = (self.way, &mut self.last_id, false);
        let Some(wire) = &mut self.wires.subscriber else { return Ok(()) };
        wire.take_apart(clock, |heard| {
            let Some((value, bytes)) = parse(heard.data).map_err(|expected| heard.wrong(expected))? else {
                return Ok(None);
            };
            let deliver = match way {
                Way::PublishSubscribe => published(&value, heard.at_ns, sink),
                Way::Streams => {
                    answered = true;
                    streamed(&value, heard.at_ns, sink, last_id)
                }
            };
            deliver.ok_or_else(|| heard.wrong("a message"))?;
            Ok(Some(bytes))
        })?;
        if answered {
            self.read_on();
        }
        self.wires.subscriber.as_mut().map_or(Ok(()), Wire::flush)
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
        self.wires.expects(Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.unanswered.clear();
        let mut wires = std::mem::take(&mut self.wires);
        let verb: &[u8] = match self.way {
            Way::PublishSubscribe => b"SUBSCRIBE",
            Way::Streams if self.is_emptied => b"EXISTS",
            Way::Streams => b"DEL",
        };
        let made = wires.connect(|| self.connect(&[verb, self.key.as_bytes()]), || self.connect(&[b"PING"]));
        self.wires = wires;
        made?;
        self.is_emptied = true;
        if self.way == Way::Streams {
            self.read_on();
        }
        self.wires.subscriber.as_mut().map_or(Ok(()), Wire::flush)
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.address);
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.wires.room_for(payload.len() + 128) else {
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
        self.wires.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        self.take_messages(clock, sink)?;
        self.take_answers(clock, sink)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wires.readiness()
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.wires.close();
        if self.way == Way::Streams && self.wires.role.subscribes() {
            self.connect(&[b"DEL", self.key.as_bytes()])?;
        }
        Ok(())
    }
}
