//! Loads the durable consumers of a stream when this node begins to lead it, and saves what changes of them.
//!
//! One task for each stream with consumers loads them, and one saves. A coordinator that is slow, or not
//! there, holds up those who wait for a save, and nobody else: what changes meanwhile is in the next write.

use std::sync::Arc;

use tailrace_coordination::stream_consumers::{
    ConsumersAnswer, ConsumersError, ConsumersRequest, KeptConsumer,
};
use tailrace_env::task::{JoinSet, stopped};
use tailrace_env::time::{Duration, Instant, sleep_until};
use tailrace_env::{select, task};
use tailrace_types::TopicId;

use super::super::serve::{NotServed, answer, led};
use super::beside::{Beside, moment};
use super::kept::{KeepFailure, ask};
use super::member::{Member, Turn};
use super::rules;
use super::unsaved::Gathered;
use super::writer::Writer;
use crate::node::Node;
use crate::retry::Pauses;

/// Pauses before another attempt.
const PAUSES: Pauses = Pauses::doubling(Duration::from_millis(10), Duration::from_secs(1));

/// Time in which the table has to be there, before it is asked for again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Consumers that are loaded under one lock.
const LOADED_AT_ONCE: usize = 8;

/// Longest pause of the task that saves.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Time for what has to be saved before the node stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// This node must not write any more: another one leads the stream, or the server stops.
#[derive(Debug)]
pub(super) struct Over;

