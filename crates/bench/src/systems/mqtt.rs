//! MQTT 3.1.1: a publisher and a subscriber, each with its own connection, and a topic of their own.
//!
//! Settings: `qos` (0 or 1, default 1), `user`, `password`, and those of TLS. With QoS 1 PUBACK is the
//! acknowledgement. QoS 2 is not supported. At most 65,535 messages can be unacknowledged, because MQTT
//! packet ids have 16 bits.

use std::collections::VecDeque;

use super::Role;
use super::names;
use super::pair::Pair;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;

/// The failure code in a SUBACK.
const SUBSCRIPTION_REFUSED: u8 = 0x80;

/// Flag of a PUBLISH with QoS 1.
const QOS_1: u8 = 0x02;

pub(super) struct Mqtt {
    site: Site,
    name: String,
    topic: String,
    user: Option<String>,
    password: Option<String>,
    acknowledged: bool,
    wires: Pair,
    /// Packet id and sequence of unacknowledged messages, oldest first.
    unacknowledged: VecDeque<(u16, u64)>,
    next_id: u16,
}

impl Mqtt {
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        let acknowledged = match settings.take("qos").as_deref() {
            None | Some("1") => true,
            Some("0") => false,
            Some(other) => {
                return Err(RequesterError::Unsupported(format!(
                    "qos={other} is not supported: expected 0 or 1"
                )));
            }
        };
        Ok(Self {
            site,
            name: name.replace('.', "-"),
            topic: names::slashed(name),
            user: settings.take("user"),
            password: settings.take("password"),
            acknowledged,
            wires: Pair::with_role(role),
            unacknowledged: VecDeque::new(),
            next_id: 1,
        })
    }

    fn connect(&self, role: &str) -> Result<Wire, RequesterError> {
        let mut wire = self.site.connect()?;
        const CLEAN_SESSION: u8 = 0x02;
        let user = if self.user.is_some() { 0x80 } else { 0 };
        let password = if self.password.is_some() { 0x40 } else { 0 };
        push_packet(wire.out(), CONNECT, |out| {
            push_text(out, "MQTT");
            out.extend_from_slice(&[4, CLEAN_SESSION | user | password, 0, 0]);
            // All servers accept up to 23 characters.
            push_text(out, &format!("b{}{role}", self.name));
            self.user.iter().chain(&self.password).for_each(|text| push_text(out, text));
        });
        let answer = await_packet(&mut wire, CONNACK)?;
        match answer.get(1) {
            Some(0) => Ok(wire),
            Some(code) => Err(RequesterError::Unsupported(format!(
                "{} refuses the connection: {}",
                self.site.address,
                connect_refusal(*code)
            ))),
            None => Err(wire.protocol("a return code", &answer)),
        }
    }

    fn subscribe(&self) -> Result<Wire, RequesterError> {
        let mut subscriber = self.connect("s")?;
        push_packet(subscriber.out(), SUBSCRIBE, |out| {
            out.extend_from_slice(&1_u16.to_be_bytes());
            push_text(out, &self.topic);
            out.push(u8::from(self.acknowledged));
        });
        let granted = await_packet(&mut subscriber, SUBACK)?;
        if granted.get(2) == Some(&SUBSCRIPTION_REFUSED) {
            let (address, topic) = (&self.site.address, &self.topic);
            let reason = format!("{address} refuses the subscription to {topic}");
            return Err(RequesterError::Unsupported(reason));
        }
        if granted.get(2) != Some(&u8::from(self.acknowledged)) {
            return Err(subscriber.protocol("the subscription that was asked for", &granted));
        }
        Ok(subscriber)
    }

    fn take_acknowledgements(
        &mut self,
        clock: &dyn Clock,
        sink: &mut dyn Sink,
    ) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.wires.publisher else { return Ok(()) };
        let waiting = &mut self.unacknowledged;
        packets(wire, clock, |now, kind, body, _| {
            if kind & 0xF0 != PUBACK {
                return Some(());
            }
            let id = u16::from_be_bytes(*body.first_chunk()?);
            // Brokers answer in order, so it is the first one.
            let place = waiting.iter().position(|(waiting, _)| *waiting == id)?;
            let (_, sequence) = waiting.remove(place)?;
            sink.acknowledged(now, sequence);
            Some(())
        })
    }

    fn take_messages(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(wire) = &mut self.wires.subscriber else { return Ok(()) };
        packets(wire, clock, |now, kind, body, out| {
            if kind & 0xF0 != PUBLISH {
                return Some(());
            }
            let topic_bytes = usize::from(u16::from_be_bytes(*body.first_chunk()?));
            let rest = body.get(2 + topic_bytes..)?;
            if kind & 0x06 == 0 {
                sink.payload(now, rest);
                return Some(());
            }
            let (id, payload) = rest.split_first_chunk::<2>()?;
            sink.payload(now, payload);
            push_packet(out, PUBACK, |out| out.extend_from_slice(id));
            Some(())
        })
    }
}

