//! Systems without a server: the harness holds both ends of a TCP connection, with nothing in between.
//!
//! There are three patterns (`--set pattern=`): `push-pull` (the default), `pub-sub`, and `request`, where
//! the other end sends each payload back. Where a library would drop messages of a publisher whose socket is
//! full, these wait: nothing is lost.
//!
//! Without an address both ends are ours, on a free port of this machine. With one, requests go to a server
//! there, which must answer with the payload that it got. In the other patterns the sending end connects
//! there and the receiving end waits at `--set listen=`, for an intermediary (a proxy, a forwarder) to
//! connect.

use std::io;
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::settings::Settings;
use super::wire::{SETUP_TIMEOUT, Wire, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink, request_and_wait};

/// Most bytes of framing and handshake around a payload.
const FRAMING_BYTES_MAX: usize = 64;

/// Largest message with a payload; a longer one is not ours.
pub(super) const MESSAGE_BYTES_MAX: u64 = (crate::payload::PAYLOAD_BYTES_MAX + FRAMING_BYTES_MAX) as u64;

/// Time for a message through a publisher that may have dropped it.
const TRY_NS: u64 = 500_000_000;

/// The role of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Push,
    Pull,
    Publish,
    Subscribe,
    Ask,
    Answer,
}

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// The id of the request, or of the request that it answers.
    pub(super) id: u32,
    pub(super) payload: &'a [u8],
}

/// A complete message, and its size. The message is `None` if it is only part of the protocol.
pub(super) type Parsed<'a> = (Option<Message<'a>>, usize);

/// The wire format of a system.
pub(super) trait Protocol: Send {
    /// Steps of the handshake. In each, both ends send, then receive.
    const STEPS: usize;

    /// Appends what an end sends in a step.
    fn push_hello(step: usize, role: Role, out: &mut Vec<u8>);

    /// The number of bytes of `data` that form the other end's greeting to `role` in this step. `None` if it
    /// is not complete.
    fn check_hello(step: usize, role: Role, data: &[u8]) -> Result<Option<usize>, &'static str>;

    /// Appends a message.
    fn push(role: Role, id: u32, payload: &[u8], out: &mut Vec<u8>);

    /// Parses data received by `role`. `None` if it is not complete.
    fn parse(role: Role, data: &[u8]) -> Result<Option<Parsed<'_>>, &'static str>;
}

/// Where the two ends are.
#[derive(Debug)]
enum Ends {
    /// Both are ours.
    Here,
    /// A server that answers requests.
    Server(String),
    /// The receiving end listens, and the sending end connects to an intermediary.
    Apart { address: String, listen: String },
}

