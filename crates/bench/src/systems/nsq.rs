//! NSQ, protocol V2, directly to an nsqd: a publisher and a subscriber, each with its own connection, and a
//! topic and a channel of their own, both ephemeral.
//!
//! The response to PUB is the acknowledgement. Each message received is finished at once. Settings:
//! `output_buffer_timeout` in milliseconds, for which nsqd buffers what it sends to a subscriber (default 250
//! ms; -1 turns its buffer off); `secret` for AUTH; `http` for [`super::nsq_topics`]; and those of TLS.
//! Compression and nsqlookupd are not supported.

use std::collections::VecDeque;

use super::Role;
use super::names::{self, PREFIX};
use super::pair::Pair;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, refused, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

/// Unfinished messages that nsqd may send; it may allow fewer.
const UNFINISHED_MAX: u64 = 2_500;

/// Largest frame after its length: type, timestamp, attempts, id and payload.
const FRAME_BYTES_MAX: usize = 30 + crate::payload::PAYLOAD_BYTES_MAX;

const HEARTBEAT: &[u8] = b"_heartbeat_";

const ID_BYTES: usize = 16;

pub(super) struct Nsq {
    site: Site,
    secret: Option<String>,
    topic: String,
    output_buffer_timeout_ms: Option<i64>,
    wires: Pair,
    unanswered: VecDeque<u64>,
}

