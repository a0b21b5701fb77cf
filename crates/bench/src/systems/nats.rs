//! NATS core, fire and forget: a publisher and a subscriber, each with its own connection, and a subject of
//! their own.

use super::Role;
use super::names;
use super::nats_login::Login;
use super::nats_wire::{self, Said, parse, push_number, synchronise};
use super::pair::Pair;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, refused};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

pub(super) struct Nats {
    site: Site,
    login: Login,
    subject: String,
    wires: Pair,
}

impl Nats {
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        let login = Login::take(&site, settings)?;
        Ok(Self { site, login, subject: names::dotted(name), wires: Pair::with_role(role) })
    }
}

impl Requester for Nats {
    fn expects(&self) -> Expects {
        self.wires.expects(Expects { acknowledgement: false, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        let connect = || nats_wire::connect(&self.site, &self.login);
        let subscribe = || {
            let mut subscriber = connect()?;
            subscriber.out().extend_from_slice(format!("SUB {} 1\r\n", self.subject).as_bytes());
            synchronise(&mut subscriber, "subscribing")?;
            Ok(subscriber)
        };
        self.wires.connect(subscribe, connect)
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
        true
    }

    fn publish(&mut self, _sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.wires.room_for(payload.len() + 64) else {
            return Ok(Handed::Full);
        };
        push_message(out, self.subject.as_bytes(), None, payload);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.wires.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        if let Some(wire) = &mut self.wires.subscriber {
            listen(wire, clock, |at_ns, _, payload, _| sink.payload(at_ns, payload))?;
        }
        if let Some(wire) = &mut self.wires.publisher {
            listen(wire, clock, |_, _, _, _| {})?;
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wires.readiness()
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.wires.close();
        Ok(())
    }
}

/// Appends a PUB.
pub(super) fn push_message(out: &mut Vec<u8>, subject: &[u8], reply: Option<(&[u8], u64)>, payload: &[u8]) {
    out.extend_from_slice(b"PUB ");
    out.extend_from_slice(subject);
    if let Some((inbox, number)) = reply {
        out.push(b' ');
        out.extend_from_slice(inbox);
        push_number(out, number);
    }
    out.push(b' ');
    push_number(out, payload.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// Reads what has come. Calls `on_message` with time, subject, payload and status, and answers pings.
pub(super) fn listen(
    wire: &mut Wire,
    clock: &dyn Clock,
    mut on_message: impl FnMut(u64, &[u8], &[u8], Option<&[u8]>),
) -> Result<(), RequesterError> {
    let mut pings = 0;
    wire.take_apart(clock, |heard| {
        let Some((said, bytes)) = parse(heard.data).map_err(|expected| heard.wrong(expected))? else {
            return Ok(None);
        };
        match said {
            Said::Message { subject, payload, status } => on_message(heard.at_ns, subject, payload, status),
            Said::Ping => pings += 1,
            Said::Error(reason) => return Err(refused(heard.address, reason)),
            Said::Pong | Said::Info(_) | Said::Nothing => {}
        }
        Ok(Some(bytes))
    })?;
    for _ in 0..pings {
        wire.out().extend_from_slice(b"PONG\r\n");
    }
    wire.flush()
}
