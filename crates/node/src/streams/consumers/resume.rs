//! Loads the durable consumers of streams that this node begins to lead, although nobody has asked for them
//! yet: push consumers send on, and those that nobody uses end.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_coordination::stream_consumers::{ConsumersAnswer, ConsumersRequest};
use tailrace_env::select;
use tailrace_env::task::{JoinSet, stopped};
use tailrace_env::time::{Duration, sleep};
use tailrace_types::{LeaderEpoch, RaftGroup};

use super::super::serve::led;
use super::keep::get_or_begin;
use super::kept::ask;
use super::saving::may_be_kept;
use crate::node::Node;
use crate::partitions::Topic;

/// Coordinators that are asked at the same time.
const ASKED_AT_ONCE: usize = 16;

/// Pause before a coordinator is asked again that has not answered.
const AGAIN: Duration = Duration::from_secs(1);

/// Streams of which it is known, in this epoch, whether they have consumers.
type Known = HashMap<RaftGroup, LeaderEpoch>;

/// Loads them until the server stops.
pub(crate) async fn resume(node: Arc<Node>) {
    if node.streams.translator.is_none() {
        return;
    }
    let mut stopping = node.stopping.subscribe();
    let mut leadership = node.links.own_leadership();
    let mut changes = node.metadata_changes();
    let mut known = Known::new();
    loop {
        let is_done = !may_be_kept(&node) || look(&node, &mut known).await;
        let goes_on = select! {
            () = stopped(&mut stopping) => false,
            changed = leadership.changed() => changed.is_ok(),
            changed = changes.changed(), if is_done => changed.is_ok(),
            () = sleep(AGAIN), if !is_done => true,
        };
        if !goes_on {
            return;
        }
    }
}

/// Looks at streams that this node has not led before. Returns whether all is known now.
async fn look(node: &Arc<Node>, known: &mut Known) -> bool {
    let mut led = HashMap::new();
    for topic in node.topics().iter() {
        let handle = topic.led(0).ok().filter(|_| may_be_stream(topic));
        if let Some((handle, epoch)) = handle.and_then(|handle| Some((handle, handle.leads()?))) {
            led.insert(handle.group, (Arc::clone(topic), epoch));
        }
    }
    known.retain(|group, epoch| led.get(group).is_some_and(|(_, now)| now == epoch));
    led.retain(|group, _| !known.contains_key(group));
    let led: Vec<_> = led.into_iter().collect();
    let mut is_done = true;
    for some in led.chunks(ASKED_AT_ONCE) {
        let mut asked = JoinSet::new();
        for (group, (topic, epoch)) in some.iter().cloned() {
            let node = Arc::clone(node);
            asked.spawn(async move { begin(&node, &topic).await.then_some((group, epoch)) });
        }
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Some((group, epoch))) => drop(known.insert(group, epoch)),
                _ => is_done = false,
            }
        }
    }
    is_done
}

fn may_be_stream(topic: &Topic) -> bool {
    let is_asked_for =
        !topic.config.tailrace_jetstream_stream.is_empty() || !topic.config.tailrace_subjects.is_empty();
    is_asked_for && topic.partition_count() == 1 && !topic.internal
}

/// Has the consumers of a stream loaded, if there are any. Returns whether that is known.
async fn begin(node: &Arc<Node>, topic: &Topic) -> bool {
    match ask(node, ConsumersRequest::HasAny { topic: topic.id }).await {
        Ok(ConsumersAnswer::HasAny(true)) => {
            led(node, topic.id.0).and_then(|led| get_or_begin(node, &led)).is_ok()
        }
        Ok(_) => true,
        Err(failure) => {
            tracing::debug!(topic = %topic.name, %failure, "it is not known yet whether a stream has consumers");
            false
        }
    }
}