/// A frame from nsqd.
#[derive(Debug, PartialEq, Eq)]
enum Frame<'a> {
    Response(&'a [u8]),
    Error(&'a [u8]),
    Message { id: &'a [u8], body: &'a [u8] },
}

/// Parses one frame. Also returns its size. `None` if it is not complete.
fn parse(data: &[u8]) -> Result<Option<(Frame<'_>, usize)>, &'static str> {
    const WRONG: &str = "a frame of NSQ";
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if !(4..=FRAME_BYTES_MAX).contains(&length) {
        return Err(WRONG);
    }
    let Some((kind, body)) = rest.get(..length).and_then(|frame| frame.split_first_chunk::<4>()) else {
        return Ok(None);
    };
    let frame = match u32::from_be_bytes(*kind) {
        0 => Frame::Response(body),
        1 => Frame::Error(body),
        2 => {
            // After the timestamp and the number of attempts.
            let (id, body) = body.get(10..).and_then(|rest| rest.split_at_checked(ID_BYTES)).ok_or(WRONG)?;
            Frame::Message { id, body }
        }
        _ => return Err(WRONG),
    };
    Ok(Some((frame, 4 + length)))
}

/// Appends a command with a body.
fn push_with_body(out: &mut Vec<u8>, command: &[&[u8]], body: &[u8]) {
    command.iter().for_each(|part| out.extend_from_slice(part));
    out.push(b'\n');
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
}

/// Waits for a response other than a heartbeat.
fn response(wire: &mut Wire) -> Result<Vec<u8>, RequesterError> {
    let address = wire.address().to_owned();
    loop {
        let said = wire.wait_for("setting up", |data| {
            match parse(data).map_err(|expected| wrong(&address, expected, data))? {
                None => Ok(None),
                Some((Frame::Response(body), used)) => Ok(Some((body.to_vec(), used))),
                Some((Frame::Error(reason), _)) => Err(refused(&address, reason)),
                Some((Frame::Message { .. }, _)) => Err(wrong(&address, "a response", data)),
            }
        })?;
        if said != HEARTBEAT {
            return Ok(said);
        }
        wire.out().extend_from_slice(b"NOP\n");
    }
}

fn await_ok(wire: &mut Wire) -> Result<(), RequesterError> {
    let said = response(wire)?;
    if said == b"OK" { Ok(()) } else { Err(wire.protocol("OK", &said)) }
}

impl Nsq {
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        // It is for `bench clean`.
        settings.take("http");
        let timeout = settings.take("output_buffer_timeout");
        let output_buffer_timeout_ms = timeout.map(|text| {
            let number = text.parse::<i64>().ok().filter(|number| *number == -1 || *number > 0);
            number.ok_or_else(|| {
                RequesterError::Unsupported(format!(
                    "output_buffer_timeout={text} is unknown: expected milliseconds, or -1 for none"
                ))
            })
        });
        Ok(Self {
            site,
            secret: settings.take("secret"),
            topic: names::ephemeral(&names::dotted(name)),
            output_buffer_timeout_ms: output_buffer_timeout_ms.transpose()?,
            wires: Pair::with_role(role),
            unanswered: VecDeque::new(),
        })
    }

    /// Connects. Also returns how many unfinished messages nsqd allows.
    fn connect(&self) -> Result<(Wire, u64), RequesterError> {
        let mut wire = self.site.connect_in_the_clear()?;
        // Without a timeout nsqd would wait until its buffer is full.
        let buffer = match self.output_buffer_timeout_ms {
            None => String::new(),
            Some(-1) => "\"output_buffer_size\":-1,\"output_buffer_timeout\":-1,".to_owned(),
            Some(timeout_ms) => format!("\"output_buffer_timeout\":{timeout_ms},"),
        };
        let tls = if self.site.has_tls() { "\"tls_v1\":true," } else { "" };
        let identity =
            format!("{{\"feature_negotiation\":true,{buffer}{tls}\"user_agent\":\"tailrace bench\"}}");
        wire.out().extend_from_slice(b"  V2");
        push_with_body(wire.out(), &[b"IDENTIFY"], identity.as_bytes());
        let said = response(&mut wire)?;
        let features: serde_json::Value =
            serde_json::from_slice(&said).map_err(|_| wire.protocol("what nsqd can do, in JSON", &said))?;
        if self.site.has_tls() {
            self.secure(&mut wire, &features)?;
        }
        if features["auth_required"] == true {
            self.authenticate(&mut wire)?;
        }
        let unfinished = features["max_rdy_count"].as_u64().unwrap_or(UNFINISHED_MAX);
        Ok((wire, unfinished.min(UNFINISHED_MAX)))
    }

    /// Switches to TLS. nsqd then sends OK again.
    fn secure(&self, wire: &mut Wire, features: &serde_json::Value) -> Result<(), RequesterError> {
        if features["tls_v1"] != true {
            return Err(RequesterError::Unsupported(format!("{} does not speak TLS", self.site.address)));
        }
        self.site.secure(wire)?;
        await_ok(wire)
    }

    fn authenticate(&self, wire: &mut Wire) -> Result<(), RequesterError> {
        let Some(secret) = &self.secret else {
            let reason = format!("{} wants AUTH: expected --set secret=", self.site.address);
            return Err(RequesterError::Unsupported(reason));
        };
        push_with_body(wire.out(), &[b"AUTH"], secret.as_bytes());
        // The permissions of the secret, in JSON.
        response(wire).map(drop)
    }

    fn subscribe(&self) -> Result<Wire, RequesterError> {
        let (mut subscriber, unfinished) = self.connect()?;
        let command = format!("SUB {} {PREFIX}#ephemeral\n", self.topic);
        subscriber.out().extend_from_slice(command.as_bytes());
        await_ok(&mut subscriber)?;
        subscriber.out().extend_from_slice(format!("RDY {unfinished}\n").as_bytes());
        subscriber.flush()?;
        Ok(subscriber)
    }

    fn take_answers(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let unanswered = &mut self.unanswered;
        let Some(wire) = &mut self.wires.publisher else { return Ok(()) };
        frames(wire, clock, |now, frame, _| match frame {
            Frame::Response(b"OK") => {
                sink.acknowledged(now, unanswered.pop_front().ok_or("no answer to nothing")?);
                Ok(())
            }
            Frame::Error(reason) => {
                let sequence = unanswered.pop_front().ok_or("no answer to nothing")?;
                sink.refused(now, sequence, &String::from_utf8_lossy(reason));
                Ok(())
            }
            Frame::Response(_) | Frame::Message { .. } => Err("OK or an error"),
        })
    }

    fn take_messages(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.wires.subscriber else { return Ok(()) };
        frames(wire, clock, |now, frame, answers| match frame {
            Frame::Message { id, body } => {
                sink.payload(now, body);
                answers.extend_from_slice(b"FIN ");
                answers.extend_from_slice(id);
                answers.push(b'\n');
                Ok(())
            }
            // Finished too late: it comes again, and counts as a duplicate.
            Frame::Error(reason) if reason.starts_with(b"E_FIN_FAILED") => Ok(()),
            Frame::Response(_) | Frame::Error(_) => Err("messages"),
        })
    }
}

/// Reads what has come, frame by frame, and answers heartbeats. `on_frame` gets the time and the buffer for
/// answers. Its error is what it expected instead.
fn frames(
    wire: &mut Wire,
    clock: &dyn Clock,
    mut on_frame: impl FnMut(u64, Frame<'_>, &mut Vec<u8>) -> Result<(), &'static str>,
) -> Result<(), RequesterError> {
    let mut answers = Vec::new();
    wire.take_apart(clock, |heard| {
        let Some((frame, bytes)) = parse(heard.data).map_err(|expected| heard.wrong(expected))? else {
            return Ok(None);
        };
        if frame == Frame::Response(HEARTBEAT) {
            answers.extend_from_slice(b"NOP\n");
        } else {
            on_frame(heard.at_ns, frame, &mut answers).map_err(|expected| heard.wrong(expected))?;
        }
        Ok(Some(bytes))
    })?;
    wire.out().extend_from_slice(&answers);
    wire.flush()
}

impl Requester for Nsq {
    fn expects(&self) -> Expects {
        self.wires.expects(Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.unanswered.clear();
        let mut wires = std::mem::take(&mut self.wires);
        let made = wires.connect(|| self.subscribe(), || Ok(self.connect()?.0));
        self.wires = wires;
        made
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.wires.room_for(payload.len() + 128) else {
            return Ok(Handed::Full);
        };
        push_with_body(out, &[b"PUB ", self.topic.as_bytes()], payload);
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
        // Ephemeral topics disappear with their last client.
        self.wires.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation() {
        let text = b"\0\0\0\x06\0\0\0\0OK\0\0\0\x0F\0\0\0\0_heartbeat_\0\0\0\x0F\0\0\0\x01E_BAD_TOPIC\
            \0\0\0\x21\0\0\0\x02\x17\0\0\0\0\0\0\x05\0\x010123456789abcdefabc";
        let mut rest = &text[..];
        let mut frames = Vec::new();
        while let Some((frame, used)) = parse(rest).unwrap() {
            frames.push(frame);
            rest = &rest[used..];
        }
        let message = Frame::Message { id: b"0123456789abcdef", body: b"abc" };
        let expected =
            [Frame::Response(b"OK"), Frame::Response(HEARTBEAT), Frame::Error(b"E_BAD_TOPIC"), message];
        assert_eq!(frames, expected);
        for cut in 0..text.len() {
            let mut rest = &text[..cut];
            while let Some((_, used)) = parse(rest).unwrap() {
                rest = &rest[used..];
            }
        }
        for wrong in [&b"HTTP/1.1"[..], b"\0\0\0\x03", b"\0\0\0\x04\0\0\0\x03", b"\0\0\0\x05\0\0\0\x02a"] {
            parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn commands() {
        let mut out = Vec::new();
        push_with_body(&mut out, &[b"PUB ", b"a"], b"xyz");
        assert_eq!(out, b"PUB a\n\0\0\0\x03xyz");
    }
}
