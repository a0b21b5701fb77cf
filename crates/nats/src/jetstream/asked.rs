//! A request while it is carried out: who asks, what the node knows, and how answers are given.

use std::sync::Arc;

use serde::Serialize;
use tailrace_env::task;
use tailrace_env::time::Instant;
use tailrace_jetstream::api::{Answer, Success};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_nats_wire::{Message, NO_RESPONDERS};
use tailrace_node::Caller;

use super::requests::ApiCall;
use super::rights::StreamRights;
use super::shared::JetStream;
use super::stream::Stream;
use super::streams::Streams;
use crate::burst::Burst;
use crate::server::NatsServer;

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

    /// Answers with an error.
    pub(super) fn refuse(self, kind: &'static str, error: ApiError) -> Spoken {
        self.tell::<Success>(kind, Err(error))
    }

    /// Answers with what was asked for, or with an error.
    pub(super) fn tell<T: Serialize>(self, kind: &'static str, result: Result<T, ApiError>) -> Spoken {
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

    /// Answers as if nobody listened there.
    pub(super) fn say_no_responders(self) {
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
