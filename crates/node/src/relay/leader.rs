//! What waits for the leader of a partition is put to it, until it is committed or refused.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, task, time};

use bytes::Bytes;
use tailrace_records::BatchBuilder;
use tailrace_types::{NodeId, Offset, ProducerEpoch, RaftGroup};

use super::build::{Building, build};
use super::failure::NotStored;
use super::queue::{Item, Producer, Waiter};
use super::serve::store_here;
use super::wire::{self, StoreAnswer};
use crate::caller::Caller;
use crate::node::Node;
use crate::retry::Pauses;
use tailrace_env::task::{JoinError, stopped};
use tailrace_peers::RequestKind;

/// Before a request is put again.
const PAUSES: Pauses = Pauses::doubling(Duration::from_millis(10), Duration::from_millis(200));

/// Time between two looks whether another node leads, while one does not answer.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Relays what waits for one partition, until there is nothing.
pub(super) async fn run(node: Arc<Node>, group: RaftGroup) {
    let mut stopping = node.stopping.subscribe();
    while let Some((items, producer)) = node.relay.take(group) {
        let under_way = node.relay.under_way(group, items.iter().map(|item| item.waiter.bytes).sum());
        select! {
            () = relay(&node, group, items, producer) => {}
            // Those who wait are about to be closed.
            () = stopped(&mut stopping) => node.relay.set_producer(group, None),
        }
        under_way.end();
    }
}

/// Batches as they are sent.
struct Prepared {
    batches: Vec<Bytes>,
    deadline: Instant,
}

async fn relay(node: &Arc<Node>, group: RaftGroup, items: Vec<Item>, producer: Option<Producer>) {
    let deadline = items.iter().map(|item| item.deadline).min().unwrap_or_else(Instant::now);
    let (builders, waiters): (Vec<_>, Vec<_>) =
        items.into_iter().map(|item| (item.builder, item.waiter)).unzip();
    // Until this is done, nothing is known of the producer: what is given up may be stored or not.
    node.relay.set_producer(group, None);
    let producer = match producer {
        Some(producer) => producer,
        None => match new_producer(node, deadline).await {
            Ok(producer) => producer,
            Err(failure) => return fail(waiters, &failure),
        },
    };
    let (batches, producer) = match build_all(builders, producer).await {
        Ok(built) => built,
        Err(error) => {
            tracing::error!(%group, %error, "building batches panicked");
            return fail(waiters, &NotStored::Panicked);
        }
    };
    match put(node, group, &Prepared { batches, deadline }).await {
        Ok(StoreAnswer::Stored(stored)) if stored.len() == waiters.len() => {
            node.relay.set_producer(group, Some(producer));
            tell(waiters, &stored);
        }
        Ok(StoreAnswer::Refused { stored, reason }) => {
            let mut told = waiters;
            let refused = told.split_off(stored.len().min(told.len()));
            tell(told, &stored);
            fail(refused, &NotStored::Refused(reason));
        }
        Ok(_) => fail(waiters, &NotStored::Unanswered("the leader's answer makes no sense".to_owned())),
        Err(failure) => fail(waiters, &failure),
    }
}

async fn new_producer(node: &Arc<Node>, deadline: Instant) -> Result<Producer, NotStored> {
    let mut retry = PAUSES.until(deadline);
    loop {
        let work = Arc::clone(node);
        // Spawned, so that a block of ids that was reserved is noted whatever becomes of this.
        let id =
            task::spawn(
                async move { work.controller.next_producer_id(&work.producer_ids, work.now()).await },
            );
        let reason = match time::timeout_at(deadline, id).await {
            Ok(Ok(Ok(id))) => return Ok(Producer { id, next_sequence: 0 }),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the controller does not answer".to_owned(),
        };
        if !retry.pause().await {
            return Err(NotStored::NoLeader(reason));
        }
    }
}

