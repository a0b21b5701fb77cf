//! The requests of one connection, from its session to the tasks that answer them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailrace_env::time::Instant;
use tailrace_jetstream::api::{Answer, REQUIRED_LEVEL_HEADER, Request, Success};
use tailrace_jetstream::error::ErrorKind;
use tailrace_nats_wire::Message;
use tailrace_node::Caller;

use super::acks::{self, AckCall, AckCalls};
use super::flow::{self, FlowCall};
use super::header::{status, value_of};
use super::queue::Place;
use super::shared::JetStream;
use crate::account::Account;
use crate::auth::Permissions;
use crate::client::Client;
use crate::counted::Counted;

/// The subjects of the API.
const PREFIX: &[u8] = b"$JS.API.";

/// Bytes of memory that a waiting request takes besides its texts.
const REQUEST_BYTES: usize = 256;

/// What waits to be carried out.
pub(crate) enum ApiCall {
    /// A request.
    Request(Box<RequestCall>),
    /// Acknowledgements.
    Acks(AckCalls),
    /// An answer to a request of flow control.
    Flow(FlowCall),
}

/// A request that waits for its answer.
pub(crate) struct RequestCall {
    pub(super) account: Arc<Account>,
    pub(super) caller: Caller,
    /// What its subjects may be, where users have permissions.
    pub(super) permissions: Option<Arc<Permissions>>,
    pub(super) subject: Box<str>,
    pub(super) came: Instant,
    /// Requests without one are carried out, too.
    pub(super) reply: Option<Box<[u8]>>,
    /// The level of the API that the client needs.
    pub(super) level: Option<Box<str>>,
    pub(super) body: Box<[u8]>,
    /// Whether the client wants to hear that nobody listens.
    pub(super) wants_no_responders: bool,
    places: Option<Places>,
}

struct Places {
    _place: Place,
    _of_connection: Counted,
}

impl RequestCall {
    /// Gives its place to others. What it does now has bounds of its own.
    pub(super) fn leave_queue(&mut self) {
        self.places = None;
    }
}

/// The requests of one connection.
#[derive(Default)]
pub(crate) struct Requests {
    waiting: Vec<ApiCall>,
    acks: Option<AckCalls>,
    of_connection: Arc<AtomicUsize>,
}

/// What became of a message.
pub(crate) enum Taken {
    /// It is no request.
    Not,
    /// It is one, or is ignored as nats-server ignores it.
    Done,
    /// Too many requests wait.
    TooMany(TooMany),
}

/// The answer to a request for which there is no place. Clients try again when they get it.
pub(crate) struct TooMany {
    /// The block of a direct get, whose answers are messages.
    pub(crate) headers: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
}

impl Requests {
    /// Takes a message, if it is a request.
    pub(crate) fn take(
        &mut self,
        jetstream: &JetStream,
        account: &Arc<Account>,
        client: &Client,
        message: &Message<'_>,
    ) -> Taken {
        if message.subject.starts_with(acks::PREFIX) {
            return self.take_ack(jetstream, account, client, message);
        }
        if message.subject.starts_with(flow::PREFIX) {
            return self.take_flow(jetstream, account, client, message);
        }
        if !message.subject.starts_with(PREFIX) {
            return Taken::Not;
        }
        let subject = std::str::from_utf8(message.subject).ok();
        // As with nats-server, whatever is below `$JS.API` has a responder, even if it says nothing.
        let Some((subject, request)) = subject.and_then(|text| Some((text, Request::parse(text, None)?)))
        else {
            return Taken::Done;
        };
        let size = message.subject.len() + message.reply.map_or(0, <[u8]>::len) + message.payload.len();
        let queue = &jetstream.queue;
        let is_full = self.of_connection.load(Ordering::Relaxed) >= queue.of_connection_max();
        let place = queue.place((size + REQUEST_BYTES) as u64).filter(|_| !is_full);
        let Some(place) = place else {
            jetstream.count(true);
            return Taken::TooMany(TooMany::of(&request));
        };
        let level = message.headers.and_then(|block| value_of(block, REQUIRED_LEVEL_HEADER));
        self.waiting.push(ApiCall::Request(Box::new(RequestCall {
            account: Arc::clone(account),
            caller: client.caller(),
            permissions: client.permissions().cloned(),
            subject: subject.into(),
            came: Instant::now(),
            reply: message.reply.map(Into::into),
            level: level.map(Into::into),
            body: message.payload.into(),
            wants_no_responders: client.said().is_some_and(|said| said.no_responders),
            places: Some(Places { _place: place, _of_connection: Counted::new(&self.of_connection) }),
        })));
        Taken::Done
    }

