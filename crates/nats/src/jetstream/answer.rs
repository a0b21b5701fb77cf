//! From a request to its answer.

use std::sync::Arc;

use serde::Serialize;
use tailrace_env::task;
use tailrace_env::time::{Duration, Instant};
use tailrace_jetstream::api::bodies::MessageGet;
use tailrace_jetstream::api::{
    Answer, ConsumerList, ConsumerNames, Page, Request, Success, bodies, has_level,
};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_nats_wire::{Message, NO_RESPONDERS};
use tailrace_node::Caller;

use super::requests::ApiCall;
use super::rights::StreamRights;
use super::stream::Stream;
use super::streams::Streams;
use super::{JetStream, change, direct, lists, messages, state};
use crate::burst::Burst;
use crate::server::NatsServer;

/// Time in which a request is answered. Clients wait for five seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// A request, and what is needed to carry it out.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) server: &'a Arc<NatsServer>,
    pub(super) jetstream: &'a JetStream,
    pub(super) caller: &'a Caller,
    pub(super) call: &'a ApiCall,
}

/// How a request was answered.
pub(super) enum Spoken {
    /// As asked for, or not at all because nobody wants to hear it.
    Done,
    /// With an error.
    Failed,
    /// Nobody listens there.
    NoResponders,
}

/// Answers a request.
pub(crate) async fn answer(server: Arc<NatsServer>, call: ApiCall) {
    let Some(jetstream) = server.front.jetstream() else { return };
    let Some(_turn) = jetstream.queue.turn().await else { return };
    let Some(request) = Request::parse(&call.subject, None) else { return };
    let caller = call.caller.within(PATIENCE);
    let asked = Asked { server: &server, jetstream, caller: &caller, call: &call };
    match carry_out(asked, &request).await {
        Spoken::Done => jetstream.count(false),
        Spoken::Failed => jetstream.count(true),
        Spoken::NoResponders => asked.say_no_responders(),
    }
}

async fn carry_out(asked: Asked<'_>, request: &Request<'_>) -> Spoken {
    let is_there = Arc::ptr_eq(&asked.call.account, asked.server.front.accounts().topics());
    let Some(kind) = request.answer_type() else {
        return if is_there { direct(asked, request).await } else { Spoken::NoResponders };
    };
    if !has_level(asked.call.level.as_deref()) {
        return asked.refuse(kind, ErrorKind::RequiredApiLevel.into());
    }
    if !is_there {
        return asked.refuse(kind, ErrorKind::NotEnabledForAccount.into());
    }
    let body = &*asked.call.body;
    match *request {
        Request::AccountInfo => asked.tell(kind, lists::account(asked).await),
        Request::StreamCreate { stream } => asked.tell(kind, change::create(asked, stream, body).await),
        Request::StreamUpdate { stream } => asked.tell(kind, change::update(asked, stream, body).await),
        Request::StreamDelete { stream } => asked.tell(kind, change::delete(asked, stream, body).await),
        Request::StreamInfo { stream } => asked.tell(kind, state::answer(asked, stream, body).await),
        Request::StreamNames => asked.tell(kind, lists::names(asked, body)),
        Request::StreamList => asked.tell(kind, lists::list(asked, body).await),
        Request::MessageGet { stream } => asked.tell(kind, messages::get(asked, stream, body).await),
        _ => absent(asked, request, kind),
    }
}

async fn direct(asked: Asked<'_>, request: &Request<'_>) -> Spoken {
    let body = &*asked.call.body;
    match *request {
        Request::DirectGet { stream } => direct::answer(asked, stream, MessageGet::parse_direct(body)).await,
        Request::DirectGetLast { stream, subject } => {
            direct::answer(asked, stream, MessageGet::parse_direct_last(subject, body)).await
        }
        // There are no consumers, and so nobody who would hand out messages.
        _ => Spoken::NoResponders,
    }
}