/// Builds the batches of a producer, and says with which sequence it goes on.
async fn build_all(
    builders: Vec<BatchBuilder>,
    producer: Producer,
) -> Result<(Vec<Bytes>, Producer), JoinError> {
    let work = move |builders: Vec<BatchBuilder>| {
        let mut next = producer;
        let batches = builders.into_iter().map(|builder| {
            let first = next.next_sequence;
            next.next_sequence += i32::try_from(builder.len()).unwrap_or(i32::MAX);
            builder.of_producer(next.id, ProducerEpoch(0), first).build()
        });
        (batches.collect(), next)
    };
    match build(builders, work) {
        Building::Done(built) => Ok(built),
        Building::OnWorker(worker) => worker.await,
    }
}

/// Puts the request to the leader, whichever node that is, until there is an answer for certain or the time is up.
async fn put(here: &Arc<Node>, group: RaftGroup, prepared: &Prepared) -> Result<StoreAnswer, NotStored> {
    let mut retry = PAUSES.until(prepared.deadline);
    let mut reason = "no node leads the partition".to_owned();
    let mut put_once = false;
    let attempts = async {
        loop {
            if let Some(node) = leader(here, group) {
                put_once = true;
                match put_to(here, node, group, prepared).await {
                    StoreAnswer::Again(why) => reason = why,
                    answer => return Some(answer),
                }
                here.relay.retries.inc();
            }
            if !retry.pause().await {
                return None;
            }
        }
    };
    match time::timeout_at(prepared.deadline, attempts).await {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) | Err(_) if put_once => Err(NotStored::Unanswered(reason)),
        Ok(None) | Err(_) => Err(NotStored::NoLeader(reason)),
    }
}

/// The node that leads, as far as is known.
fn leader(node: &Node, group: RaftGroup) -> Option<NodeId> {
    if node.partition_of(group).is_some_and(|handle| handle.leads().is_some()) {
        return Some(node.id());
    }
    // A partition with one replica is led where that is, and nobody says so.
    let announced = node.links.leader(group).map(|leader| leader.replica.node());
    announced.or_else(|| {
        let image = node.image();
        let partition = image.topic_by_id(group.topic)?.partition(group.partition)?;
        match &partition.replicas[..] {
            [only] => Some(only.node()),
            _ => None,
        }
    })
}

/// One attempt. Ends early when another node is known to lead.
async fn put_to(here: &Arc<Node>, node: NodeId, group: RaftGroup, prepared: &Prepared) -> StoreAnswer {
    let again = |reason: &dyn std::fmt::Display| StoreAnswer::Again(reason.to_string());
    if node == here.id() {
        let (caller, batches) = (Caller::internal().clone(), prepared.batches.clone());
        let stored = task::spawn(store_here(Arc::clone(here), caller, group, batches)).await;
        return stored.unwrap_or_else(|error| again(&error));
    }
    let Some(peers) = here.links.peers() else { return again(&"the node is alone") };
    let body = wire::encode_request(group, &prepared.batches);
    let left = prepared.deadline.duration_since(Instant::now());
    let moved = async {
        loop {
            time::sleep(POLL_INTERVAL).await;
            if leader(here, group).is_some_and(|leader| leader != node) {
                return;
            }
        }
    };
    select! {
        answer = peers.request(node, RequestKind::Append, body, left) => match answer {
            Ok(answer) => StoreAnswer::decode(answer).unwrap_or_else(|| again(&"the leader's answer makes no sense")),
            Err(error) => again(&error),
        },
        () = moved => again(&"the partition has another leader since"),
    }
}

fn tell(waiters: Vec<Waiter>, stored: &[Offset]) {
    for (waiter, first) in waiters.into_iter().zip(stored) {
        (waiter.told)(Ok(*first));
    }
}

fn fail(waiters: Vec<Waiter>, failure: &NotStored) {
    for waiter in waiters {
        (waiter.told)(Err(failure.clone()));
    }
}
