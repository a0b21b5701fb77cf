//! RabbitMQ over AMQP 0.9.1: publisher confirms, and a consumer without acknowledgements, each with its own
//! connection.
//!
//! Messages go through the default exchange to one queue per connection. Settings: `queue` (`classic`,
//! `quorum` or `stream`; default: the server's), `durable` (queue and messages, default true), `expires`
//! (seconds without a consumer after which the server deletes the queue, if the run has not; default 60, 0:
//! never; not for streams), `user`, `password`, `vhost`, and those of TLS. The consumer of a stream sends
//! acknowledgements, and goes on from its offset after a reconnect. Heartbeats are off: a dead peer shows up
//! as timeouts.

use std::collections::BTreeMap;

use super::Role;
use super::amqp_wire::{
    Field, Frame, long, method, parse, push_long, push_method, push_publish, push_short, push_table,
};
use super::names;
use super::pair::Pair;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

/// `capabilities: {authentication_failure_close: true}`: without it the server closes the connection after a
/// wrong password without an error.
const CLIENT_PROPERTIES: &[u8] = b"\x0CcapabilitiesF\0\0\0\x1F\x1Cauthentication_failure_closet\x01";

/// Unacknowledged messages of a stream that the server may send.
const UNACKNOWLEDGED_MAX: u16 = 2_000;

/// The type of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The server's default.
    Default,
    Classic,
    Quorum,
    Stream,
}

impl Kind {
    fn take(settings: &mut Settings) -> Result<Self, RequesterError> {
        match settings.take("queue").as_deref() {
            None => Ok(Self::Default),
            Some("classic") => Ok(Self::Classic),
            Some("quorum") => Ok(Self::Quorum),
            Some("stream") => Ok(Self::Stream),
            Some(other) => {
                let reason = format!("queue={other} is unknown: expected classic, quorum or stream");
                Err(RequesterError::Unsupported(reason))
            }
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Classic => Some("classic"),
            Self::Quorum => Some("quorum"),
            Self::Stream => Some("stream"),
        }
    }
}

pub(super) struct RabbitMq {
    site: Site,
    queue: String,
    user: String,
    password: String,
    vhost: String,
    durable: bool,
    kind: Kind,
    expires_s: i64,
    wires: Pair,
    /// Messages received: all of a stream's from its first on.
    delivered: i64,
    next_tag: u64,
    /// Sequences of unconfirmed messages, by delivery tag.
    unconfirmed: BTreeMap<u64, u64>,
    /// The partial body of the message being delivered, and its full length.
    body: Vec<u8>,
    body_bytes: usize,
}