/// The meaning of CONNACK's return code.
fn connect_refusal(code: u8) -> String {
    match code {
        1 => "it does not speak MQTT 3.1.1".to_owned(),
        2 => "identifier rejected".to_owned(),
        3 => "server unavailable".to_owned(),
        4 => "wrong user or password".to_owned(),
        5 => "not authorised".to_owned(),
        other => format!("code {other}"),
    }
}

/// Appends a packet whose body `fill` writes.
fn push_packet(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    fill(out);
    let mut head = [kind, 0, 0, 0, 0];
    let (mut left, mut used) = (out.len() - begin, 1);
    loop {
        head[used] = (left & 0x7F) as u8 | if left > 0x7F { 0x80 } else { 0 };
        left >>= 7;
        used += 1;
        if left == 0 {
            break;
        }
    }
    out.splice(begin..begin, head[..used].iter().copied());
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// First byte and body of a packet, and its size.
type Packet<'a> = (u8, &'a [u8], usize);

/// Parses one packet. `None` if it is not complete.
fn parse(data: &[u8]) -> Result<Option<Packet<'_>>, &'static str> {
    let Some((kind, rest)) = data.split_first() else { return Ok(None) };
    let mut length = 0;
    for (at, byte) in rest.iter().enumerate().take(4) {
        length |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            let begin = at + 2;
            return Ok(data.get(begin..begin + length).map(|body| (*kind, body, begin + length)));
        }
    }
    if rest.len() < 4 { Ok(None) } else { Err("a packet of MQTT") }
}

fn await_packet(wire: &mut Wire, awaited: u8) -> Result<Vec<u8>, RequesterError> {
    let address = wire.address().to_owned();
    wire.wait_for("setting up", |data| {
        let wrong = |expected| wrong(&address, expected, data);
        match parse(data).map_err(wrong)? {
            None => Ok(None),
            Some((kind, body, used)) if kind == awaited => Ok(Some((body.to_vec(), used))),
            Some(_) => Err(wrong("the answer of an MQTT broker")),
        }
    })
}

/// Reads what has come. `on_packet` gets time, first byte, body, and the buffer for answers.
fn packets(
    wire: &mut Wire,
    clock: &dyn Clock,
    mut on_packet: impl FnMut(u64, u8, &[u8], &mut Vec<u8>) -> Option<()>,
) -> Result<(), RequesterError> {
    let mut answers = Vec::new();
    wire.take_apart(clock, |heard| {
        let Some((kind, body, bytes)) = parse(heard.data).map_err(|expected| heard.wrong(expected))? else {
            return Ok(None);
        };
        on_packet(heard.at_ns, kind, body, &mut answers).ok_or_else(|| heard.wrong("a packet of MQTT"))?;
        Ok(Some(bytes))
    })?;
    wire.out().extend_from_slice(&answers);
    wire.flush()
}

impl Requester for Mqtt {
    fn expects(&self) -> Expects {
        self.wires
            .expects(Expects { acknowledgement: self.acknowledged, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.unacknowledged.clear();
        let mut wires = std::mem::take(&mut self.wires);
        let made = wires.connect(|| self.subscribe(), || self.connect("p"));
        self.wires = wires;
        made
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let id = self.next_id;
        if self.unacknowledged.front().is_some_and(|(oldest, _)| *oldest == id) {
            return Ok(Handed::Full);
        }
        let Some(out) = self.wires.room_for(payload.len() + 128) else {
            return Ok(Handed::Full);
        };
        push_packet(out, PUBLISH | if self.acknowledged { QOS_1 } else { 0 }, |out| {
            push_text(out, &self.topic);
            if self.acknowledged {
                out.extend_from_slice(&id.to_be_bytes());
            }
            out.extend_from_slice(payload);
        });
        if self.acknowledged {
            self.unacknowledged.push_back((id, sequence));
            // 0 is not a valid packet id.
            self.next_id = id.checked_add(1).unwrap_or(1);
        }
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.wires.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        self.take_messages(clock, sink)?;
        self.take_acknowledgements(clock, sink)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wires.readiness()
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        // A clean session leaves nothing on the broker.
        self.wires.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_every_length() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_152] {
            let mut out = vec![9];
            push_packet(&mut out, PUBLISH, |out| out.resize(out.len() + length, 5));
            let (kind, body, used) = parse(&out[1..]).unwrap().unwrap();
            assert_eq!((kind, body.len(), used), (PUBLISH, length, out.len() - 1));
            assert_eq!(parse(&out[1..out.len() - 1]).unwrap(), None);
        }
        parse(&[0x30, 0xFF, 0xFF, 0xFF, 0xFF, 1]).unwrap_err();
    }
}
