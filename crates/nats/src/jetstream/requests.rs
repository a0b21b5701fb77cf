//! The requests of one connection, from its session to the tasks that answer them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailrace_env::time::Instant;
use tailrace_jetstream::api::{Answer, REQUIRED_LEVEL_HEADER, Request, Success};
use tailrace_jetstream::error::ErrorKind;
use tailrace_nats_wire::Message;
use tailrace_node::Caller;

use super::header::{status, value_of};
use super::queue::Place;
use super::shared::JetStream;
use crate::account::Account;
use crate::client::Client;
use crate::counted::Counted;

/// The subjects of the API.
const PREFIX: &[u8] = b"$JS.API.";

/// Bytes of memory that a waiting request takes besides its texts.
const REQUEST_BYTES: usize = 256;

/// A request that waits for its answer.
pub(crate) struct ApiCall {
    pub(super) account: Arc<Account>,
    pub(super) caller: Caller,
    pub(super) subject: Box<str>,
    pub(super) came: Instant,
    /// Requests without one are carried out, too.
    pub(super) reply: Option<Box<[u8]>>,
    /// The level of the API that the client needs.
    pub(super) level: Option<Box<str>>,
    pub(super) body: Box<[u8]>,
    /// Whether the client wants to hear that nobody listens.
    pub(super) wants_no_responders: bool,
    _place: Place,
    _of_connection: Counted,
}

/// The requests of one connection.
#[derive(Default)]
pub(crate) struct Requests {
    waiting: Vec<ApiCall>,
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
        self.waiting.push(ApiCall {
            account: Arc::clone(account),
            caller: client.caller(),
            subject: subject.into(),
            came: Instant::now(),
            reply: message.reply.map(Into::into),
            level: level.map(Into::into),
            body: message.payload.into(),
            wants_no_responders: client.said().is_some_and(|said| said.no_responders),
            _place: place,
            _of_connection: Counted::new(&self.of_connection),
        });
        Taken::Done
    }

    /// Takes the requests that nobody answers yet.
    pub(crate) fn drain(&mut self) -> Vec<ApiCall> {
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
