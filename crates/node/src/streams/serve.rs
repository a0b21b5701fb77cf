//! Answers questions about the streams that this node leads.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::{Instant, timeout_at};

use tailrace_types::{Offset, RaftGroup, usize_of};

use super::failure::StreamFailure;
use super::follow::follow;
use super::live::{LiveStream, NotReached, Table};
use super::reading::Reading;
use super::rules::Rules;
use super::select::{self, Purging, Selected};
use super::types::{Messages, PurgeTerms, ReadBounds, Select, StateTerms, StreamState};
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::{AppendFailure, PartitionHandle, Topic, advance_log_start};

/// Why this node does not answer.
#[derive(Debug)]
pub(crate) enum NotServed {
    /// Another node leads the stream, or may soon.
    Elsewhere(String),
    /// No node answers otherwise.
    Failed(StreamFailure),
}

impl From<StreamFailure> for NotServed {
    fn from(failure: StreamFailure) -> Self {
        Self::Failed(failure)
    }
}

fn elsewhere(reason: &str) -> NotServed {
    NotServed::Elsewhere(reason.to_owned())
}

/// A stream that this node leads, at the moment of a question.
pub(super) struct Led {
    pub(super) topic: Arc<Topic>,
    pub(super) live: Arc<LiveStream>,
}

impl Led {
    /// The same once more.
    pub(super) fn again(&self) -> Self {
        Self { topic: Arc::clone(&self.topic), live: Arc::clone(&self.live) }
    }
}

/// Tells what is in a stream that this node leads, but for its consumers.
pub(crate) async fn state_here(
    node: &Arc<Node>,
    topic: [u8; 16],
    terms: StateTerms,
    deadline: Instant,
) -> Result<StreamState, NotServed> {
    let led = led(node, topic)?;
    let look = move |table: &Table, _: &Led| select::state(&table.contents, &terms);
    answer(node, led, deadline, look).await
}

/// Reads messages of a stream that this node leads.
pub(crate) async fn messages_here(
    node: &Arc<Node>,
    topic: [u8; 16],
    what: Select,
    bounds: ReadBounds,
    deadline: Instant,
) -> Result<Messages, NotServed> {
    let led = led(node, topic)?;
    let translator = node.streams.translator.clone().ok_or(StreamFailure::NoStream)?;
    let decompressed_bytes_max = usize_of(node.config().tailrace_decompressed_bytes_max);
    let selected = {
        let look = move |table: &Table, _: &Led| select::select(&table.contents, &what, bounds);
        answer(node, led.again(), deadline, look).await?
    };
    let Selected { sequences, pending, next, upto } = selected;
    let work = move || {
        let (handle, topic) = (&*led.live.handle, &*led.topic);
        let reading = Reading { handle, topic, translator: &*translator, decompressed_bytes_max };
        reading.messages(&sequences)
    };
    let messages = blocking(work).await?;
    // They were deleted since they were selected.
    if messages.is_empty() {
        return Err(StreamFailure::NoMessage.into());
    }
    Ok(Messages { messages, pending, next, upto })
}

/// Removes messages of a stream that this node leads.
pub(crate) async fn purge_here(
    node: &Arc<Node>,
    topic: [u8; 16],
    terms: PurgeTerms,
    deadline: Instant,
) -> Result<u64, NotServed> {
    let led = led(node, topic)?;
    let handle = Arc::clone(&led.live.handle);
    let look = move |table: &Table, _: &Led| Ok(select::purging(&table.contents, terms));
    let Purging { below, messages } = answer(node, led, deadline, look).await?;
    let to = Offset(i64::try_from(below).unwrap_or(i64::MAX).saturating_sub(1));
    if to <= handle.bounds().log_start {
        return Ok(messages);
    }
    match advance_log_start(node, Caller::internal(), &handle, to).await {
        Ok(_) => Ok(messages),
        Err(AppendFailure::NotLeader | AppendFailure::Gone) => {
            Err(elsewhere("another node leads the stream"))
        }
        Err(AppendFailure::TooFewReplicas) => Err(elsewhere("too few replicas keep up")),
        Err(failure @ AppendFailure::Refused(_)) => {
            Err(StreamFailure::Unreadable(failure.to_string()).into())
        }
    }
}