impl RabbitMq {
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        let durable = match settings.take("durable").as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(other) => {
                let reason = format!("durable={other} is unknown: expected true or false");
                return Err(RequesterError::Unsupported(reason));
            }
        };
        let kind = Kind::take(settings)?;
        // It is for `bench clean`.
        settings.take("management");
        if !durable && matches!(kind, Kind::Quorum | Kind::Stream) {
            let reason = "durable=false cannot be combined with queue=quorum or stream";
            return Err(RequesterError::Unsupported(reason.to_owned()));
        }
        let expires = settings.take("expires").unwrap_or_else(|| "60".to_owned());
        let expires_s = expires.parse::<u32>().map_err(|_| {
            RequesterError::Unsupported(format!(
                "expires={expires} is unknown: expected seconds, or 0 for never"
            ))
        })?;
        Ok(Self {
            site,
            queue: names::dotted(name),
            user: settings.take("user").unwrap_or_else(|| "guest".to_owned()),
            password: settings.take("password").unwrap_or_else(|| "guest".to_owned()),
            vhost: settings.take("vhost").unwrap_or_else(|| "/".to_owned()),
            durable,
            kind,
            expires_s: i64::from(expires_s),
            wires: Pair::with_role(role),
            delivered: 0,
            next_tag: 1,
            unconfirmed: BTreeMap::new(),
            body: Vec::new(),
            body_bytes: 0,
        })
    }

    /// Connects and opens channel 1.
    fn connect(&self) -> Result<Wire, RequesterError> {
        let mut wire = self.site.connect()?;
        wire.out().extend_from_slice(b"AMQP\0\0\x09\x01");
        await_method(&mut wire, method::CONNECTION_START)?;
        push_method(wire.out(), 0, method::CONNECTION_START_OK, |out| {
            push_long(out, CLIENT_PROPERTIES);
            push_short(out, "PLAIN");
            push_long(out, format!("\0{}\0{}", self.user, self.password).as_bytes());
            push_short(out, "en_US");
        });
        await_method(&mut wire, method::CONNECTION_TUNE)?;
        push_method(wire.out(), 0, method::CONNECTION_TUNE_OK, |out| {
            out.extend_from_slice(&1_u16.to_be_bytes());
            out.extend_from_slice(&(super::amqp_wire::FRAME_BYTES_MAX as u32).to_be_bytes());
            out.extend_from_slice(&0_u16.to_be_bytes());
        });
        push_method(wire.out(), 0, method::CONNECTION_OPEN, |out| {
            push_short(out, &self.vhost);
            out.extend_from_slice(&[0, 0]);
        });
        await_method(&mut wire, method::CONNECTION_OPEN_OK)?;
        push_method(wire.out(), 1, method::CHANNEL_OPEN, |out| push_short(out, ""));
        await_method(&mut wire, method::CHANNEL_OPEN_OK)?;
        Ok(wire)
    }

    fn declare(&self, wire: &mut Wire) -> Result<(), RequesterError> {
        push_method(wire.out(), 1, method::QUEUE_DECLARE, |out| {
            out.extend_from_slice(&[0, 0]);
            push_short(out, &self.queue);
            out.push(if self.durable { 0b10 } else { 0 });
            let kind = self.kind.name().map(|name| ("x-queue-type", Field::Text(name)));
            let expires = self.expires_s > 0 && self.kind != Kind::Stream;
            let expires = expires.then_some(("x-expires", Field::Number(self.expires_s * 1000)));
            push_table(out, &kind.into_iter().chain(expires).collect::<Vec<_>>());
        });
        await_method(wire, method::QUEUE_DECLARE_OK)
    }

    fn consume(&self, wire: &mut Wire) -> Result<(), RequesterError> {
        const WITHOUT_ACKNOWLEDGEMENT: u8 = 0b10;
        let is_stream = self.kind == Kind::Stream;
        if is_stream {
            push_method(wire.out(), 1, method::BASIC_QOS, |out| {
                out.extend_from_slice(&[0; 4]);
                out.extend_from_slice(&UNACKNOWLEDGED_MAX.to_be_bytes());
                out.push(0);
            });
            await_method(wire, method::BASIC_QOS_OK)?;
        }
        push_method(wire.out(), 1, method::BASIC_CONSUME, |out| {
            out.extend_from_slice(&[0, 0]);
            push_short(out, &self.queue);
            push_short(out, "");
            out.push(if is_stream { 0 } else { WITHOUT_ACKNOWLEDGEMENT });
            let offset = is_stream.then_some(("x-stream-offset", Field::Number(self.delivered)));
            push_table(out, offset.as_slice());
        });
        await_method(wire, method::BASIC_CONSUME_OK)
    }

    fn take_confirms(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.wires.publisher else { return Ok(()) };
        let unconfirmed = &mut self.unconfirmed;
        frames(wire, clock, |now, frame| {
            let Frame::Method(name @ (method::BASIC_ACK | method::BASIC_NACK), arguments) = frame else {
                return;
            };
            let Some(tag) = long(arguments) else { return };
            let several = arguments.get(8).is_some_and(|bits| bits & 1 != 0);
            let mut settle = |sequence| match name {
                method::BASIC_ACK => sink.acknowledged(now, sequence),
                _ => sink.refused(now, sequence, "not confirmed"),
            };
            if several {
                let later = unconfirmed.split_off(&(tag + 1));
                std::mem::replace(unconfirmed, later).into_values().for_each(settle);
            } else if let Some(sequence) = unconfirmed.remove(&tag) {
                settle(sequence);
            }
        })
    }

    fn take_messages(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.wires.subscriber else { return Ok(()) };
        let (body, body_bytes) = (&mut self.body, &mut self.body_bytes);
        let (delivered, mut last_tag) = (&mut self.delivered, None);
        frames(wire, clock, |now, frame| match frame {
            Frame::Method(method::BASIC_DELIVER, arguments) => {
                body.clear();
                last_tag = delivery_tag(arguments);
            }
            Frame::Header(length) => *body_bytes = length as usize,
            // Most messages are one frame, and need no copy.
            Frame::Body(part) if body.is_empty() && part.len() == *body_bytes => {
                *delivered += 1;
                sink.payload(now, part);
            }
            Frame::Body(part) => {
                body.extend_from_slice(part);
                if body.len() >= *body_bytes {
                    *delivered += 1;
                    sink.payload(now, body);
                    body.clear();
                }
            }
            _ => {}
        })?;
        if let Some(tag) = last_tag.filter(|_| self.kind == Kind::Stream) {
            push_method(wire.out(), 1, method::BASIC_ACK, |out| {
                out.extend_from_slice(&tag.to_be_bytes());
                // Acknowledges all earlier ones, too.
                out.push(1);
            });
        }
        wire.flush()
    }
}

