//! A request while it is carried out: who asks, what the node knows, and how answers are given.

use std::sync::Arc;

use serde::Serialize;
use tailrace_jetstream::api::{Answer, Success};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_nats_wire::{Message, NO_RESPONDERS};
use tailrace_node::Caller;

use super::requests::RequestCall;
use super::rights::StreamRights;
use super::shared::JetStream;
use super::stream::Stream;
use super::streams::Streams;
use crate::server::NatsServer;
use crate::speaker;

/// A request, and what is needed to carry it out.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) server: &'a Arc<NatsServer>,
    pub(super) jetstream: &'a JetStream,
    pub(super) caller: &'a Caller,
    pub(super) call: &'a RequestCall,
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
    pub(super) async fn refuse(self, kind: &'static str, error: ApiError) -> Spoken {
        self.tell::<Success>(kind, Err(error)).await
    }

    /// Answers with what was asked for, or with an error.
    pub(super) async fn tell<T: Serialize>(self, kind: &'static str, result: Result<T, ApiError>) -> Spoken {
        let spoken = if result.is_ok() { Spoken::Done } else { Spoken::Failed };
        if self.call.reply.is_some() {
            let text = serde_json::to_vec(&Answer::new(kind, result)).unwrap_or_default();
            Speaker::of(self).say(None, &text).await;
        }
        spoken
    }

    /// Answers as if nobody listened there.
    pub(super) async fn say_no_responders(self) {
        if !self.call.wants_no_responders {
            return;
        }
        self.server.front.metrics().no_responders.inc();
        let subject = self.call.subject.as_bytes();
        let headers = [NO_RESPONDERS, b"Nats-Subject: ", subject, b"\r\n\r\n"].concat();
        Speaker::of(self).say(Some(&headers), b"").await;
    }
}

/// Publishes the parts of an answer. Topics do not capture it.
pub(super) struct Speaker<'a> {
    call: &'a RequestCall,
    inner: speaker::Speaker<'a>,
}

impl<'a> Speaker<'a> {
    pub(super) fn of(asked: Asked<'a>) -> Self {
        Self { call: asked.call, inner: speaker::Speaker::patient(&asked.server.front) }
    }

    /// Publishes one part. What is said is written when this is dropped, or at the next rest. Any number of
    /// subscribers may get it, so other tasks get turns meanwhile.
    pub(super) async fn say(&mut self, headers: Option<&[u8]>, payload: &[u8]) {
        let Some(reply) = &self.call.reply else { return };
        let message = Message { subject: reply, reply: None, headers, payload };
        self.inner.say(self.call.account.router(), &message).await;
    }

    /// Sends what was said, waits for a reader that is behind, and lets other tasks have a turn.
    pub(super) async fn rest(&mut self) {
        self.inner.rest().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tailrace_env::task;

    use super::super::requests::{ApiCall, Requests, Taken};
    use super::*;
    use crate::testing::{server_in, subscriber};

    #[tokio::test]
    async fn an_answer_that_very_many_get_takes_several_turns() {
        const LISTENERS: u64 = 20_000;
        let folder = tempfile::TempDir::new().unwrap();
        let (running, server) = server_in(&folder, &[("tailrace.jetstream.enable", "true")]).await;
        let client = subscriber(&server.front, b"r", None, LISTENERS);
        let jetstream = server.front.jetstream().unwrap();
        let (mut requests, account) = (Requests::default(), server.front.accounts().topics());
        let subject = b"$JS.API.STREAM.NAMES";
        let message = Message { subject, reply: Some(b"r"), headers: None, payload: b"" };
        assert!(matches!(requests.take(jetstream, account, &client, &message), Taken::Done));
        let Some(ApiCall::Request(call)) = requests.drain().pop() else { panic!("it is a request") };
        let turns = Arc::new(AtomicUsize::new(0));
        let others = task::spawn({
            let turns = Arc::clone(&turns);
            async move {
                loop {
                    turns.fetch_add(1, Ordering::Relaxed);
                    task::yield_now().await;
                }
            }
        });
        let asked = Asked { server: &server, jetstream, caller: &call.caller, call: &call };
        asked.refuse("stream_names", ErrorKind::BadRequest.into()).await;
        assert!(turns.load(Ordering::Relaxed) > 1, "other tasks wait for it");
        assert_eq!(client.sent().0, LISTENERS);
        others.abort();
        running.stop().await;
    }
}
