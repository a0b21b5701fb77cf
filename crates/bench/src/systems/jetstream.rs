//! JetStream: messages are published to a stream, acknowledged by the server, and delivered by a push
//! consumer without acknowledgements.
//!
//! Each connection has its own stream, which is removed afterwards. It keeps at most five million messages.
//! After a reconnect the new consumer starts after the last message received, so that messages in flight come
//! again.

use super::Role;
use super::names::{self, PREFIX};
use super::nats::{listen, push_message};
use super::nats_login::Login;
use super::nats_wire::{self, Said, parse, synchronise};
use super::pair::Pair;
use super::settings::Settings;
use super::site::Site;
use super::wire::{Wire, wrong};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

pub(super) struct JetStream {
    site: Site,
    login: Login,
    stream: String,
    subject: String,
    inbox: String,
    storage: String,
    wires: Pair,
    /// How often it was set up. Each connection has subjects of its own, so that it receives nothing that
    /// belongs to an earlier one.
    generation: u32,
    /// Messages received: all of the stream's from the first on.
    delivered: u64,
}

impl JetStream {
    pub(super) fn new(
        site: Site,
        name: &str,
        role: Role,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        let storage = settings.take("storage").unwrap_or_else(|| "file".to_owned());
        if storage != "file" && storage != "memory" {
            let reason = format!("storage={storage} is unknown: expected file or memory");
            return Err(RequesterError::Unsupported(reason));
        }
        let login = Login::take(&site, settings)?;
        Ok(Self {
            site,
            login,
            stream: names::dashed(name),
            subject: names::dotted(name),
            inbox: format!("_INBOX.{}.0.", names::dotted(name)),
            storage,
            wires: Pair::with_role(role),
            generation: 0,
            delivered: 0,
        })
    }

    /// Opens a connection for API requests.
    fn asking(&self) -> Result<Asking, RequesterError> {
        Asking::with_inbox(&self.site, &self.login, &self.inbox)
    }

    fn make_stream(&mut self, asking: &mut Asking) -> Result<(), RequesterError> {
        let (stream, subject, storage) = (&self.stream, &self.subject, &self.storage);
        let config = format!(
            "{{\"name\":\"{stream}\",\"subjects\":[\"{subject}\"],\"storage\":\"{storage}\",\"retention\":\"limits\",\
             \"discard\":\"old\",\"max_msgs\":5000000,\"num_replicas\":1}}"
        );
        let answer = asking.ask(&format!("$JS.API.STREAM.CREATE.{stream}"), &config)?;
        // A stream in memory is lost when its server is.
        let lasted = answer["state"]["last_seq"].as_u64().is_some_and(|last| last >= self.delivered);
        if !lasted {
            self.delivered = 0;
        }
        let from = self.delivered + 1;
        let consumer = format!(
            "{{\"stream_name\":\"{stream}\",\"config\":{{\"deliver_subject\":\"{}\",\
             \"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":{from},\"ack_policy\":\"none\",\"max_deliver\":1}}}}",
            self.deliver_subject()
        );
        asking.ask(&format!("$JS.API.CONSUMER.CREATE.{stream}"), &consumer)?;
        Ok(())
    }

    fn deliver_subject(&self) -> String {
        format!("{}.deliver.{}", self.subject, self.generation)
    }
}

/// A connection for requests to the server's API, one after the other.
pub(super) struct Asking {
    wire: Wire,
    inbox: String,
}

impl Asking {
    pub(super) fn new(site: &Site, login: &Login) -> Result<Self, RequesterError> {
        Self::with_inbox(site, login, &format!("_INBOX.{PREFIX}.{}.", std::process::id()))
    }

    /// `inbox` ends in a dot.
    fn with_inbox(site: &Site, login: &Login, inbox: &str) -> Result<Self, RequesterError> {
        let mut wire = nats_wire::connect(site, login)?;
        wire.out().extend_from_slice(format!("SUB {inbox}* 1\r\n").as_bytes());
        synchronise(&mut wire, "subscribing")?;
        Ok(Self { wire, inbox: inbox.to_owned() })
    }

