//! Acknowledgements: messages to `$JS.ACK.>`. Those of one read of a connection go to the leaders together.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_env::task;
use tailrace_env::time::Duration;
use tailrace_jetstream::consumer::AckSubject;
use tailrace_nats_wire::{Message, NO_RESPONDERS};
use tailrace_node::Caller;
use tailrace_node::streams::{AckAsk, Acked, Consumers, StreamFailure};

use super::pulls::{self, Ended, PullCall};
use super::queue::Place;
use super::rights::StreamRights;
use super::shared::JetStream;
use crate::account::Account;
use crate::client::Client;
use crate::server::NatsServer;
use crate::speaker::Speaker;

/// The subjects of acknowledgements.
pub(super) const PREFIX: &[u8] = b"$JS.ACK.";

/// Time in which the leader of the stream answers.
const PATIENCE: Duration = Duration::from_secs(4);

/// Acknowledgements of one question to a leader.
const ACKS_MAX: usize = 1_024;

/// Bytes of memory that an acknowledgement takes besides its texts.
const ACK_BYTES: usize = 192;

/// An acknowledgement that also asks for more messages.
const NEXT: &[u8] = b"+NXT";

/// One acknowledgement.
pub(super) struct AckCall {
    subject: Box<[u8]>,
    stream: Box<str>,
    ask: AckAsk,
    reply: Option<Box<[u8]>>,
    /// The pull request that comes with it.
    next: Option<Box<[u8]>>,
}

/// The acknowledgements of one read.
pub(crate) struct AckCalls {
    account: Arc<Account>,
    caller: Caller,
    wants_no_responders: bool,
    acks: Vec<AckCall>,
    place: Place,
}

impl AckCall {
    /// Reads a message to [`PREFIX`]. `None` if it is none.
    pub(super) fn read(message: &Message<'_>) -> Option<Self> {
        let AckSubject { domain, stream, consumer, deliveries, stream_seq, consumer_seq } =
            AckSubject::parse(std::str::from_utf8(message.subject).ok()?)?;
        // There are no domains, so it is for another cluster.
        if domain.is_some() {
            return None;
        }
        let next = message.payload.strip_prefix(NEXT).filter(|_| message.reply.is_some());
        let payload = if next.is_some() { b"+ACK" } else { message.payload };
        let ask = AckAsk {
            consumer: consumer.to_owned(),
            stream_seq,
            consumer_seq,
            deliveries,
            payload: String::from_utf8_lossy(payload).into_owned(),
            wants_answer: message.reply.is_some() && next.is_none(),
        };
        let (reply, next) = (message.reply.map(Into::into), next.map(Into::into));
        Some(Self { subject: message.subject.into(), stream: stream.into(), ask, reply, next })
    }

    /// The memory that it takes.
    pub(super) fn bytes(message: &Message<'_>) -> u64 {
        let texts = message.subject.len() * 2 + message.payload.len() + message.reply.map_or(0, <[u8]>::len);
        (texts + ACK_BYTES) as u64
    }
}

impl AckCalls {
    pub(super) fn new(account: &Arc<Account>, client: &Client, first: AckCall, place: Place) -> Self {
        Self {
            account: Arc::clone(account),
            caller: client.caller(),
            wants_no_responders: client.said().is_some_and(|said| said.no_responders),
            acks: vec![first],
            place,
        }
    }

    /// The sequences of their messages.
    #[cfg(test)]
    pub(super) fn sequences(&self) -> Vec<u64> {
        self.acks.iter().map(|ack| ack.ask.stream_seq).collect()
    }

    /// Adds one. Returns whether there was room for it.
    pub(super) fn add(&mut self, ack: AckCall, bytes: u64) -> bool {
        let fits = self.place.grow(bytes);
        if fits {
            self.acks.push(ack);
        }
        fits
    }
}

/// Passes acknowledgements on to the leaders of their streams, and answers those that want it.
pub(super) async fn carry(server: &Arc<NatsServer>, jetstream: &JetStream, calls: AckCalls) {
    let AckCalls { account, caller, wants_no_responders, acks, place } = calls;
    let mut of_streams: BTreeMap<Box<str>, Vec<AckCall>> = BTreeMap::new();
    for ack in acks {
        of_streams.entry(ack.stream.clone()).or_default().push(ack);
    }
    let answering = Answering { server, account, caller: caller.within(PATIENCE), wants_no_responders };
    for (stream, mut acks) in of_streams {
        while !acks.is_empty() {
            let rest = acks.split_off(acks.len().min(ACKS_MAX));
            let asks = acks.iter().map(|ack| ack.ask.clone()).collect();
            match answering.put(jetstream, &stream, asks).await {
                Ok(acked) => answering.answer(&acks, &acked).await,
                // Without an answer a client tries again, or gets the message once more.
                Err(failure) => {
                    tracing::debug!(%failure, "acknowledgements did not reach the leader of their stream");
                    jetstream.count(true);
                }
            }
            for ack in std::mem::replace(&mut acks, rest) {
                answering.pull_next(ack);
            }
        }
    }
    drop(place);
}

struct Answering<'a> {
    server: &'a Arc<NatsServer>,
    account: Arc<Account>,
    caller: Caller,
    wants_no_responders: bool,
}

impl Answering<'_> {
    async fn put(
        &self,
        jetstream: &JetStream,
        stream: &str,
        asks: Vec<AckAsk>,
    ) -> Result<Vec<Acked>, StreamFailure> {
        let node = &self.server.node;
        let nobody = vec![Acked::Nobody; asks.len()];
        if !Arc::ptr_eq(&self.account, self.server.front.accounts().topics()) {
            return Ok(nobody);
        }
        let streams = jetstream.streams.of(&node.image());
        let rights = StreamRights(node.rights(&self.caller));
        let found = streams.get(stream).filter(|stream| rights.sees(stream) && rights.may_read(stream));
        let topic = found.and_then(|stream| node.topics().by_id(stream.topic.id.0));
        let Some(topic) = topic else { return Ok(nobody) };
        Consumers { node, caller: &self.caller, topic: &topic }.acks(asks).await
    }

    async fn answer(&self, acks: &[AckCall], acked: &[Acked]) {
        let mut speaker = Speaker::patient(&self.server.front);
        for (ack, acked) in acks.iter().zip(acked) {
            let Some(subject) = ack.reply.as_deref().filter(|_| ack.next.is_none()) else { continue };
            let headers = match acked {
                Acked::Answered => None,
                Acked::Nobody if self.wants_no_responders => {
                    Some([NO_RESPONDERS, b"Nats-Subject: ", &ack.subject, b"\r\n\r\n"].concat())
                }
                Acked::Silent | Acked::Nobody => continue,
            };
            let message = Message { subject, reply: None, headers: headers.as_deref(), payload: b"" };
            speaker.say(self.account.router(), &message).await;
        }
    }

    /// Begins the pull that comes with an acknowledgement.
    fn pull_next(&self, ack: AckCall) {
        let (Some(body), Some(inbox)) = (ack.next, ack.reply) else { return };
        let call = PullCall {
            account: Arc::clone(&self.account),
            caller: self.caller.clone(),
            stream: ack.stream,
            consumer: ack.ask.consumer.into(),
            body,
            inbox,
            level: None,
        };
        let server = Arc::clone(self.server);
        task::spawn(async move {
            let Some(jetstream) = server.front.jetstream() else { return };
            if pulls::serve(&server, jetstream, &call).await == Ended::Nobody {
                tracing::debug!("an acknowledgement asks for more of a consumer that is gone");
            }
        });
    }
}