pub(super) struct Brokerless<P> {
    ends: Ends,
    sending: Role,
    receiving: Role,
    sender: Option<Wire>,
    receiver: Option<Wire>,
    answers: Vec<u8>,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Brokerless<P> {
    pub(super) fn new(
        address: Option<&str>,
        connections: u32,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        let unsupported = |reason: String| Err(RequesterError::Unsupported(reason));
        let (sending, receiving) = match settings.take("pattern").as_deref() {
            None | Some("push-pull") => (Role::Push, Role::Pull),
            Some("pub-sub") => (Role::Publish, Role::Subscribe),
            Some("request") => (Role::Ask, Role::Answer),
            Some(other) => {
                return unsupported(format!(
                    "pattern={other} is unknown: expected push-pull, pub-sub or request"
                ));
            }
        };
        let ends = match (address.map(str::to_owned), settings.take("listen")) {
            (None, None) => Ends::Here,
            (Some(address), None) if sending == Role::Ask => Ends::Server(address),
            (_, Some(listen)) if sending == Role::Ask => {
                return unsupported(format!("listen={listen} cannot be combined with pattern=request"));
            }
            (Some(address), Some(listen)) if connections == 1 => Ends::Apart { address, listen },
            (Some(_), Some(listen)) => {
                return unsupported(format!(
                    "listen={listen} is one port: expected 1 connection, not {connections}"
                ));
            }
            (Some(address), None) => {
                return unsupported(format!(
                    "messages sent to {address} come back nowhere: expected --set listen=HOST:PORT, for the program \
                     there to connect to, or no address"
                ));
            }
            (None, Some(listen)) => {
                return unsupported(format!("listen={listen} requires an address to send messages to"));
            }
        };
        let (sender, receiver, answers) = (None, None, Vec::new());
        Ok(Self { ends, sending, receiving, sender, receiver, answers, protocol: PhantomData })
    }

    fn connect(&mut self) -> Result<(), RequesterError> {
        let listen = match &self.ends {
            Ends::Server(address) => {
                self.sender = Some(Wire::connect(address)?);
                return Ok(());
            }
            Ends::Here => "127.0.0.1:0",
            Ends::Apart { listen, .. } => listen,
        };
        let failed = |error| RequesterError::Listen { address: listen.to_owned(), error };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?.to_string();
        let address = if let Ends::Apart { address, .. } = &self.ends { address } else { &local };
        self.sender = Some(Wire::connect(address)?);
        let stream = accept(&listener).map_err(failed)?.ok_or_else(|| RequesterError::Timeout {
            address: address.clone(),
            timeout_ms: SETUP_TIMEOUT.as_millis() as u64,
            doing: "it should have connected to the receiving end",
        })?;
        self.receiver = Some(Wire::of(stream, &local)?);
        Ok(())
    }

    fn shake_hands(&mut self) -> Result<(), RequesterError> {
        let roles = [(self.sending, &mut self.sender), (self.receiving, &mut self.receiver)];
        let mut ends: Vec<_> =
            roles.into_iter().filter_map(|(role, wire)| Some((role, wire.as_mut()?))).collect();
        for step in 0..P::STEPS {
            for (role, wire) in &mut ends {
                P::push_hello(step, *role, wire.out());
                wire.flush()?;
            }
            for (role, wire) in &mut ends {
                let address = wire.address().to_owned();
                wire.wait_for("shaking hands", |data| {
                    let used = P::check_hello(step, *role, data);
                    Ok(used.map_err(|expected| wrong(&address, expected, data))?.map(|used| ((), used)))
                })?;
            }
        }
        Ok(())
    }

    fn take_answers(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let role = self.sending;
        let Some(wire) = &mut self.sender else { return Ok(()) };
        messages::<P>(wire, role, clock, |now, message| {
            if role == Role::Ask {
                sink.payload(now, message.payload);
            }
        })
    }

    fn take_messages(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let (role, answers) = (self.receiving, &mut self.answers);
        let Some(wire) = &mut self.receiver else { return Ok(()) };
        // Answers must not pile up if the other end does not read them.
        if wire.room_for(0).is_some() {
            messages::<P>(wire, role, clock, |now, message| {
                if role == Role::Answer {
                    P::push(role, message.id, message.payload, answers);
                } else {
                    sink.payload(now, message.payload);
                }
            })?;
            wire.out().append(answers);
        }
        wire.flush()
    }
}

/// Waits for a connection. `None` if none comes.
fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    let timeout = Timespec { tv_sec: SETUP_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)], Some(&timeout))?;
    if ready == 0 {
        return Ok(None);
    }
    Ok(Some(listener.accept()?.0))
}

/// Reads what has come, message by message.
fn messages<P: Protocol>(
    wire: &mut Wire,
    role: Role,
    clock: &dyn Clock,
    mut on_message: impl FnMut(u64, Message<'_>),
) -> Result<(), RequesterError> {
    wire.take_apart(clock, |heard| {
        let parsed = P::parse(role, heard.data).map_err(|expected| heard.wrong(expected))?;
        let Some((message, bytes)) = parsed else { return Ok(None) };
        if let Some(message) = message {
            on_message(heard.at_ns, message);
        }
        Ok(Some(bytes))
    })
}

impl<P: Protocol> Requester for Brokerless<P> {
    fn expects(&self) -> Expects {
        let back = if self.sending == Role::Ask { PayloadBack::Reply } else { PayloadBack::Receipt };
        Expects { acknowledgement: false, payload: Some(back) }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        // The other end of a broken connection must see its end before a new one.
        (self.sender, self.receiver) = (None, None);
        self.answers.clear();
        self.connect()?;
        self.shake_hands()
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let bytes = payload.len() + FRAMING_BYTES_MAX;
        let Some(out) = self.sender.as_mut().and_then(|wire| wire.room_for(bytes)) else {
            return Ok(Handed::Full);
        };
        P::push(self.sending, sequence as u32, payload, out);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.sender.as_mut().map_or(Ok(()), Wire::flush)
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        self.take_messages(clock, sink)?;
        self.take_answers(clock, sink)
    }

    fn readiness(&self) -> Readiness<'_> {
        let Some(sender) = &self.sender else { return Readiness::At(u64::MAX) };
        Readiness::Sockets(sender.watched(), self.receiver.as_ref().map(Wire::watched))
    }

    fn request(
        &mut self,
        sequence: u64,
        payload: &[u8],
        clock: &dyn Clock,
        timeout_ns: u64,
    ) -> Result<u64, RequesterError> {
        // A publisher between the ends drops messages until it knows its subscriber, and may not report when
        // it does.
        let is_dropped = self.sending == Role::Publish && matches!(self.ends, Ends::Apart { .. });
        let tries = if is_dropped { (timeout_ns / TRY_NS).max(1) } else { 1 };
        for _ in 1..tries {
            match request_and_wait(self, sequence, payload, clock, TRY_NS) {
                Err(RequesterError::Timeout { .. }) => {}
                found => return found,
            }
        }
        request_and_wait(self, sequence, payload, clock, timeout_ns / tries)
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        (self.sender, self.receiver) = (None, None);
        Ok(())
    }
}