/// Answers requests for what is not there yet: as nats-server would if it found nothing, or with an error
/// that says so.
fn absent(asked: Asked<'_>, request: &Request<'_>, kind: &'static str) -> Spoken {
    let body = &*asked.call.body;
    let not_yet = |error, what: &str| ApiError::because(error, format!("{what} not supported yet"));
    let refusal = match *request {
        Request::ConsumerNames { stream } => {
            let names = bodies::ListRequest::of_consumers(body).and_then(|request| {
                asked.stream(stream)?;
                Ok(ConsumerNames { page: Page::of_names(0, request.offset), consumers: Vec::new() })
            });
            return asked.tell(kind, names);
        }
        Request::ConsumerList { stream } => {
            let list = bodies::ListRequest::of_consumers(body).and_then(|request| {
                asked.stream(stream)?;
                let page = Page::of_list(0, request.offset);
                Ok(ConsumerList { page, consumers: Vec::new(), missing: Vec::new() })
            });
            return asked.tell(kind, list);
        }
        Request::StreamPurge { .. } => not_yet(ErrorKind::StreamPurgeFailed, "purging streams is"),
        Request::MessageDelete { .. } => not_yet(ErrorKind::StreamMsgDeleteFailed, "deleting messages is"),
        Request::ConsumerCreate(_) => not_yet(ErrorKind::ConsumerCreate, "consumers are"),
        Request::StreamSnapshot { .. } => not_yet(ErrorKind::StreamSnapshot, "snapshots are"),
        Request::StreamRestore { .. } => not_yet(ErrorKind::StreamRestore, "restoring streams is"),
        Request::ConsumerInfo { stream, .. }
        | Request::ConsumerDelete { stream, .. }
        | Request::ConsumerPause { stream, .. }
        | Request::ConsumerUnpin { stream, .. }
        | Request::ConsumerReset { stream, .. }
        | Request::ConsumerStepDown { stream, .. }
        | Request::ConsumerRemovePeer { stream, .. }
        | Request::ConsumerEvacuatePeer { stream, .. } => match asked.stream(stream) {
            Ok(_) => ErrorKind::ConsumerNotFound.into(),
            Err(error) => error,
        },
        _ if asked.server.node.is_alone() => ErrorKind::ClusterRequired.into(),
        _ => not_yet(ErrorKind::StreamGeneral, "moving the replicas of streams through JetStream's API is"),
    };
    asked.refuse(kind, refusal)
}

impl<'a> Asked<'a> {
    /// The streams as this node knows them.
    pub(super) fn streams(self) -> Arc<Streams> {
        self.jetstream.streams.of(&self.server.node.image())
    }

    /// What the client may do.
    pub(super) fn rights(self) -> StreamRights<'a> {
        StreamRights(self.server.node.rights(self.caller))
    }

    /// The stream of this name.
    ///
    /// # Errors
    /// 10059: there is none, or the client may not know it.
    pub(super) fn stream(self, name: &str) -> Result<Arc<Stream>, ApiError> {
        let streams = self.streams();
        let found = streams.get(name).filter(|stream| self.rights().sees(stream));
        found.cloned().ok_or_else(|| ErrorKind::StreamNotFound.into())
    }

    fn refuse(self, kind: &'static str, error: ApiError) -> Spoken {
        self.tell::<Success>(kind, Err(error))
    }

    fn tell<T: Serialize>(self, kind: &'static str, result: Result<T, ApiError>) -> Spoken {
        let spoken = if result.is_ok() { Spoken::Done } else { Spoken::Failed };
        if self.call.reply.is_some() {
            let text = serde_json::to_vec(&Answer::new(kind, result)).unwrap_or_default();
            self.say(None, &text);
        }
        spoken
    }

    fn say(self, headers: Option<&[u8]>, payload: &[u8]) {
        Speaker::of(self).say(headers, payload);
    }

    fn say_no_responders(self) {
        if !self.call.wants_no_responders {
            return;
        }
        self.server.front.metrics().no_responders.inc();
        let subject = self.call.subject.as_bytes();
        let headers = [NO_RESPONDERS, b"Nats-Subject: ", subject, b"\r\n\r\n"].concat();
        self.say(Some(&headers), b"");
    }
}

/// Publishes the parts of an answer. Topics do not capture them.
pub(super) struct Speaker<'a> {
    asked: Asked<'a>,
    burst: Burst,
}

impl<'a> Speaker<'a> {
    pub(super) fn of(asked: Asked<'a>) -> Self {
        Self { asked, burst: Burst::default() }
    }

    /// Publishes one part. What is said is written when this is dropped, or at the next rest.
    pub(super) fn say(&mut self, headers: Option<&[u8]>, payload: &[u8]) {
        let Asked { server, call, .. } = self.asked;
        let Some(reply) = &call.reply else { return };
        let message = Message { subject: reply, reply: None, headers, payload };
        call.account.router().publish(&mut self.burst, &message, |_| {});
        server.front.crossed(&mut self.burst, &message);
    }

    /// Sends what was said, waits for a reader that is behind, and lets other tasks have a turn.
    pub(super) async fn rest(&mut self) {
        let metrics = self.asked.server.front.metrics();
        self.burst.finish(metrics);
        if let Some(crowded) = self.burst.take_crowded() {
            crowded.wait(metrics).await;
        }
        task::yield_now().await;
        self.burst.begin(Instant::now());
    }
}

impl Drop for Speaker<'_> {
    fn drop(&mut self) {
        self.burst.finish(self.asked.server.front.metrics());
    }
}
