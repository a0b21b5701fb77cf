//! STOMP 1.2, as in ActiveMQ and RabbitMQ. Receipts are the acknowledgements. The subscriber has its own
//! connection.
//!
//! Settings: `destination` (default `/queue/`; the name of the connection is appended), `user`, `password`,
//! `host`, `expires`, and those of TLS. STOMP cannot delete a queue. RabbitMQ is asked to delete it after
//! `expires` seconds without a subscriber (default 60; 0: never). ActiveMQ does what it is configured to do.

use super::Role;
use super::names;
use super::nats_wire::push_number;
use super::pair::Pair;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, line, refused, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

pub(super) struct Stomp {
    site: Site,
    destination: String,
    user: String,
    password: String,
    host: String,
    expires_s: u64,
    wires: Pair,
    /// The header that makes the queue expire, if the server supports it. The first frame that names the
    /// queue must carry it.
    expiry: Option<String>,
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
struct Frame<'a> {
    command: &'a [u8],
    receipt: Option<u64>,
    /// The server's name in a CONNECTED.
    server: Option<&'a [u8]>,
    /// The header `message` of an ERROR.
    message: Option<&'a [u8]>,
    body: &'a [u8],
}

impl Frame<'_> {
    /// The reason in an ERROR: its header `message`, or the first line of its body.
    fn refusal(&self, address: &str) -> RequesterError {
        let body = self.body.split(|byte| *byte == b'\n').next().unwrap_or_default();
        refused(address, &self.message.map_or_else(|| body.to_vec(), unescape))
    }
}

/// The value of a header, unescaped as in STOMP 1.2.
fn unescape(value: &[u8]) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), value.iter());
    while let Some(byte) = bytes.next() {
        out.push(match (byte, bytes.as_slice().first()) {
            (b'\\', Some(b'c')) => b':',
            // The text of a refusal is one line.
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
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        let mut take = |key, default: &str| settings.take(key).unwrap_or_else(|| default.to_owned());
        let expires = take("expires", "60");
        // It is for `bench clean`.
        take("management", "");
        let expires_s = expires.parse().map_err(|_| {
            RequesterError::Unsupported(format!(
                "expires={expires} is unknown: expected seconds, or 0 for never"
            ))
        })?;
        Ok(Self {
            site,
            destination: format!("{}{}", take("destination", "/queue/"), names::dashed(name)),
            user: take("user", "guest"),
            password: take("password", "guest"),
            host: take("host", "/"),
            expires_s,
            wires: Pair::with_role(role),
            expiry: None,
        })
    }

    /// Connects. Also returns the header that makes the queue expire.
    fn connect(&self) -> Result<(Wire, Option<String>), RequesterError> {
        let mut wire = self.site.connect()?;
        let (host, user, password) = (&self.host, &self.user, &self.password);
        let frame =
            format!("CONNECT\naccept-version:1.2\nhost:{host}\nlogin:{user}\npasscode:{password}\n\n\0");
        wire.out().extend_from_slice(frame.as_bytes());
        let server = await_frame(&mut wire, "CONNECTED")?;
        let knows = server.starts_with(b"RabbitMQ/") && self.destination.starts_with("/queue/");
        let expiry = (knows && self.expires_s > 0).then(|| format!("x-expires:{}\n", self.expires_s * 1000));
        Ok((wire, expiry))
    }

    fn subscribe(&self) -> Result<Wire, RequesterError> {
        let (mut subscriber, expiry) = self.connect()?;
        let (destination, expiry) = (&self.destination, expiry.unwrap_or_default());
        let frame = format!("SUBSCRIBE\nid:0\ndestination:{destination}\nack:auto\n{expiry}receipt:1\n\n\0");
        subscriber.out().extend_from_slice(frame.as_bytes());
        await_frame(&mut subscriber, "RECEIPT")?;
        Ok(subscriber)
    }
}

/// Parses one frame. Also returns its size. `None` if it is not complete.
fn parse(data: &[u8]) -> Result<Option<(Frame<'_>, usize)>, &'static str> {
    // Line ends between frames are heartbeats.
    let begin = data.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    let Some((command, used)) = line(&data[begin..]) else { return Ok(None) };
    if !matches!(command, b"CONNECTED" | b"MESSAGE" | b"RECEIPT" | b"ERROR") {
        return Err("CONNECTED, MESSAGE, RECEIPT or ERROR");
    }
    let (mut at, mut length, mut receipt) = (begin + used, None, None);
    let (mut message, mut server) = (None, None);
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
        // If a header is repeated, the first one counts.
        length = length.or_else(|| number(b"content-length:"));
        receipt = receipt.or_else(|| number(b"receipt-id:"));
        message = message.or_else(|| header.strip_prefix(b"message:"));
        server = server.or_else(|| header.strip_prefix(b"server:"));
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
        Some(0) => Ok(Some((Frame { command, receipt, server, message, body: &data[at..end] }, end + 1))),
        Some(_) => Err("a zero after the body"),
    }
}

/// Waits for a frame. Returns the server's name.
fn await_frame(wire: &mut Wire, awaited: &'static str) -> Result<Vec<u8>, RequesterError> {
    let address = wire.address().to_owned();
    wire.wait_for("setting up", |data| {
        let wrong = |expected| wrong(&address, expected, data);
        match parse(data).map_err(wrong)? {
            None => Ok(None),
            Some((frame, used)) if frame.command == awaited.as_bytes() => {
                Ok(Some((frame.server.unwrap_or_default().to_vec(), used)))
            }
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
        let (mut wires, mut expiry) = (std::mem::take(&mut self.wires), None);
        let publish = || {
            let (wire, found) = self.connect()?;
            expiry = found;
            Ok(wire)
        };
        let made = wires.connect(|| self.subscribe(), publish);
        (self.wires, self.expiry) = (wires, expiry);
        made
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.wires.room_for(payload.len() + 256) else {
            return Ok(Handed::Full);
        };
        out.extend_from_slice(b"SEND\ndestination:");
        out.extend_from_slice(self.destination.as_bytes());
        out.push(b'\n');
        if let Some(expiry) = self.expiry.take() {
            out.extend_from_slice(expiry.as_bytes());
        }
        out.extend_from_slice(b"receipt:");
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
        // STOMP cannot delete a queue: see above.
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
        assert_eq!(
            first,
            Frame { command: b"CONNECTED", receipt: None, server: None, message: None, body: b"" }
        );
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
