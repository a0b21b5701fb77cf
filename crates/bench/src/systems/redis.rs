//! Redis: publish/subscribe, streams, and lists. A publisher and a subscriber, each with its own connection.
//!
//! Settings: `password`, `user` (since Redis 6), and those of TLS. The reply to PUBLISH, XADD or LPUSH is the
//! acknowledgement. A list is read with BRPOP, one blocking call after the other, so a message in flight to a
//! connection that breaks is lost. A stream is read with XREAD in the same way, and trimmed to about 100,000
//! entries, so that the server's memory stays bounded.

use std::collections::VecDeque;

use super::Role;
use super::deed::Deed;
use super::names::{self, PREFIX};
use super::pair::Pair;
use super::resp::{Value, parse, push_command};
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, refused, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

/// One of Redis's messaging features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    PublishSubscribe,
    Streams,
    Lists,
}

impl Way {
    /// The feature of this system.
    pub(super) fn of(system: &str) -> Self {
        match system {
            "redis-streams" => Self::Streams,
            "redis-lists" => Self::Lists,
            _ => Self::PublishSubscribe,
        }
    }
}

pub(super) struct Redis {
    site: Site,
    login: Login,
    key: String,
    way: Way,
    wires: Pair,
    unanswered: VecDeque<u64>,
    last_id: Vec<u8>,
    /// Whether this run has emptied its own stream or list of an earlier run's leftovers.
    is_emptied: bool,
}

/// The credentials. Without a password there is no login.
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Login {
    pub(super) fn take(settings: &mut Settings) -> Result<Self, RequesterError> {
        let login = Self { user: settings.take("user"), password: settings.take("password") };
        if login.user.is_some() && login.password.is_none() {
            return Err(RequesterError::Unsupported("user requires password".to_owned()));
        }
        Ok(login)
    }

    /// The AUTH command, with a user (since Redis 6) if there is one.
    pub(super) fn words(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_deref()?;
        Some(
            std::iter::once("AUTH")
                .chain(self.user.as_deref())
                .chain([password])
                .map(str::as_bytes)
                .collect(),
        )
    }
}

impl Redis {
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        way: Way,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        Ok(Self {
            site,
            login: Login::take(settings)?,
            key: names::dotted(name),
            way,
            wires: Pair::with_role(role),
            unanswered: VecDeque::new(),
            last_id: b"0".to_vec(),
            is_emptied: false,
        })
    }

    /// Connects and sends a first command.
    fn connect(&self, words: &[&[u8]]) -> Result<Wire, RequesterError> {
        let mut wire = self.site.connect()?;
        if let Some(words) = self.login.words() {
            self.ask(&mut wire, &words)?;
        }
        self.ask(&mut wire, words)?;
        Ok(wire)
    }

    /// Sends a command and waits for its reply.
    fn ask(&self, wire: &mut Wire, words: &[&[u8]]) -> Result<(), RequesterError> {
        push_command(wire.out(), words);
        let address = wire.address().to_owned();
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
        let Some(wire) = &mut self.wires.subscriber else { return };
        let key = self.key.as_bytes();
        match self.way {
            Way::PublishSubscribe => {}
            Way::Streams => {
                push_command(wire.out(), &[b"XREAD", b"BLOCK", b"0", b"STREAMS", key, &self.last_id]);
            }
            Way::Lists => push_command(wire.out(), &[b"BRPOP", key, b"0"]),
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
                Way::Lists => {
                    answered = true;
                    popped(&value, heard.at_ns, sink)
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

/// Keys that one SCAN examines.
const SCANNED: &[u8] = b"1000";

/// Lists keys, and deletes the chosen ones.
pub(super) fn left_over(
    site: Site,
    settings: &mut Settings,
    deed: Deed,
    chosen: impl FnOnce(Vec<String>) -> Vec<String>,
) -> Result<Vec<String>, RequesterError> {
    let redis = Redis::new(site, "0.0", Role::Both, Way::Streams, settings)?;
    let mut wire = redis.connect(&[b"PING"])?;
    let (mut cursor, mut names) = (b"0".to_vec(), Vec::new());
    let pattern = format!("{PREFIX}.*");
    loop {
        let words: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", SCANNED];
        push_command(wire.out(), &words);
        let address = wire.address().to_owned();
        cursor = wire.wait_for("listing keys", |data| {
            let wrong = |expected| wrong(&address, expected, data);
            match parse(data).map_err(wrong)? {
                None => Ok(None),
                Some((Value::Error(reason), _)) => Err(refused(&address, reason)),
                Some((value, used)) => {
                    let next = scanned(&value, &mut names).ok_or_else(|| wrong("a cursor and keys"))?;
                    Ok(Some((next, used)))
                }
            }
        })?;
        if cursor == b"0" {
            break;
        }
    }
    // SCAN may return a key twice.
    names.sort_unstable();
    names.dedup();
    let found = chosen(names);
    if deed == Deed::Remove {
        found.iter().try_for_each(|name| redis.ask(&mut wire, &[b"DEL", name.as_bytes()]))?;
    }
    Ok(found)
}

/// `CURSOR [KEY, ...]`.
fn scanned(value: &Value<'_>, names: &mut Vec<String>) -> Option<Vec<u8>> {
    let [cursor, keys] = value.items()? else { return None };
    for key in keys.items()? {
        names.push(String::from_utf8_lossy(key.bulk()?).into_owned());
    }
    Some(cursor.bulk()?.to_vec())
}

/// `message CHANNEL PAYLOAD`.
fn published(value: &Value<'_>, now: u64, sink: &mut dyn Sink) -> Option<()> {
    let items = value.items()?;
    if items.first()?.bulk()? == b"message" {
        sink.payload(now, items.get(2)?.bulk()?);
    }
    Some(())
}

/// `KEY PAYLOAD`.
fn popped(value: &Value<'_>, now: u64, sink: &mut dyn Sink) -> Option<()> {
    sink.payload(now, value.items()?.get(1)?.bulk()?);
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
            Way::Streams | Way::Lists if self.is_emptied => b"EXISTS",
            Way::Streams | Way::Lists => b"DEL",
        };
        let made = wires.connect(|| self.connect(&[verb, self.key.as_bytes()]), || self.connect(&[b"PING"]));
        self.wires = wires;
        made?;
        self.is_emptied = true;
        self.read_on();
        self.wires.subscriber.as_mut().map_or(Ok(()), Wire::flush)
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
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
            Way::Lists => push_command(out, &[b"LPUSH", key, payload]),
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
        if self.way != Way::PublishSubscribe && self.wires.role.subscribes() {
            self.connect(&[b"DEL", self.key.as_bytes()])?;
        }
        Ok(())
    }
}
