//! CONSUMER.MSG.NEXT: asks the leader of a stream for what a pull gets, again and again, and writes it to the
//! client.
//!
//! Messages have their own subject, and go to who subscribes to the inbox at this node. When nobody does any
//! more, the leader gets back what has not reached anybody.

use std::pin::pin;
use std::sync::Arc;

use tailrace_env::time::{Duration, Instant, sleep};
use tailrace_env::{select, task};
use tailrace_jetstream::api::has_level;
use tailrace_nats_wire::Message;
use tailrace_node::Caller;
use tailrace_node::partitions::Topic;
use tailrace_node::streams::{Consumers, Pulled, PulledItem, PulledMessage, StreamFailure};

use super::delivery;
use super::header::status;
use super::rights::StreamRights;
use super::shared::JetStream;
use crate::account::Account;
use crate::burst::Burst;
use crate::server::NatsServer;

/// Time in which the leader of the stream answers. It holds a question for less.
const PATIENCE: Duration = Duration::from_secs(4);

/// Pause between two looks whether somebody subscribes to the inbox.
const LOOK: Duration = Duration::from_millis(500);

/// A client's pull request.
pub(super) struct PullCall {
    pub(super) account: Arc<Account>,
    pub(super) caller: Caller,
    pub(super) stream: Box<str>,
    pub(super) consumer: Box<str>,
    pub(super) body: Box<[u8]>,
    pub(super) inbox: Box<[u8]>,
    /// The level of the API that the client needs.
    pub(super) level: Option<Box<str>>,
}

/// How a pull has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was served or told why not.
    Told,
    /// There is no such consumer.
    Nobody,
}

/// Serves a pull until it is over, or its client is gone.
pub(super) async fn serve(server: &Arc<NatsServer>, jetstream: &JetStream, call: &PullCall) -> Ended {
    if !Arc::ptr_eq(&call.account, server.front.accounts().topics()) {
        return Ended::Nobody;
    }
    let mut to = Inbox { server, call, burst: Burst::default() };
    if !has_level(call.level.as_deref()) {
        to.say_status("412 Required Api Level");
        return Ended::Told;
    }
    let node = &server.node;
    let streams = jetstream.streams.of(&node.image());
    let rights = StreamRights(node.rights(&call.caller));
    let found = streams.get(&call.stream).filter(|stream| rights.sees(stream) && rights.may_read(stream));
    let topic = found.and_then(|stream| node.topics().by_id(stream.topic.id.0));
    let Some(topic) = topic else { return Ended::Nobody };
    let Some(_place) = jetstream.pulls.place() else {
        to.say_status("409 Exceeded MaxWaiting");
        return Ended::Told;
    };
    to.pull(&topic).await
}

/// Where the messages of a pull go.
struct Inbox<'a> {
    server: &'a Arc<NatsServer>,
    call: &'a PullCall,
    burst: Burst,
}

impl Inbox<'_> {
    async fn pull(&mut self, topic: &Topic) -> Ended {
        let body = String::from_utf8_lossy(&self.call.body).into_owned();
        let caller = self.call.caller.within(PATIENCE);
        let leader = Consumers { node: &self.server.node, caller: &caller, topic };
        let mut answer = leader.pull(&self.call.consumer, &body).await;
        if let Err(StreamFailure::Api(..) | StreamFailure::NoStream) = answer {
            return Ended::Nobody;
        }
        loop {
            let pulled = match answer {
                Ok(pulled) => pulled,
                Err(failure) => {
                    self.say_failure(&failure);
                    return Ended::Told;
                }
            };
            let undelivered = self.say(&pulled).await;
            if pulled.is_over && undelivered.is_empty() {
                return Ended::Told;
            }
            if pulled.is_over || !undelivered.is_empty() {
                self.give_back(topic, pulled.pull, undelivered).await;
                return Ended::Told;
            }
            answer = self.more(topic, pulled.pull).await;
        }
    }

    /// Waits for what comes next. The leader is told when the client is gone, and ends the pull.
    async fn more(&self, topic: &Topic, pull: u64) -> Result<Pulled, StreamFailure> {
        let caller = self.call.caller.within(PATIENCE);
        let leader = Consumers { node: &self.server.node, caller: &caller, topic };
        let mut asked = pin!(leader.more(pull));
        loop {
            select! {
                answer = &mut asked => return answer,
                () = sleep(LOOK) => {}
            }
            if !self.is_wanted() {
                self.give_back(topic, pull, Vec::new()).await;
                return asked.await;
            }
        }
    }

    async fn give_back(&self, topic: &Topic, pull: u64, undelivered: Vec<u64>) {
        let caller = self.call.caller.within(PATIENCE);
        let leader = Consumers { node: &self.server.node, caller: &caller, topic };
        if let Err(failure) = leader.gone(&self.call.consumer, pull, undelivered).await {
            // The messages come again when nobody acknowledges them.
            tracing::debug!(%failure, "a pull whose client is gone was not given back");
        }
    }

    fn is_wanted(&self) -> bool {
        self.call.account.router().reaches_client(&self.call.inbox)
    }

    /// Writes what has come. Returns the sequences of messages that reach nobody.
    async fn say(&mut self, pulled: &Pulled) -> Vec<u64> {
        self.burst.begin(Instant::now());
        let mut undelivered = Vec::new();
        for item in &pulled.items {
            match item {
                PulledItem::Status { block, .. } => {
                    let (subject, headers) = (&*self.call.inbox, Some(block.as_bytes()));
                    self.deliver(&Message { subject, reply: None, headers, payload: b"" });
                }
                PulledItem::Message(message) => {
                    if !undelivered.is_empty() || self.say_message(message) == 0 {
                        undelivered.push(message.message.sequence);
                    }
                }
            }
            if self.burst.is_due() {
                self.rest().await;
            }
        }
        self.rest().await;
        undelivered
    }

    /// Sends what was said, waits for a client that is behind, and lets other tasks have a turn.
    async fn rest(&mut self) {
        let metrics = self.server.front.metrics();
        self.burst.finish(metrics);
        if let Some(crowded) = self.burst.take_crowded() {
            crowded.wait(metrics).await;
        }
        task::yield_now().await;
        self.burst.begin(Instant::now());
    }

    fn say_message(&mut self, pulled: &PulledMessage) -> usize {
        let block = delivery::block(pulled);
        self.deliver(&delivery::message(pulled, block.as_deref()))
    }

    fn deliver(&mut self, message: &Message<'_>) -> usize {
        self.call.account.router().deliver_to_inbox(&mut self.burst, &self.call.inbox, message)
    }

    fn say_status(&mut self, text: &str) {
        let block = status(text, &[]);
        let message = Message { subject: &self.call.inbox, reply: None, headers: Some(&block), payload: b"" };
        self.deliver(&message);
        self.burst.finish(self.server.front.metrics());
    }

    fn say_failure(&mut self, failure: &StreamFailure) {
        match failure {
            StreamFailure::Busy => self.say_status("409 Exceeded MaxWaiting"),
            // The leader has changed, or is not there. Clients ask again.
            StreamFailure::NoLeader(_) | StreamFailure::Api(..) | StreamFailure::NoStream => {
                self.say_status("409 Leadership Change");
            }
            StreamFailure::NoMessage
            | StreamFailure::TooManySubjects(_)
            | StreamFailure::Subject(_)
            | StreamFailure::TooLarge(_)
            | StreamFailure::Unreadable(_) => {
                self.say_status(&format!("500 {}", failure.to_api_error().description()));
            }
        }
    }
}
