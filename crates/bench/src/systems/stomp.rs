//! STOMP 1.2, as ActiveMQ and RabbitMQ speak it: receipts are the acknowledgements, a subscriber has its own connection.
//!
//! Settings: `destination` (default `/queue/`; the name of the connection is appended), `user`, `password`, `host`.

use super::Role;
use super::nats_wire::push_number;
use super::pair::Pair;
use super::settings::Settings;
use super::wire::{Wire, line, refused, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

pub(super) struct Stomp {
    address: String,
    destination: String,
    user: String,
    password: String,
    host: String,
    wires: Pair,
}

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
struct Frame<'a> {
    command: &'a [u8],
    receipt: Option<u64>,
    /// What an ERROR says in short.
    message: Option<&'a [u8]>,
    body: &'a [u8],
}

impl Frame<'_> {
    /// The reason that an ERROR tells: its header `message`, or the first line of its body.
    fn refusal(&self, address: &str) -> RequesterError {
        let body = self.body.split(|byte| *byte == b'\n').next().unwrap_or_default();
        refused(address, &self.message.map_or_else(|| body.to_vec(), unescape))
    }
}

/// The value of a header as STOMP 1.2 means it.
fn unescape(value: &[u8]) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), value.iter());
    while let Some(byte) = bytes.next() {
        out.push(match (byte, bytes.as_slice().first()) {
            (b'\\', Some(b'c')) => b':',
            // A refusal is one line.
            (b'\\', Some(b'n' | b'r')) => b' ',
            (b'\\', Some(b'\\')) => b'\\',
            _ => {
                out.push(*byte);
                continue;
            }
        });
        bytes.next();
    }
    out
}

impl Stomp {
    pub(super) fn new(address: String, name: &str, role: Role, settings: &mut Settings) -> Self {
        let mut take = |key, default: &str| settings.take(key).unwrap_or_else(|| default.to_owned());
        Self {
            address,
            destination: format!("{}bench-{}", take("destination", "/queue/"), name.replace('.', "-")),
            user: take("user", "guest"),
            password: take("password", "guest"),
            host: take("host", "/"),
            wires: Pair::with_role(role),
        }
    }

    fn connect(&self) -> Result<Wire, RequesterError> {
        let mut wire = Wire::connect(&self.address)?;
        let (host, user, password) = (&self.host, &self.user, &self.password);
        let frame =
            format!("CONNECT\naccept-version:1.2\nhost:{host}\nlogin:{user}\npasscode:{password}\n\n\0");
        wire.out().extend_from_slice(frame.as_bytes());
        await_frame(&mut wire, "CONNECTED")?;
        Ok(wire)
    }

    fn subscribe(&self) -> Result<Wire, RequesterError> {
        let mut subscriber = self.connect()?;
        let frame = format!("SUBSCRIBE\nid:0\ndestination:{}\nack:auto\nreceipt:1\n\n\0", self.destination);
        subscriber.out().extend_from_slice(frame.as_bytes());
        await_frame(&mut subscriber, "RECEIPT")?;
        Ok(subscriber)
    }
}

