//! Answers to requests of flow control: messages to `$JS.FC.>`.

use std::sync::Arc;

use tailrace_env::time::Duration;
use tailrace_nats_wire::Message;
use tailrace_node::Caller;
use tailrace_node::streams::{Consumers, FlowAsk};

use super::header::value_of;
use super::queue::Place;
use super::rights::StreamRights;
use super::shared::JetStream;
use crate::account::Account;
use crate::server::NatsServer;

/// The subjects of answers.
pub(super) const PREFIX: &[u8] = b"$JS.FC.";

/// Time in which the leader of the stream answers.
const PATIENCE: Duration = Duration::from_secs(4);

/// Bytes of memory that an answer takes besides its texts.
const FLOW_BYTES: usize = 192;

/// One answer.
pub(crate) struct FlowCall {
    account: Arc<Account>,
    caller: Caller,
    stream: Box<str>,
    ask: FlowAsk,
    _place: Place,
}

impl FlowCall {
    /// The memory that it takes.
    pub(super) fn bytes(message: &Message<'_>) -> u64 {
        (2 * message.subject.len() + FLOW_BYTES) as u64
    }

    /// Reads a message to [`PREFIX`], which is `$JS.FC.<stream>.<consumer>.<word>`. `None` if it is none.
    pub(super) fn read(
        account: &Arc<Account>,
        caller: Caller,
        message: &Message<'_>,
        place: Place,
    ) -> Option<Self> {
        let subject = std::str::from_utf8(message.subject).ok()?;
        let mut words = subject.split('.').skip(2);
        let (stream, consumer) = (words.next()?, words.next()?);
        let number = |name: &str| message.headers.and_then(|block| value_of(block, name))?.parse().ok();
        let handled = number("Nats-Last-Stream").zip(number("Nats-Last-Consumer"));
        let ask = FlowAsk { consumer: consumer.to_owned(), subject: subject.to_owned(), handled };
        Some(Self { account: Arc::clone(account), caller, stream: stream.into(), ask, _place: place })
    }
}

/// Passes an answer on to the leader of the stream. If that fails, the next heartbeat asks again.
pub(super) async fn carry(server: &Arc<NatsServer>, jetstream: &JetStream, call: FlowCall) {
    let node = &server.node;
    if !Arc::ptr_eq(&call.account, server.front.accounts().topics()) {
        return;
    }
    let caller = call.caller.within(PATIENCE);
    let streams = jetstream.streams.of(&node.image());
    let rights = StreamRights(node.rights(&caller));
    let found = streams.get(&call.stream).filter(|stream| rights.sees(stream) && rights.may_read(stream));
    let Some(topic) = found.and_then(|stream| node.topics().by_id(stream.topic.id.0)) else { return };
    let leader = Consumers { node, caller: &caller, topic: &topic };
    if let Err(failure) = leader.flow(call.ask).await {
        tracing::debug!(%failure, "an answer of flow control did not reach the leader of its stream");
        jetstream.count(true);
    }
}
