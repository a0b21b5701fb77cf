//! Messages that the leader of a stream judges.

use std::sync::Arc;

use tailrace_env::sync::oneshot;
use tailrace_env::task;
use tailrace_node::partitions::Topic;
use tailrace_node::relay::{self, Batch, Judged, JudgedHere, NotStored, ToldEach};
use tailrace_node::streams::Published;

use super::acks::{self, Failure, Replies, Telling};
use super::origin::{Origin, lost};

/// Has a batch judged. Returns a receiver that ends once that is done, and the outcome is published, if a
/// leader was asked that may be another node.
pub(super) async fn publish(
    origin: Origin<'_>,
    batch: Batch<'_>,
    mut replies: Replies,
) -> Option<oneshot::Receiver<()>> {
    let Origin { server, caller, .. } = origin;
    let (topic, count) = (Arc::clone(batch.topic), batch.builder.len());
    let bytes = batch.builder.bytes_estimate() as u64;
    let mut told = None;
    let waiter = || {
        let (done, ended) = oneshot::channel();
        told = Some(ended);
        let replies = std::mem::take(&mut replies);
        Forwarded { topic: Arc::clone(&topic), count, bytes, replies, done }.told(origin)
    };
    let judged = relay::publish(&server.node, caller, batch, waiter).await;
    match judged {
        Ok(Judged::UnderWay(_)) => told,
        Ok(Judged::Here(here)) => {
            here_judged(origin, &topic, here, replies).await;
            None
        }
        Err(failure) => {
            lost(origin, &topic, 0, count, replies, &failure.into()).await;
            None
        }
    }
}

/// Tells what became of messages that were judged on this node, once that is committed. Waits as
/// [`acks::acknowledge`] does.
async fn here_judged(origin: Origin<'_>, topic: &Arc<Topic>, here: JudgedHere, replies: Replies) {
    let Origin { server, line, .. } = origin;
    let metrics = &server.front.metrics().capture;
    let stored = here.stored();
    metrics.messages.inc_by(stored);
    metrics.bytes.inc_by(here.bytes());
    metrics.batches.inc_by(u64::from(stored > 0));
    let (published, committing) = here.into_parts();
    count(origin, &published);
    let Some(committing) = committing else {
        return acks::tell_each(server, line, topic, published, replies).await;
    };
    if replies.is_empty() {
        return;
    }
    let captures = server.front.captures();
    let waiting = u32::try_from(replies.len()).unwrap_or(u32::MAX).min(captures.acks_max);
    // The connection's own room comes first. A connection that waits for it does not block others.
    let room = line.room(replies.bytes()).await;
    // The semaphore is never closed.
    let Ok(permit) = Arc::clone(&captures.acks).acquire_many_owned(waiting).await else { return };
    let (server, line, topic) = (Arc::clone(server), line.clone(), Arc::clone(topic));
    metrics.acks_waiting.inc_by(waiting.into());
    task::spawn(async move {
        let committed = committing.committed().await;
        server.front.metrics().capture.acks_waiting.dec_by(waiting.into());
        drop(permit);
        let telling = match committed {
            Ok(()) => acks::tell_each(&server, &line, &topic, published, replies),
            Err(failure) => {
                let failure = Failure::from(failure);
                server.front.metrics().capture.errors(failure.label()).inc_by(replies.len() as u64);
                acks::tell_failure(&server, &line, &topic, 0, replies, &failure)
            }
        };
        telling.await;
        drop(room);
    });
}

/// Counts the messages that are not stored.
fn count(origin: Origin<'_>, published: &[Published]) {
    let (mut refused, mut repeated) = (0, 0);
    for published in published {
        match published {
            Published::Stored(_) => {}
            Published::Duplicate(_) => repeated += 1,
            Published::Refused(_) => refused += 1,
        }
    }
    let metrics = &origin.server.front.metrics().capture;
    for (label, count) in [("refused_by_stream", refused), ("duplicate", repeated)] {
        if count > 0 {
            metrics.errors(label).inc_by(count);
        }
    }
}

/// A batch that was forwarded to the leader of its stream.
struct Forwarded {
    topic: Arc<Topic>,
    count: usize,
    /// Number of bytes, before compression.
    bytes: u64,
    replies: Replies,
    /// Dropped when the outcome has been published, or never will be.
    done: oneshot::Sender<()>,
}

impl Forwarded {
    fn told(self, origin: Origin<'_>) -> ToldEach {
        let (server, caller, line) = (Arc::clone(origin.server), origin.caller.clone(), origin.line.clone());
        Box::new(move |outcome: Result<Vec<Published>, NotStored>| {
            let Self { topic, count: messages, bytes, replies, done } = self;
            let is_anybody_waiting = !replies.is_empty();
            let origin = Origin { server: &server, caller: &caller, line: &line };
            let telling: Telling = match outcome {
                Ok(published) => {
                    let is_stored = |published: &&Published| matches!(published, Published::Stored(_));
                    let stored = published.iter().filter(is_stored).count() as u64;
                    let metrics = &server.front.metrics().capture;
                    metrics.messages.inc_by(stored);
                    metrics.bytes.inc_by(bytes);
                    metrics.batches.inc();
                    metrics.forwarded.inc_by(stored);
                    count(origin, &published);
                    acks::tell_each(&server, &line, &topic, published, replies)
                }
                Err(failure) => lost(origin, &topic, 0, messages, replies, &failure.into()),
            };
            if is_anybody_waiting {
                // The task that asks the leader does not wait for this. The publisher does, so there is at
                // most one per lane.
                task::spawn(async move {
                    telling.await;
                    drop(done);
                });
            }
        })
    }
}