/// The delivery tag in Basic.Deliver. It follows the consumer's name.
fn delivery_tag(arguments: &[u8]) -> Option<u64> {
    long(arguments.get(1 + usize::from(*arguments.first()?)..)?)
}

/// Waits for a method. The server may close the connection or channel instead.
fn await_method(wire: &mut Wire, awaited: (u16, u16)) -> Result<(), RequesterError> {
    let address = wire.address().to_owned();
    loop {
        let found = wire.wait_for("setting up", |data| {
            match parse(data).map_err(|expected| wrong(&address, expected, data))? {
                None => Ok(None),
                Some((Frame::Method(name, arguments), used)) => {
                    refusal(&address, name, arguments).map_or(Ok(Some((name, used))), Err)
                }
                Some((_, used)) => Ok(Some(((0, 0), used))),
            }
        })?;
        if found == awaited {
            return Ok(());
        }
    }
}

/// The server's reason for closing the connection or channel.
fn refusal(address: &str, name: (u16, u16), arguments: &[u8]) -> Option<RequesterError> {
    if name != method::CONNECTION_CLOSE && name != method::CHANNEL_CLOSE {
        return None;
    }
    let length = usize::from(arguments.get(2).copied().unwrap_or(0));
    let text = String::from_utf8_lossy(arguments.get(3..3 + length).unwrap_or_default()).into_owned();
    Some(RequesterError::Unsupported(format!("{address} says {text}")))
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
        if let Frame::Method(name, arguments) = &frame
            && let Some(refusal) = refusal(heard.address, *name, arguments)
        {
            return Err(refusal);
        }
        on_frame(heard.at_ns, frame);
        Ok(Some(bytes))
    })
}

impl Requester for RabbitMq {
    fn expects(&self) -> Expects {
        self.wires.expects(Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        // Tags count from 1 on each channel.
        self.next_tag = 1;
        self.unconfirmed.clear();
        self.body.clear();
        let mut wires = std::mem::take(&mut self.wires);
        let subscribe = || {
            let mut subscriber = self.connect()?;
            self.declare(&mut subscriber)?;
            self.consume(&mut subscriber)?;
            Ok(subscriber)
        };
        let publish = || {
            let mut publisher = self.connect()?;
            push_method(publisher.out(), 1, method::CONFIRM_SELECT, |out| out.push(0));
            await_method(&mut publisher, method::CONFIRM_SELECT_OK)?;
            Ok(publisher)
        };
        let made = wires.connect(subscribe, publish);
        self.wires = wires;
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
        push_publish(out, &self.queue, self.durable, payload);
        self.unconfirmed.insert(self.next_tag, sequence);
        self.next_tag += 1;
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.wires.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        self.take_messages(clock, sink)?;
        self.take_confirms(clock, sink)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wires.readiness()
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.wires.close();
        if !self.wires.role.subscribes() {
            return Ok(());
        }
        let mut wire = self.connect()?;
        push_method(wire.out(), 1, method::QUEUE_DELETE, |out| {
            out.extend_from_slice(&[0, 0]);
            push_short(out, &self.queue);
            out.push(0);
        });
        await_method(&mut wire, method::QUEUE_DELETE_OK)
    }
}
