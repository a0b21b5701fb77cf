//! What fronts ask of a stream, on whichever node its leader is.
//!
//! A stream is a topic with one partition. Each question waits for its leader until the caller's deadline, or
//! for [`STREAM_TIMEOUT`]. A read sees all that was committed when it came. A record behind a transaction
//! that is not decided is not committed in this sense.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};

use tailrace_types::NodeId;

use super::consumers::{answer_consumers, count};
use super::failure::StreamFailure;
use super::serve::{NotServed, messages_here, purge_here, state_here};
use super::types::{Messages, PurgeTerms, ReadBounds, Select, StateTerms, StreamState};
use crate::ask::{StreamAnswer, StreamAsk, StreamQuestion, ask};
use crate::caller::Caller;
use crate::cluster::leaders::leader_of;
use crate::deadlines::STREAM_TIMEOUT;
use crate::node::Node;
use crate::partitions::Topic;
use crate::retry::Pauses;

/// Pauses before another attempt.
const PAUSES: Pauses = Pauses::doubling(Duration::from_millis(10), Duration::from_millis(200));

/// Tells what is in a stream.
///
/// # Errors
/// [`StreamFailure`]
pub async fn state(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    terms: StateTerms,
) -> Result<StreamState, StreamFailure> {
    match put(node, caller, topic, StreamAsk::State(terms)).await? {
        StreamAnswer::State(state) => Ok(state),
        other => Err(wrong(&other)),
    }
}

/// Reads messages of a stream.
///
/// # Errors
/// [`StreamFailure`]; [`StreamFailure::NoMessage`] if there are none.
pub async fn messages(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    select: Select,
    bounds: ReadBounds,
) -> Result<Messages, StreamFailure> {
    match put(node, caller, topic, StreamAsk::Messages(select, bounds)).await? {
        StreamAnswer::Messages(messages) => Ok(messages),
        other => Err(wrong(&other)),
    }
}

/// Removes messages for good, with their records, as Kafka's DeleteRecords does. Returns how many those were.
///
/// # Errors
/// [`StreamFailure`]. After [`StreamFailure::NoLeader`] they may be gone or not.
pub async fn purge(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    terms: PurgeTerms,
) -> Result<u64, StreamFailure> {
    match put(node, caller, topic, StreamAsk::Purge(terms)).await? {
        StreamAnswer::Purged(messages) => Ok(messages),
        other => Err(wrong(&other)),
    }
}

fn wrong(answer: &StreamAnswer) -> StreamFailure {
    tracing::error!(?answer, "a node answers another question than it was asked");
    StreamFailure::NoLeader("its answer is to another question".to_owned())
}

/// Asks the leader of the stream, whichever node that is, until it answers or the deadline passes.
pub(super) async fn put(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    what: StreamAsk,
) -> Result<StreamAnswer, StreamFailure> {
    if topic.partition_count() != 1 || topic.internal {
        return Err(StreamFailure::NoStream);
    }
    let deadline = caller.until(STREAM_TIMEOUT);
    let mut retry = PAUSES.until(deadline);
    loop {
        let reason = match put_once(node, caller, topic, &what, deadline).await {
            Ok(answer) => return Ok(answer),
            Err(NotServed::Failed(failure)) => return Err(failure),
            Err(NotServed::Elsewhere(reason)) => reason,
        };
        if node.topics().by_id(topic.id.0).is_none() {
            return Err(StreamFailure::NoStream);
        }
        if !retry.pause().await {
            return Err(StreamFailure::NoLeader(reason));
        }
    }
}

async fn put_once(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    what: &StreamAsk,
    deadline: Instant,
) -> Result<StreamAnswer, NotServed> {
    let elsewhere = |reason: String| NotServed::Elsewhere(reason);
    let Some(leader) = leader(node, topic) else {
        return Err(elsewhere("no node leads it".to_owned()));
    };
    if leader == node.id() {
        return answer_here(node, topic.id.0, what.clone(), deadline).await;
    }
    let question = StreamQuestion { topic: topic.id.0, what: what.clone() };
    let asked = ask(&node.links, caller, leader, question).await;
    match asked.map_err(|error| elsewhere(error.to_string()))? {
        StreamAnswer::Elsewhere(reason) => Err(elsewhere(reason)),
        StreamAnswer::Failed(failure) => Err(failure.into()),
        answer => Ok(answer),
    }
}

/// Returns the leading node. One that has the only replica need not have said that it leads.
fn leader(node: &Node, topic: &Topic) -> Option<NodeId> {
    let known = leader_of(node, topic, 0).map(|(leader, _)| leader);
    known.or_else(|| match &topic.image.partition(tailrace_types::PartitionId(0))?.replicas[..] {
        [only] => Some(only.node()),
        _ => None,
    })
}

/// Answers for a stream that this node leads.
pub(crate) async fn answer_here(
    node: &Arc<Node>,
    topic: [u8; 16],
    what: StreamAsk,
    deadline: Instant,
) -> Result<StreamAnswer, NotServed> {
    Ok(match what {
        StreamAsk::State(terms) => {
            let state = state_here(node, topic, terms, deadline).await?;
            let consumers = count(node, topic).await? as u64;
            StreamAnswer::State(StreamState { consumers, ..state })
        }
        StreamAsk::Messages(select, bounds) => {
            StreamAnswer::Messages(messages_here(node, topic, select, bounds, deadline).await?)
        }
        StreamAsk::Consumer(what) => {
            StreamAnswer::Consumer(Box::new(answer_consumers(node, topic, what, deadline).await?))
        }
        StreamAsk::Purge(terms) => StreamAnswer::Purged(purge_here(node, topic, terms, deadline).await?),
    })
}
