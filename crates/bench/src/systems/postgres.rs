//! PostgreSQL's LISTEN and NOTIFY: a publisher and a subscriber, each with its own connection, and a channel
//! of their own.
//!
//! Each message is a NOTIFY in a transaction of its own. The end of the query is the acknowledgement.
//! PostgreSQL accepts text of less than 8,000 bytes, so payloads are sent as Base64 and have at most 5,999
//! bytes. Settings: `user` (default `postgres`), `password`, `database` (default: the user's name),
//! `synchronous_commit` (default: the server's). `postgres_wire` lists the supported kinds of authentication.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::Role;
use super::names;
use super::pair::Pair;
use super::postgres_wire::{self, Login, ask, complaint, kind, notified, parse, push};
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, refused};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

/// Largest payload: 7,999 bytes as Base64 without padding, one less than PostgreSQL's limit.
const PAYLOAD_BYTES_MAX: usize = 5_999;

pub(super) struct Postgres {
    site: Site,
    channel: String,
    login: Login,
    wires: Pair,
    unanswered: VecDeque<u64>,
    /// The server's error about a query that has not ended yet.
    complaint: Option<String>,
    decoded: Vec<u8>,
}

impl Postgres {
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        payload_bytes: usize,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(RequesterError::Unsupported(format!(
                "messages of {payload_bytes} bytes are too large for NOTIFY: expected at most {PAYLOAD_BYTES_MAX}, \
                 which are 7,999 bytes of Base64"
            )));
        }
        let user = settings.take("user").unwrap_or_else(|| "postgres".to_owned());
        let database = settings.take("database").unwrap_or_else(|| user.clone());
        let parameters = settings.take("synchronous_commit").map(|value| ("synchronous_commit", value));
        let login = Login {
            user,
            password: settings.take("password").unwrap_or_default(),
            database,
            parameters: parameters.into_iter().collect(),
        };
        let texts = [&login.user, &login.database, &login.password];
        if texts
            .into_iter()
            .chain(login.parameters.iter().map(|(_, value)| value))
            .any(|text| text.contains('\0'))
        {
            return Err(RequesterError::Unsupported("a setting of postgres holds a zero byte".to_owned()));
        }
        Ok(Self {
            site,
            channel: names::dotted(name),
            login,
            wires: Pair::with_role(role),
            unanswered: VecDeque::new(),
            complaint: None,
            decoded: Vec::new(),
        })
    }

    fn take_answers(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let (unanswered, complained) = (&mut self.unanswered, &mut self.complaint);
        let Some(wire) = &mut self.wires.publisher else { return Ok(()) };
        messages(wire, clock, |now, kind, body| {
            match kind {
                kind::ERROR => *complained = Some(complaint(body).text),
                kind::READY => {
                    let sequence = unanswered.pop_front()?;
                    match complained.take() {
                        Some(reason) => sink.refused(now, sequence, &reason),
                        None => sink.acknowledged(now, sequence),
                    }
                }
                _ => {}
            }
            Some(())
        })
    }

    fn take_messages(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let decoded = &mut self.decoded;
        let Some(wire) = &mut self.wires.subscriber else { return Ok(()) };
        messages(wire, clock, |now, kind, body| {
            if kind == kind::NOTIFICATION {
                let text = notified(body)?;
                decoded.clear();
                match STANDARD_NO_PAD.decode_vec(text, decoded) {
                    Ok(()) => sink.payload(now, decoded),
                    // It is not what was sent, so it counts as corrupt.
                    Err(_) => sink.payload(now, text),
                }
            }
            Some(())
        })
    }
}

/// Reads what has come, message by message. `on_message` returns `None` for a message that must not come
/// here.
fn messages(
    wire: &mut Wire,
    clock: &dyn Clock,
    mut on_message: impl FnMut(u64, u8, &[u8]) -> Option<()>,
) -> Result<(), RequesterError> {
    wire.take_apart(clock, |heard| {
        let Some((kind, body, bytes)) = parse(heard.data).map_err(|expected| heard.wrong(expected))? else {
            return Ok(None);
        };
        if kind == kind::ERROR && complaint(body).is_fatal {
            return Err(refused(heard.address, complaint(body).text.as_bytes()));
        }
        on_message(heard.at_ns, kind, body).ok_or_else(|| heard.wrong("an answer to a query"))?;
        Ok(Some(bytes))
    })
}

impl Requester for Postgres {
    fn expects(&self) -> Expects {
        self.wires.expects(Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.unanswered.clear();
        self.complaint = None;
        let connect = || postgres_wire::connect(&self.site, &self.login);
        let subscribe = || {
            let mut subscriber = connect()?;
            ask(&mut subscriber, &format!("LISTEN \"{}\"", self.channel))?;
            Ok(subscriber)
        };
        self.wires.connect(subscribe, connect)
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let text_bytes = payload.len().div_ceil(3) * 4;
        let Some(out) = self.wires.room_for(text_bytes + 64) else {
            return Ok(Handed::Full);
        };
        push(out, b'Q', |out| {
            out.extend_from_slice(b"NOTIFY \"");
            out.extend_from_slice(self.channel.as_bytes());
            out.extend_from_slice(b"\", '");
            let begin = out.len();
            out.resize(begin + text_bytes, 0);
            let written = STANDARD_NO_PAD.encode_slice(payload, &mut out[begin..]).unwrap_or(0);
            out.truncate(begin + written);
            out.extend_from_slice(b"'\0");
        });
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
        // A channel disappears with its last listener.
        for mut wire in [self.wires.publisher.take(), self.wires.subscriber.take()].into_iter().flatten() {
            push(wire.out(), b'X', |_| {});
            // It does not matter if the server has left already.
            let _ = wire.flush();
        }
        Ok(())
    }
}
