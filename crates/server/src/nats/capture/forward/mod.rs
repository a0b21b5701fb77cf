//! Captured messages to the leader of their partition, wherever that is, stored once.
//!
//! Where several nodes may lead a partition, each node is an idempotent producer to it: its batches carry a producer id from the
//! controller and sequences, which the partition's replicated state remembers. A request whose answer is lost, or whose leader
//! is deposed, is put again unchanged, to whoever leads then; what is stored already is recognised. One request of a partition is
//! under way at a time, with as many batches as are remembered. `queue`: what waits. `serve`: the leader's side. `wire`: the bytes.

mod queue;
mod serve;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_records::BatchBuilder;
use tailrace_types::{GroupId, NodeId, Offset, ProducerEpoch};
use tokio::sync::oneshot;

pub(crate) use self::queue::Forwards;
use self::queue::{Item, Producer, Pushed, Waiter};
pub(crate) use self::serve::serve;
use self::serve::store_here;
use self::wire::Answer;
use super::acks::{self, Failure, Replies};
use super::{COMPRESS_INLINE_BYTES, lost};
use crate::broker::Broker;
use crate::cluster::partition_of;
use crate::partitions::Topic;
use crate::peers::RequestKind;

/// Pause before a request is put again; doubles up to the second.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// How often it is looked whether another node leads, while one does not answer.
const LOOK: Duration = Duration::from_millis(50);

/// Queues the batch of one partition. What comes back ends once it is stored or refused, and everybody has been told.
pub(super) fn push(
    broker: &Arc<Broker>,
    (topic, partition): (Arc<Topic>, u32),
    builder: BatchBuilder,
    replies: Replies,
) -> Option<oneshot::Receiver<()>> {
    let count = builder.len();
    let group = GroupId { topic: topic.id, partition: partition_id(partition) };
    match broker.nats.captures().forwards.push(group, (Arc::clone(&topic), partition), builder, replies) {
        Pushed::Waits { starts, done } => {
            if starts {
                tokio::spawn(run(Arc::clone(broker), group));
            }
            Some(done)
        }
        Pushed::Full(replies) => {
            lost(broker, &topic, partition, (count, &replies), &Failure::QueueFull);
            None
        }
    }
}

fn partition_id(partition: u32) -> tailrace_types::PartitionId {
    tailrace_types::PartitionId(i32::try_from(partition).unwrap_or(i32::MAX))
}

/// Forwards what waits for one partition, until there is nothing.
async fn run(broker: Arc<Broker>, group: GroupId) {
    let forwards = &broker.nats.captures().forwards;
    let mut stopping = broker.stopping.subscribe();
    while let Some((items, producer)) = forwards.take(group) {
        let bytes = items.iter().map(|item| item.waiter.bytes).sum();
        tokio::select! {
            () = forward(&broker, group, items, producer) => {}
            // Whoever waits is about to be closed.
            () = Broker::stopped(&mut stopping) => forwards.set_producer(group, None),
        }
        forwards.release(bytes);
    }
}

/// Batches as they are sent, and who waits for each.
struct Prepared {
    batches: Vec<Bytes>,
    waiters: Vec<Waiter>,
    deadline: Instant,
}

async fn forward(broker: &Arc<Broker>, group: GroupId, items: Vec<Item>, producer: Option<Producer>) {
    let deadline = items.iter().map(|item| item.deadline).min().unwrap_or_else(Instant::now);
    let (builders, waiters): (Vec<_>, Vec<_>) =
        items.into_iter().map(|item| (item.builder, item.waiter)).unzip();
    let forwards = &broker.nats.captures().forwards;
    // Until this is done, nothing is known of the producer: what is given up may be stored or not.
    forwards.set_producer(group, None);
    let producer = match producer {
        Some(producer) => producer,
        None => match new_producer(broker, deadline).await {
            Ok(producer) => producer,
            Err(failure) => return fail(broker, &waiters, &failure),
        },
    };
    let Some((batches, producer)) = build(builders, producer).await else {
        return fail(broker, &waiters, &Failure::Gone);
    };
    let prepared = Prepared { batches, waiters, deadline };
    let waiters = &prepared.waiters;
    match put(broker, group, &prepared).await {
        Ok(Answer::Stored(stored)) if stored.len() == waiters.len() => {
            forwards.set_producer(group, Some(producer));
            tell(broker, waiters, &stored);
        }
        Ok(Answer::Refused { stored, reason }) => {
            let (told, refused) = waiters.split_at(stored.len().min(waiters.len()));
            tell(broker, told, &stored);
            fail(broker, refused, &Failure::Refused(reason));
        }
        Ok(_) => fail(broker, waiters, &Failure::Unanswered("the leader's answer makes no sense".to_owned())),
        Err(failure) => fail(broker, waiters, &failure),
    }
}

