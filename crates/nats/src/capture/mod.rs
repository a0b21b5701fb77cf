//! NATS messages into the log. The messages that one read of a connection publishes to captured subjects
//! become one batch for each partition.
//!
//! Batches are appended in the order in which the connection sent their messages. A message without a reply
//! subject is appended without an acknowledgement. One with a reply subject is acknowledged as in JetStream
//! (`acks`), unless its topic's settings say otherwise. Batches are built here, so they need no validation.
//! Their times, keys, codec and size follow the topic's settings.
//!
//! Messages that ask a stream of JetStream for more than storage (`demands`) take their place among the
//! others. A batch with such messages is judged by the leader of the stream (`judged`).
//!
//! `tailrace_node::relay` decides whether a batch is appended here or forwarded to the leader of its
//! partition.
//!
//! Out of scope: subscriptions (router), and the form of a message as a record (mapping).

mod acks;
mod binding;
mod bindings;
mod captures;
mod demands;
mod judged;
mod lanes;
mod line;
mod metrics;
mod origin;

use std::sync::Arc;

use tailrace_env::sync::oneshot;
use tailrace_env::task;
use tailrace_nats_wire::Message;
use tailrace_records::partition_of_key;
use tailrace_types::{PartitionId, TimestampMs};

pub(crate) use self::binding::Binding;
use self::binding::Judging;
pub(crate) use self::captures::Captures;
use self::lanes::{Lane, Lanes, Place};
pub(crate) use self::metrics::CaptureMetrics;
use self::origin::{Origin, lost};
use crate::capture::acks::{Failure, Replies};
use crate::capture::demands::{Demand, Unmet, demand_of, unmet_of};
use crate::capture::line::Line;
use crate::mapping::RecordScratch;
use crate::server::NatsServer;
use tailrace_env::aside::Turn;
use tailrace_env::time::wall_clock;
use tailrace_node::Caller;
use tailrace_node::partitions::Topic;
use tailrace_node::relay::{self, Batch, Stored, Told};

/// A message that is not stored because of an unmet demand.
struct Refused {
    topic: Arc<Topic>,
    partition: u32,
    unmet: Unmet,
    /// Its reply subject, if it has one.
    replies: Replies,
}

/// The messages that one connection has published to captured subjects since the last append.
#[derive(Default)]
pub(crate) struct CaptureBurst {
    lanes: Lanes,
    /// Messages with unmet demands.
    refused: Vec<Refused>,
    scratch: RecordScratch,
    /// The last topic, so that a run of messages for it looks it up once.
    current: Option<(Arc<Binding>, Arc<Topic>)>,
    /// Address of the last message's subject.
    last: usize,
    now: Option<TimestampMs>,
    /// The line of the connection's acknowledgements. `None` before the first append.
    line: Option<Line>,
}

impl CaptureBurst {
    /// Adds a message for the topic. Only the first call for a message and topic counts, because two patterns
    /// of the topic may match while they change.
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
        let (_, topic) = current.as_ref().expect("it was set above");
        let now = *now.get_or_insert_with(wall_clock);
        scratch.with(message, |record| {
            let partition = partition_of_key(record.key, topic.partition_count().unsigned_abs());
            let reply = message.reply.filter(|_| topic.config.tailrace_subjects_ack);
            let demand = match binding.judging() {
                // The way of nearly all messages: no header, and no rule.
                Judging::OnDemand if message.headers.is_none() && message.reply.is_none() => Demand::Storage,
                Judging::OnDemand => demand_of(message),
                Judging::Always => match demand_of(message) {
                    Demand::Unmet(unmet) => Demand::Unmet(unmet),
                    Demand::Storage | Demand::Judgement => Demand::Judgement,
                },
                Judging::Never => unmet_of(message, |name| acks::is_stream(topic, partition, name))
                    .map_or(Demand::Storage, Demand::Unmet),
            };
            if let Demand::Unmet(unmet) = demand {
                let replies = Replies::of_one(reply);
                refused.push(Refused { topic: Arc::clone(topic), partition, unmet, replies });
                return;
            }
            let is_judged = demand == Demand::Judgement;
            lanes.push(&Place { topic, partition, reply, is_judged }, now, &record);
        });
    }

    /// Ends the calls for one message. Needed before a message that may lie where another one lay.
    pub(crate) fn end_message(&mut self) {
        self.last = 0;
    }

    /// Reports whether there is nothing to append or to refuse.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.refused.is_empty()
    }

    /// Appends everything, in order. Messages are acknowledged once they are as durable as their topic
    /// promises. This waits for that only if too many acknowledgements are pending, or if another node may
    /// lead the partition, because later messages must not overtake then. Acknowledgements that can be
    /// published at once are waited for.
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

/// Appends a batch. If it was forwarded, returns a receiver that ends once the batch is stored or refused and
/// its acknowledgements are published.
async fn append_lane(origin: Origin<'_>, lane: Lane, now: TimestampMs) -> Option<oneshot::Receiver<()>> {
    let Origin { server, caller, line } = origin;
    let Lane { topic, partition, builder, mut replies, too_large, refused, is_judged, .. } = lane;
    let metrics = &server.front.metrics().capture;
    if too_large > 0 {
        lost(origin, &topic, partition, too_large, refused, &Failure::TooLarge).await;
    }
    let (count, bytes) = (builder.len(), builder.bytes_estimate() as u64);
    if count == 0 {
        return None;
    }
    let number = i32::try_from(partition).expect("partitions have numbers of 31 bits");
    if is_judged {
        let batch = Batch { topic: &topic, partition: PartitionId(number), builder, now };
        // Boxed, so that a connection's task keeps no room for it.
        return Box::pin(judged::publish(origin, batch, replies)).await;
    }
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
        // The future in `Stored::UnderWay` ends before the acknowledgements are published.
        Ok(Stored::UnderWay(_)) => told,
        Err(failure) => {
            lost(origin, &topic, partition, count, replies, &failure.into()).await;
            None
        }
    }
}

/// A batch that was forwarded to the leader of its partition.
struct Forwarded {
    topic: Arc<Topic>,
    partition: u32,
    /// Number of messages.
    count: usize,
    /// Number of bytes, before compression.
    bytes: u64,
    replies: Replies,
    /// Dropped when the acknowledgements have been published, or never will be.
    done: oneshot::Sender<()>,
}

impl Forwarded {
    /// Returns the callback for the outcome. It counts a stored batch, and publishes the acknowledgements.
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
                // The task that stores batches does not wait for this. The publisher does, so there is at
                // most one per lane.
                task::spawn(async move {
                    telling.await;
                    drop(done);
                });
            }
        })
    }
}
