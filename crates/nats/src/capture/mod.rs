//! NATS messages into the log: what one read of one connection publishes to captured subjects becomes one batch for each
//! partition.
//!
//! The batches are appended in the order in which the connection sent their messages. A message without a reply subject is
//! appended and nothing more is heard of it; one with a reply subject is acknowledged as JetStream does it (`acks`), unless its
//! topic says otherwise. Batches are built here, so they need not be validated: times, keys, codec and size are as the topic's
//! settings ask for.
//!
//! Whether a batch is appended here or goes to the leader of its partition is decided by `tailrace_node::relay`.
//!
//! Deliberately not here: who is subscribed (router), and what a message looks like as a record (mapping).

mod acks;
mod binding;
mod bindings;
mod captures;
mod demands;
mod lanes;
mod line;
mod metrics;

use std::sync::Arc;

use tailrace_env::sync::oneshot;
use tailrace_env::task;
use tailrace_nats_wire::Message;
use tailrace_records::partition_of_key;
use tailrace_types::{PartitionId, TimestampMs};

pub(crate) use self::binding::Binding;
pub(crate) use self::captures::Captures;
use self::lanes::{Lane, Lanes};
pub(crate) use self::metrics::CaptureMetrics;
use crate::capture::acks::{Failure, Replies, Telling};
use crate::capture::demands::{Unmet, unmet_of};
use crate::capture::line::Line;
use crate::mapping::RecordScratch;
use crate::server::NatsServer;
use tailrace_env::aside::Turn;
use tailrace_env::time::wall_clock;
use tailrace_node::Caller;
use tailrace_node::partitions::Topic;
use tailrace_node::relay::{self, Batch, Stored, Told};

/// A message that is not stored, since it demands more than that.
struct Refused {
    topic: Arc<Topic>,
    partition: u32,
    unmet: Unmet,
    /// Who wants to be told.
    replies: Replies,
}

/// What one connection has published to captured subjects since the last append.
#[derive(Default)]
pub(crate) struct CaptureBurst {
    lanes: Lanes,
    /// Messages that demand what is not done.
    refused: Vec<Refused>,
    scratch: RecordScratch,
    /// The last topic, so that a run of messages for one looks it up once.
    current: Option<(Arc<Binding>, Arc<Topic>)>,
    /// Where the last message's subject lies.
    last: usize,
    now: Option<TimestampMs>,
    /// Those who are told what became of their messages; `None` before the first append.
    line: Option<Line>,
}

/// Whose messages are captured.
#[derive(Clone, Copy)]
struct Origin<'a> {
    server: &'a Arc<NatsServer>,
    caller: &'a Caller,
    line: &'a Line,
}

impl CaptureBurst {
    /// Takes a message for the topic. Of one message and topic only the first call counts: while a topic's patterns change, two of
    /// them may match.
    pub(crate) fn push(&mut self, binding: &Arc<Binding>, message: &Message<'_>) {
        let place = message.subject.as_ptr() as usize;
        let same = self.current.as_ref().is_some_and(|(current, _)| Arc::ptr_eq(current, binding));
        if same && place == self.last {
            return;
        }
        if !same {
            self.current = Some((Arc::clone(binding), binding.topic()));
        }
        self.last = place;
        let Self { lanes, refused, scratch, current, now, .. } = self;
        let (_, topic) = current.as_ref().expect("it is this binding's by now");
        let now = *now.get_or_insert_with(wall_clock);
        scratch.with(message, |record| {
            let partition = partition_of_key(record.key, topic.partition_count().unsigned_abs());
            let reply = message.reply.filter(|_| topic.config.tailrace_subjects_ack);
            if let Some(unmet) = unmet_of(message, |name| acks::is_stream(topic, partition, name)) {
                let replies = Replies::of_one(reply);
                refused.push(Refused { topic: Arc::clone(topic), partition, unmet, replies });
                return;
            }
            lanes.push(topic, partition, now, &record, reply);
        });
    }