/// The stream, if this node leads it.
pub(super) fn led(node: &Arc<Node>, topic: [u8; 16]) -> Result<Led, NotServed> {
    let topic = node.topics().by_id(topic).ok_or_else(|| elsewhere("the node does not know the topic"))?;
    if topic.partition_count() != 1 || topic.internal || node.streams.translator.is_none() {
        return Err(StreamFailure::NoStream.into());
    }
    let handle = topic.led(0).map_err(|_| elsewhere("another node leads the stream"))?;
    let live = live(node, &topic, handle)?;
    Ok(Led { topic, live })
}

/// Returns the table of a stream. Begins one if there is none.
pub(super) fn live(
    node: &Arc<Node>,
    topic: &Topic,
    handle: &Arc<PartitionHandle>,
) -> Result<Arc<LiveStream>, NotServed> {
    let epoch = handle.leads().ok_or_else(|| elsewhere("another node leads the stream"))?;
    let group: RaftGroup = handle.group;
    let mut all = node.streams.live.lock();
    if let Some(live) = all.get(&group).filter(|live| live.serves(handle)) {
        return Ok(Arc::clone(live));
    }
    // Failures of streams that are led elsewhere by now.
    all.retain(|_, live| live.is_led());
    let live =
        Arc::new(LiveStream::new(handle, epoch, Rules::of(topic)?, &node.streams.memory, &node.streams.ids));
    all.insert(group, Arc::clone(&live));
    drop(all);
    task::spawn(follow(Arc::clone(node), Arc::clone(&live)));
    Ok(live)
}

/// Looks at a table once it has all that is committed now.
pub(super) async fn answer<T: Send + 'static>(
    node: &Arc<Node>,
    led: Led,
    deadline: Instant,
    look: impl FnOnce(&Table, &Led) -> Result<T, StreamFailure> + Send + 'static,
) -> Result<T, NotServed> {
    let bounds = led.live.handle.bounds();
    let (target, start) = (bounds.last_stable_offset, bounds.log_start.get().unsigned_abs());
    led.live.wait(target, deadline).await.map_err(|reason| match reason {
        NotReached::Late => elsewhere("its table is being made"),
        NotReached::Over => elsewhere("the node no longer leads the stream"),
        NotReached::Failed(failure) => failure.into(),
    })?;
    // The semaphore is never closed.
    let place = timeout_at(deadline, node.streams.places.acquire()).await;
    let _place = place.ok().and_then(Result::ok).ok_or(StreamFailure::Busy)?;
    let now = node.now();
    let looked = blocking(move || {
        let expires = |table: &Table| table.rules.age_max_ms().is_some();
        if led.live.table.read().as_ref().is_some_and(expires)
            && let Some(table) = led.live.table.write().as_mut()
        {
            table.expire(now.0);
        }
        let table = led.live.table.read();
        let Some(table) = table.as_ref() else { return Ok(None) };
        // Settings and the start of the log do not come with the records. The task is about to apply them.
        if !table.rules.are_of(&led.topic) || table.contents.summary().first_seq <= start {
            return Ok(None);
        }
        let looked = look(table, &led)?;
        // Another leader may have stored more meanwhile.
        Ok(led.live.is_led().then_some(looked))
    });
    looked.await?.ok_or_else(|| elsewhere("the node no longer leads the stream, or its settings change"))
}

/// Works on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StreamFailure> + Send + 'static,
) -> Result<T, StreamFailure> {
    task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a bug in the server: reading a stream panicked");
        Err(StreamFailure::Unreadable("a bug in the server: reading it panicked".to_owned()))
    })
}
