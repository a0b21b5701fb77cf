//! Replicas of this node that are damaged beyond repair, or gone: the controller is asked for others in their place.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tailrace_broker::Command;
use tailrace_types::{GroupId, ReplicaId, TopicPartition};

use crate::broker::Broker;
use crate::controller::CommandError;
use crate::partitions::handle::PartitionHandle;
use crate::partitions::table::PartitionSlot;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// Time between two questions about the same replica.
const AGAIN: Duration = Duration::from_secs(30);

/// What was tried, so that it is not tried all the time. As many as there are replicas in trouble.
#[derive(Debug, Default)]
struct Tried(HashMap<(GroupId, ReplicaId), Attempt>);

#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// It was opened anew once, which mends what the index had.
    reopened: bool,
    asked: Option<Instant>,
}

/// A replica that is no more.
struct Lost {
    id: TopicPartition,
    group: GroupId,
    replica: ReplicaId,
    reason: String,
    /// It is open, and has stopped.
    halted: Option<Arc<PartitionHandle>>,
}

/// Looks for such replicas for as long as the server runs.
pub(crate) async fn replace_lost(broker: Arc<Broker>) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tried = Tried::default();
    loop {
        look.tick().await;
        replace(&broker, &mut tried).await;
    }
}

/// Has those replaced that the others can go on without.
async fn replace(broker: &Arc<Broker>, tried: &mut Tried) {
    if broker.links.peers().is_none() {
        return;
    }
    let lost = find(broker).await;
    tried.0.retain(|which, _| lost.iter().any(|lost| (lost.group, lost.replica) == *which));
    for lost in lost {
        let which = (lost.group, lost.replica);
        let attempt = tried.0.entry(which).or_insert(Attempt { reopened: false, asked: None });
        if let Some(handle) = lost.halted.as_ref().filter(|_| !attempt.reopened) {
            attempt.reopened = true;
            tracing::warn!(partition = %lost.id, reason = %lost.reason, "the replica is opened anew");
            broker.controller.reopen(handle, broker.now()).await;
        } else if attempt.asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            attempt.asked = Some(Instant::now());
            ask(broker, &lost).await;
        }
    }
}

async fn find(broker: &Arc<Broker>) -> Vec<Lost> {
    let topics = Arc::clone(&broker.topics());
    let mut found = Vec::new();
    for topic in topics.iter() {
        for (slot, id) in topic.partitions.iter().zip(topic.image.topic_partitions()) {
            let group = GroupId { topic: topic.id, partition: id.partition };
            match slot {
                PartitionSlot::Offline(offline) if offline.is_lost => {
                    let Some(replica) = offline.replica else { continue };
                    found.push(Lost { id, group, replica, reason: offline.reason.to_string(), halted: None });
                }
                PartitionSlot::Online(handle) => found.extend(beyond_repair(handle).await),
                PartitionSlot::Offline(_) | PartitionSlot::Elsewhere => {}
            }
        }
    }
    found
}

/// Looks closer only at those that are in trouble.
async fn beyond_repair(handle: &Arc<PartitionHandle>) -> Option<Lost> {
    let replica = handle.replica()?;
    let has_stopped = handle.halted.load(Ordering::Acquire);
    if !has_stopped && handle.reader.log().damaged().is_empty() {
        return None;
    }
    let reason = handle.core.lock().await.as_mut()?.replica()?.beyond_repair()?;
    let halted = has_stopped.then(|| Arc::clone(handle));
    Some(Lost { id: handle.id.clone(), group: handle.group, replica, reason, halted })
}

async fn ask(broker: &Arc<Broker>, lost: &Lost) {
    let Lost { id, group, replica, reason, .. } = lost;
    let command = Command::RenewReplica { topic: group.topic, partition: group.partition, replica: *replica };
    match broker.controller.execute(command, broker.now()).await {
        Ok(_) => {
            broker.metrics.repair.replicas_given_up.inc();
            tracing::warn!(partition = %id, %replica, %reason, "the replica is given up: another one begins anew in its place");
        }
        Err(CommandError::Refused(error)) => {
            tracing::error!(partition = %id, %replica, %reason, %error, "the replica stays out of service");
        }
        // Without a controller it is asked again.
        Err(error) => tracing::debug!(partition = %id, %error, "a lost replica could not be reported"),
    }
}