/// Asks the coordinator until it answers. It is asked with another sequence, or not at all, once this node no
/// longer leads.
async fn insist(
    node: &Arc<Node>,
    beside: &Beside,
    request: ConsumersRequest,
) -> Result<ConsumersAnswer, Over> {
    let (mut retry, mut stopping) = (PAUSES.without_end(), node.stopping.subscribe());
    loop {
        if !beside.is_led() || *stopping.borrow() {
            return Err(Over);
        }
        let failure = match ask(node, request.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let topic = &beside.handle.id.topic;
        match &failure {
            // The other node learns of the topic soon.
            KeepFailure::Refused(ConsumersError::UnknownStream) | KeepFailure::Coordinator(_) => {}
            KeepFailure::Refused(refused) => {
                tracing::info!(%topic, %refused, "the consumers of a stream are loaded again");
                return Err(Over);
            }
        }
        if retry.is_longest() {
            tracing::warn!(%topic, %failure, "the consumers of a stream cannot be loaded or saved yet");
        }
        select! {
            _ = retry.pause() => {}
            () = stopped(&mut stopping) => return Err(Over),
        }
    }
}

/// Loads the consumers.
pub(super) async fn load(node: &Arc<Node>, beside: &Arc<Beside>) -> Result<(), Over> {
    let topic = TopicId(beside.topic);
    let open = ConsumersRequest::Open { topic, leader_epoch: beside.epoch.get() };
    let ConsumersAnswer::Opened(generation) = insist(node, beside, open).await? else { return Err(Over) };
    let (mut kept, mut has_more) = (Vec::new(), true);
    while has_more {
        let after = kept.last().map_or_else(String::new, |last: &KeptConsumer| last.name.clone());
        let read = ConsumersRequest::Read { topic, generation, after };
        let ConsumersAnswer::Page(page) = insist(node, beside, read).await? else { return Err(Over) };
        has_more = page.has_more;
        kept.extend(page.consumers);
    }
    let count = kept.len();
    let kept: Arc<[KeptConsumer]> = kept.into();
    for first in (0..count).step_by(LOADED_AT_ONCE) {
        restore(node, beside, &kept, first).await?;
    }
    if count > 0 {
        tracing::info!(topic = %beside.handle.id.topic, count, "loaded the consumers of a stream");
    }
    beside.loaded(Writer { generation, sequence: 0 });
    Ok(())
}

/// Has some of the consumers beside the table, once that is there.
async fn restore(
    node: &Arc<Node>,
    beside: &Arc<Beside>,
    kept: &Arc<[KeptConsumer]>,
    first: usize,
) -> Result<(), Over> {
    let mut retry = PAUSES.without_end();
    loop {
        if !beside.is_led() || *node.stopping.borrow() {
            return Err(Over);
        }
        if let Ok(led) = led(node, beside.topic) {
            let (beside, kept, bounds) =
                (Arc::clone(beside), Arc::clone(kept), rules::bounds(&node.config()));
            let looked = answer(node, led, Instant::now() + PATIENCE, move |table, led| {
                beside.look(table, &led.live, |state, turn| {
                    for one in kept.iter().skip(first).take(LOADED_AT_ONCE) {
                        restore_one(one, bounds, turn).into_iter().for_each(|member| state.add(turn, member));
                    }
                });
                Ok(())
            });
            match looked.await {
                Ok(()) => return Ok(()),
                Err(NotServed::Elsewhere(_)) => {}
                Err(NotServed::Failed(failure)) if retry.is_longest() => {
                    tracing::warn!(%failure, "the consumers of a stream wait for its table");
                }
                Err(NotServed::Failed(_)) => {}
            }
        }
        retry.pause().await;
    }
}

/// A consumer that cannot be read is left out, and stays in the log until one of its name is created.
fn restore_one(
    kept: &KeptConsumer,
    bounds: tailrace_jetstream::consumer::Bounds,
    turn: Turn<'_>,
) -> Option<Member> {
    match Member::load(kept, bounds, turn) {
        Ok(member) => Some(member),
        Err(reason) => {
            let (stream, consumer) = (&kept.whole.stream, &kept.name);
            tracing::error!(%stream, %consumer, %reason, "a durable consumer cannot be read, it is left out");
            None
        }
    }
}

/// Saves what changes, until the consumers end.
pub(super) async fn save(node: Arc<Node>, beside: Arc<Beside>) {
    if let Err(Over) = save_until_over(&node, &beside).await {
        beside.give_up();
    }
}

async fn save_until_over(node: &Arc<Node>, beside: &Arc<Beside>) -> Result<(), Over> {
    loop {
        let gathering = {
            let beside = Arc::clone(beside);
            task::spawn_blocking(move || beside.gather())
        };
        match gathering.await {
            Ok(Ok(Some(gathered))) => write(node, beside, gathered).await?,
            Ok(Ok(None)) => {
                select! {
                    () = beside.save_wake.notified() => {}
                    () = sleep_until(due(beside)) => {}
                    () = beside.over() => return Ok(()),
                }
            }
            Ok(Err(error)) => {
                tracing::error!(topic = %beside.handle.id.topic, %error, "consumers are loaded again");
                return Err(Over);
            }
            Err(error) => {
                tracing::error!(%error, "a bug in the server: saving the consumers of a stream panicked");
                return Err(Over);
            }
        }
    }
}

async fn write(node: &Arc<Node>, beside: &Arc<Beside>, gathered: Gathered) -> Result<(), Over> {
    if !gathered.is_empty() {
        let Writer { generation, sequence } = beside.next_write().ok_or(Over)?;
        let (topic, write) = (TopicId(beside.topic), gathered.write.clone());
        insist(node, beside, ConsumersRequest::Write { topic, generation, sequence, write }).await?;
        node.streams.consumers.count_save();
    }
    let beside = Arc::clone(beside);
    task::spawn_blocking(move || beside.saved(gathered)).await.map_err(|error| {
        tracing::error!(%error, "a bug in the server: saving the consumers of a stream panicked");
        Over
    })
}

/// Saves what nobody waits for, before the node stops or others lead. Takes [`STOP_TIMEOUT`] at most: what is
/// not saved comes again.
pub(crate) async fn save_all(node: &Node) {
    let (deadline, mut saving) = (Instant::now() + STOP_TIMEOUT, JoinSet::new());
    for beside in node.streams.consumers.all() {
        saving.spawn(async move {
            let asked = Arc::clone(&beside);
            if let Ok(Some(round)) = task::spawn_blocking(move || asked.save_now()).await {
                // What is late comes again.
                let _ = beside.wait_saved(round, deadline).await;
            }
        });
    }
    while saving.join_next().await.is_some() {}
}

fn due(beside: &Beside) -> Instant {
    let left_ns = beside.save_due_ns().saturating_sub(moment().now_ns);
    let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0));
    Instant::now() + left.min(PAUSE_MAX)
}

/// Whether the stream may have durable consumers that this node does not know of.
pub(super) fn may_be_kept(node: &Node) -> bool {
    node.topics().by_name(tailrace_metadata::JETSTREAM_STATE_TOPIC).is_some()
}