/// Reads one frame, and how many bytes it took; `None` if it is not complete.
fn parse(data: &[u8]) -> Result<Option<(Frame<'_>, usize)>, &'static str> {
    // Line ends between frames are heartbeats.
    let begin = data.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    let Some((command, used)) = line(&data[begin..]) else { return Ok(None) };
    if !matches!(command, b"CONNECTED" | b"MESSAGE" | b"RECEIPT" | b"ERROR") {
        return Err("CONNECTED, MESSAGE, RECEIPT or ERROR");
    }
    let (mut at, mut length, mut receipt, mut message) = (begin + used, None, None, None);
    loop {
        let Some((header, used)) = line(&data[at..]) else { return Ok(None) };
        at += used;
        if header.is_empty() {
            break;
        }
        let number = |prefix: &[u8]| {
            let value = header.strip_prefix(prefix)?;
            std::str::from_utf8(value).ok()?.parse::<u64>().ok()
        };
        // Of a header that comes twice the first counts.
        length = length.or_else(|| number(b"content-length:"));
        receipt = receipt.or_else(|| number(b"receipt-id:"));
        message = message.or_else(|| header.strip_prefix(b"message:"));
    }
    let body_bytes = match length {
        Some(length) => usize::try_from(length).map_err(|_| "a length that fits into memory")?,
        None => match data[at..].iter().position(|byte| *byte == 0) {
            Some(end) => end,
            None => return Ok(None),
        },
    };
    let end = at.checked_add(body_bytes).ok_or("a length that fits into memory")?;
    match data.get(end) {
        None => Ok(None),
        Some(0) => Ok(Some((Frame { command, receipt, message, body: &data[at..end] }, end + 1))),
        Some(_) => Err("a zero behind the body"),
    }
}

fn await_frame(wire: &mut Wire, awaited: &'static str) -> Result<(), RequesterError> {
    let address = wire.address().to_owned();
    wire.wait_for("setting up", |data| {
        let wrong = |expected| wrong(&address, expected, data);
        match parse(data).map_err(wrong)? {
            None => Ok(None),
            Some((frame, used)) if frame.command == awaited.as_bytes() => Ok(Some(((), used))),
            Some((frame, _)) if frame.command == b"ERROR" => Err(frame.refusal(&address)),
            Some(_) => Err(wrong(awaited)),
        }
    })
}

/// Reads what has come, frame by frame.
fn frames(
    wire: &mut Wire,
    clock: &dyn Clock,
    mut on_frame: impl FnMut(u64, Frame<'_>),
) -> Result<(), RequesterError> {
    wire.take_apart(clock, |heard| {
        let Some((frame, bytes)) = parse(heard.data).map_err(|expected| heard.wrong(expected))? else {
            return Ok(None);
        };
        if frame.command == b"ERROR" {
            return Err(frame.refusal(heard.address));
        }
        on_frame(heard.at_ns, frame);
        Ok(Some(bytes))
    })
}

impl Requester for Stomp {
    fn expects(&self) -> Expects {
        self.wires.expects(Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        let mut wires = std::mem::take(&mut self.wires);
        let made = wires.connect(|| self.subscribe(), || self.connect());
        self.wires = wires;
        made
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.address);
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.wires.room_for(payload.len() + 256) else {
            return Ok(Handed::Full);
        };
        out.extend_from_slice(b"SEND\ndestination:");
        out.extend_from_slice(self.destination.as_bytes());
        out.extend_from_slice(b"\nreceipt:");
        push_number(out, sequence);
        out.extend_from_slice(b"\ncontent-length:");
        push_number(out, payload.len() as u64);
        out.extend_from_slice(b"\n\n");
        out.extend_from_slice(payload);
        out.push(0);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.wires.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        if let Some(wire) = &mut self.wires.subscriber {
            frames(wire, clock, |now, frame| sink.payload(now, frame.body))?;
        }
        let Some(wire) = &mut self.wires.publisher else { return Ok(()) };
        frames(wire, clock, |now, frame| {
            if let Some(sequence) = frame.receipt {
                sink.acknowledged(now, sequence);
            }
        })
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wires.readiness()
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        // STOMP cannot delete a queue; brokers remove empty ones as they are configured to.
        self.wires.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation() {
        let text = b"CONNECTED\nversion:1.2\n\n\0\n\nRECEIPT\r\nreceipt-id:42\r\n\r\n\0MESSAGE\nsubscription:0\ncontent-length:3\n\na\0b\0";
        let (first, used) = parse(text).unwrap().unwrap();
        assert_eq!(first, Frame { command: b"CONNECTED", receipt: None, message: None, body: b"" });
        let rest = &text[used..];
        let (second, used) = parse(rest).unwrap().unwrap();
        assert_eq!(second.receipt, Some(42));
        let rest = &rest[used..];
        assert_eq!(parse(rest).unwrap().unwrap().0.body, b"a\0b");
        for cut in 0..rest.len() {
            assert_eq!(parse(&rest[..cut]), Ok(None), "{cut}");
        }
        for wrong in [
            &b"HELLO\n\n\0"[..],
            b"MESSAGE\ncontent-length:1\n\nabc",
            b"MESSAGE\ncontent-length:18446744073709551615\n\n",
        ] {
            parse(wrong).unwrap_err();
        }
    }
}