    /// True if there is nothing to append, and nobody to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.refused.is_empty()
    }

    /// Appends everything, in order. What is to be acknowledged is so once it is as durable as its topic promises; that is waited
    /// for only if there are too many acknowledgements that wait, or if another node may lead the partition: what follows must not
    /// pass it then. What is told at once is waited for.
    pub(crate) async fn append(&mut self, server: &Arc<NatsServer>, caller: &Caller) {
        let now = self.now.take().unwrap_or_else(wall_clock);
        self.current = None;
        self.last = 0;
        let line = self.line.get_or_insert_with(Line::default).clone();
        let origin = Origin { server, caller, line: &line };
        for Refused { topic, partition, unmet, replies } in std::mem::take(&mut self.refused) {
            lost(origin, &topic, partition, 1, replies, &Failure::Unmet(unmet)).await;
        }
        let mut forwarded = Vec::new();
        let mut turn = Turn::begin();
        for lane in self.lanes.take() {
            turn.rest().await;
            forwarded.extend(append_lane(origin, lane, now).await);
        }
        for done in forwarded {
            // It ends when its sender is dropped.
            let _ = done.await;
        }
    }
}

/// What comes back ends once a batch that was forwarded is stored or refused, and those who wait have been told.
async fn append_lane(origin: Origin<'_>, lane: Lane, now: TimestampMs) -> Option<oneshot::Receiver<()>> {
    let Origin { server, caller, line } = origin;
    let Lane { topic, partition, builder, mut replies, too_large, refused, .. } = lane;
    let metrics = &server.front.metrics().capture;
    if too_large > 0 {
        lost(origin, &topic, partition, too_large, refused, &Failure::TooLarge).await;
    }
    let (count, bytes) = (builder.len(), builder.bytes_estimate() as u64);
    if count == 0 {
        return None;
    }
    let number = i32::try_from(partition).expect("partitions have numbers of 31 bits");
    let mut told = None;
    let forwarded = || {
        let (done, ended) = oneshot::channel();
        told = Some(ended);
        let replies = std::mem::take(&mut replies);
        Forwarded { topic: Arc::clone(&topic), partition, count, bytes, replies, done }.told(origin)
    };
    let batch = Batch { topic: &topic, partition: PartitionId(number), builder, now };
    let stored = relay::store(&server.node, caller, batch, forwarded).await;
    match stored {
        Ok(Stored::Here(stored)) => {
            metrics.messages.inc_by(count as u64);
            metrics.bytes.inc_by(stored.bytes);
            metrics.batches.inc();
            acks::acknowledge(server, line, &topic, partition, &stored, replies).await;
            None
        }
        // It ends before those who wait have been told.
        Ok(Stored::UnderWay(_)) => told,
        Err(failure) => {
            lost(origin, &topic, partition, count, replies, &failure.into()).await;
            None
        }
    }
}

/// A batch that is under way to the leader of its partition.
struct Forwarded {
    topic: Arc<Topic>,
    partition: u32,
    /// Its messages.
    count: usize,
    /// Its bytes, before compression.
    bytes: u64,
    replies: Replies,
    /// Dropped when those who wait have been told, or never will be.
    done: oneshot::Sender<()>,
}

impl Forwarded {
    /// Counts it once it is stored, and tells those who wait.
    fn told(self, origin: Origin<'_>) -> Told {
        let Origin { server, caller, line } = origin;
        let (server, caller, line) = (Arc::clone(server), caller.clone(), line.clone());
        let Self { topic, partition, count, bytes, replies, done } = self;
        Box::new(move |stored| {
            let is_anybody_waiting = !replies.is_empty();
            let telling = match stored {
                Ok(first) => {
                    let metrics = &server.front.metrics().capture;
                    metrics.messages.inc_by(count as u64);
                    metrics.bytes.inc_by(bytes);
                    metrics.batches.inc();
                    metrics.forwarded.inc_by(count as u64);
                    acks::tell(&server, &line, &topic, partition, first, replies)
                }
                Err(failure) => {
                    let origin = Origin { server: &server, caller: &caller, line: &line };
                    lost(origin, &topic, partition, count, replies, &failure.into())
                }
            };
            if is_anybody_waiting {
                // Whoever stores batches does not wait for this; whoever publishes does, so that there is one for each lane.
                task::spawn(async move {
                    telling.await;
                    drop(done);
                });
            }
        })
    }
}

/// Counts, writes a line to the log for those who asked for no answer, once in a while, and tells the others.
fn lost(
    origin: Origin<'_>,
    topic: &Topic,
    partition: u32,
    count: usize,
    replies: Replies,
    failure: &Failure,
) -> Telling {
    let Origin { server, caller, line } = origin;
    server.front.metrics().capture.errors(failure.label()).inc_by(count as u64);
    if replies.len() < count && server.front.captures().may_log() {
        tracing::warn!(
            %caller, topic = %topic.name, partition, messages = count - replies.len(), reason = %failure,
            "captured messages were not stored; further losses are counted, and logged once a second at most"
        );
    }
    acks::tell_failure(server, line, topic, partition, replies, failure)
}