    /// Lists the names of all streams.
    pub(super) fn streams(&mut self) -> Result<Vec<String>, RequesterError> {
        let mut names = Vec::new();
        loop {
            let body = format!("{{\"offset\":{}}}", names.len());
            let answer = self.ask("$JS.API.STREAM.NAMES", &body)?;
            let page = answer["streams"].as_array().map(Vec::as_slice).unwrap_or_default();
            names.extend(page.iter().filter_map(|name| name.as_str().map(str::to_owned)));
            let total = answer["total"].as_u64().unwrap_or(0);
            if page.is_empty() || names.len() as u64 >= total {
                return Ok(names);
            }
        }
    }

    pub(super) fn delete(&mut self, stream: &str) -> Result<(), RequesterError> {
        self.ask(&format!("$JS.API.STREAM.DELETE.{stream}"), "").map(drop)
    }

    /// Sends one request to the server's API, and returns the response, which must not be an error.
    fn ask(&mut self, subject: &str, body: &str) -> Result<serde_json::Value, RequesterError> {
        let Self { wire, inbox } = self;
        let inbox = inbox.as_bytes();
        push_message(wire.out(), subject.as_bytes(), Some((inbox, 0)), body.as_bytes());
        let address = wire.address().to_owned();
        loop {
            let answer = wire.wait_for("setting up a stream", |data| {
                match parse(data).map_err(|expected| wrong(&address, expected, data))? {
                    None => Ok(None),
                    Some((Said::Message { payload, status, .. }, used)) => {
                        if let Some(reason) = complaint(payload, status) {
                            return Err(RequesterError::Unsupported(format!("{subject}: {reason}")));
                        }
                        Ok(Some((Some(serde_json::from_slice(payload).unwrap_or_default()), used)))
                    }
                    Some((_, used)) => Ok(Some((None, used))),
                }
            })?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
}

/// The server's error, if there is one.
fn complaint(payload: &[u8], status: Option<&[u8]>) -> Option<String> {
    if let Some(status) = status {
        return Some(format!("status {}: is JetStream enabled?", String::from_utf8_lossy(status)));
    }
    let text = String::from_utf8_lossy(payload);
    text.contains("\"error\":").then(|| text.chars().take(200).collect())
}

impl Requester for JetStream {
    fn expects(&self) -> Expects {
        self.wires.expects(Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) })
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.generation += 1;
        self.inbox = format!("_INBOX.{}.{}.", self.subject, self.generation);
        self.wires.close();
        if self.wires.role.subscribes() {
            let mut subscriber = nats_wire::connect(&self.site, &self.login)?;
            subscriber.out().extend_from_slice(format!("SUB {} 1\r\n", self.deliver_subject()).as_bytes());
            synchronise(&mut subscriber, "subscribing")?;
            let mut asking = self.asking()?;
            self.make_stream(&mut asking)?;
            self.wires.subscriber = Some(subscriber);
        }
        if self.wires.role.publishes() {
            self.wires.publisher = Some(self.asking()?.wire);
        }
        Ok(())
    }

    fn turn_to(&mut self, address: &str) -> bool {
        address.clone_into(&mut self.site.address);
        true
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(out) = self.wires.room_for(payload.len() + 128) else {
            return Ok(Handed::Full);
        };
        push_message(out, self.subject.as_bytes(), Some((self.inbox.as_bytes(), sequence)), payload);
        Ok(Handed::Taken)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        self.wires.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        if let Some(wire) = &mut self.wires.subscriber {
            let delivered = &mut self.delivered;
            listen(wire, clock, |at_ns, _, payload, _| {
                *delivered += 1;
                sink.payload(at_ns, payload);
            })?;
        }
        let Some(wire) = &mut self.wires.publisher else { return Ok(()) };
        let inbox = self.inbox.as_bytes();
        listen(wire, clock, |at_ns, subject, payload, status| {
            let number = subject.strip_prefix(inbox).and_then(|digits| std::str::from_utf8(digits).ok());
            let Some(sequence) = number.and_then(|digits| digits.parse().ok()) else { return };
            match complaint(payload, status) {
                None => sink.acknowledged(at_ns, sequence),
                Some(reason) => sink.refused(at_ns, sequence, &reason),
            }
        })
    }

    fn readiness(&self) -> Readiness<'_> {
        self.wires.readiness()
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.wires.close();
        if !self.wires.role.subscribes() {
            return Ok(());
        }
        // On a new connection: acknowledgements may still be in flight on the old one.
        self.asking()?.delete(&self.stream)
    }
}