async fn new_producer(broker: &Arc<Broker>, deadline: Instant) -> Result<Producer, Failure> {
    let mut pause = PAUSE_MIN;
    loop {
        let work = Arc::clone(broker);
        // Spawned, so that a block of ids that was reserved is noted whatever becomes of this.
        let id =
            tokio::spawn(
                async move { work.controller.next_producer_id(&work.producer_ids, work.now()).await },
            );
        let reason = match tokio::time::timeout_at(deadline.into(), id).await {
            Ok(Ok(Ok(id))) => return Ok(Producer { id, next_sequence: 0 }),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the controller does not answer".to_owned(),
        };
        if Instant::now() + pause >= deadline {
            return Err(Failure::NoLeader(reason));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Builds the batches of a producer, and says with which sequence it goes on. `None` if a worker panicked.
async fn build(builders: Vec<BatchBuilder>, producer: Producer) -> Option<(Vec<Bytes>, Producer)> {
    let bytes: usize = builders.iter().map(BatchBuilder::bytes_estimate).sum();
    let work = move || {
        let mut next = producer;
        let batches = builders.into_iter().map(|builder| {
            let first = next.next_sequence;
            next.next_sequence += i32::try_from(builder.len()).unwrap_or(i32::MAX);
            builder.of_producer(next.id, ProducerEpoch(0), first).build()
        });
        (batches.collect(), next)
    };
    if bytes > COMPRESS_INLINE_BYTES {
        return tokio::task::spawn_blocking(work).await.ok();
    }
    Some(work())
}

/// Puts the request to the leader, whichever node that is, until there is an answer for certain or the time is up.
async fn put(broker: &Arc<Broker>, group: GroupId, prepared: &Prepared) -> Result<Answer, Failure> {
    let mut pause = PAUSE_MIN;
    let mut reason = "no node leads the partition".to_owned();
    let mut put_once = false;
    let attempts = async {
        loop {
            if let Some(node) = leader(broker, group) {
                put_once = true;
                match put_to(broker, node, group, prepared).await {
                    Answer::Again(why) => reason = why,
                    answer => return answer,
                }
                broker.nats.metrics().capture.retries.inc();
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    match tokio::time::timeout_at(prepared.deadline.into(), attempts).await {
        Ok(answer) => Ok(answer),
        Err(_) if put_once => Err(Failure::Unanswered(reason)),
        Err(_) => Err(Failure::NoLeader(reason)),
    }
}

/// The node that leads, as far as is known.
fn leader(broker: &Broker, group: GroupId) -> Option<NodeId> {
    if partition_of(broker, group).is_some_and(|handle| handle.leads().is_some()) {
        return Some(broker.node());
    }
    // A partition with one replica is led where that is, and nobody says so.
    let announced = broker.links.leader(group).map(|leader| leader.replica.node());
    announced.or_else(|| {
        let image = broker.image();
        let partition = image.topic_by_id(group.topic)?.partition(group.partition)?;
        match &partition.replicas[..] {
            [only] => Some(only.node()),
            _ => None,
        }
    })
}

/// One attempt. Ends early when another node is known to lead.
async fn put_to(broker: &Arc<Broker>, node: NodeId, group: GroupId, prepared: &Prepared) -> Answer {
    let again = |reason: &dyn std::fmt::Display| Answer::Again(reason.to_string());
    if node == broker.node() {
        let stored = tokio::spawn(store_here(Arc::clone(broker), group, prepared.batches.clone())).await;
        return stored.unwrap_or_else(|error| again(&error));
    }
    let Some(peers) = broker.links.peers() else { return again(&"the node is alone") };
    let body = wire::encode_request(group, &prepared.batches);
    let left = prepared.deadline.saturating_duration_since(Instant::now());
    let moved = async {
        loop {
            tokio::time::sleep(LOOK).await;
            if leader(broker, group).is_some_and(|leader| leader != node) {
                return;
            }
        }
    };
    tokio::select! {
        answer = peers.request(node, RequestKind::Nats, body, left) => match answer {
            Ok(answer) => Answer::decode(answer).unwrap_or_else(|| again(&"the leader's answer makes no sense")),
            Err(error) => again(&error),
        },
        () = moved => again(&"the partition has another leader since"),
    }
}

fn tell(broker: &Broker, waiters: &[Waiter], stored: &[Offset]) {
    let metrics = &broker.nats.metrics().capture;
    for (waiter, first) in waiters.iter().zip(stored) {
        metrics.messages.inc_by(waiter.count as u64);
        metrics.bytes.inc_by(waiter.bytes);
        metrics.batches.inc();
        metrics.forwarded.inc_by(waiter.count as u64);
        acks::tell(broker, (&waiter.topic, waiter.partition), *first, &waiter.replies);
    }
}

fn fail(broker: &Broker, waiters: &[Waiter], failure: &Failure) {
    for waiter in waiters {
        lost(broker, &waiter.topic, waiter.partition, (waiter.count, &waiter.replies), failure);
    }
}