    /// Takes an acknowledgement. One for which there is no room is dropped: its message comes again.
    fn take_ack(
        &mut self,
        jetstream: &JetStream,
        account: &Arc<Account>,
        client: &Client,
        message: &Message<'_>,
    ) -> Taken {
        let Some(ack) = AckCall::read(message) else { return Taken::Not };
        let bytes = AckCall::bytes(message);
        let is_taken = match &mut self.acks {
            Some(acks) => acks.add(ack, bytes),
            none => {
                let place = jetstream.queue.place(bytes);
                *none = place.map(|place| AckCalls::new(account, client, ack, place));
                none.is_some()
            }
        };
        if !is_taken {
            jetstream.count(true);
        }
        Taken::Done
    }

    /// Takes an answer to a request of flow control. The next heartbeat repeats the request for one that is
    /// dropped.
    fn take_flow(
        &mut self,
        jetstream: &JetStream,
        account: &Arc<Account>,
        client: &Client,
        message: &Message<'_>,
    ) -> Taken {
        let Some(place) = jetstream.queue.place(FlowCall::bytes(message)) else {
            jetstream.count(true);
            return Taken::Done;
        };
        let Some(call) = FlowCall::read(account, client.caller(), message, place) else { return Taken::Not };
        self.waiting.push(ApiCall::Flow(call));
        Taken::Done
    }

    /// Takes what nobody carries out yet.
    pub(crate) fn drain(&mut self) -> Vec<ApiCall> {
        self.waiting.extend(self.acks.take().map(ApiCall::Acks));
        std::mem::take(&mut self.waiting)
    }
}

impl TooMany {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let Some(kind) = request.answer_type() else {
            return Self { headers: Some(status("429 Too Many Requests", &[])), payload: Vec::new() };
        };
        let answer: Answer<Success> = Answer::new(kind, Err(ErrorKind::ClusterNotAvail.into()));
        Self { headers: None, payload: serde_json::to_vec(&answer).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{server_in, subscriber};

    fn ack(number: usize) -> String {
        format!("$JS.ACK.S.C.1.{number}.{number}.0.0")
    }

    #[tokio::test]
    async fn acknowledgements_of_a_read_go_together_and_those_without_room_are_dropped_and_counted() {
        let folder = tempfile::TempDir::new().unwrap();
        let settings = [
            ("tailrace.jetstream.enable", "true"),
            ("tailrace.jetstream.api.requests.max", "1"),
            ("tailrace.jetstream.api.bytes.max", "65536"),
        ];
        let (running, server) = server_in(&folder, &settings).await;
        let client = subscriber(&server.front, b"r", None, 1);
        let jetstream = server.front.jetstream().unwrap();
        let (mut requests, account) = (Requests::default(), server.front.accounts().topics());
        let mut take = |number: usize, payload: &[u8]| {
            let subject = ack(number);
            let message = Message { subject: subject.as_bytes(), reply: None, headers: None, payload };
            assert!(matches!(requests.take(jetstream, account, &client, &message), Taken::Done));
            jetstream.api_stats(0).errors
        };
        let place = jetstream.queue.place(1).unwrap();
        assert_eq!(take(1, b""), 1, "no room");
        drop(place);
        assert_eq!((take(2, b""), take(3, b"-NAK")), (1, 1));
        assert_eq!(take(4, &[b' '; 65_536]), 2, "too large for what is left");
        assert_eq!(take(5, b""), 2);
        let mut calls = requests.drain();
        let Some(ApiCall::Acks(acks)) = calls.pop() else { panic!("they are there") };
        assert!(calls.is_empty(), "they go together");
        assert_eq!(acks.sequences(), [2, 3, 5]);
        assert_eq!(jetstream.queue.requests(), 1);
        drop(acks);
        assert_eq!(jetstream.queue.requests(), 0);
        running.stop().await;
    }
}
