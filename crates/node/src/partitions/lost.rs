//! Asks the controller to replace replicas of this node that are damaged beyond repair, or gone.

use std::collections::HashMap;
use std::sync::Arc;
use tailrace_env::time::{self, MissedTicks};
use tailrace_env::time::{Duration, Instant};

use tailrace_metadata::Command;
use tailrace_types::{RaftGroup, ReplicaId, TopicPartition};

use crate::caller::Caller;
use crate::controller::{self, CommandError, StopReason};
use crate::node::Node;
use crate::partitions::handle::PartitionHandle;
use crate::partitions::table::PartitionSlot;

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Time until the next request for a partition whose replica was replaced. It doubles with each further
/// replacement that is not forgiven.
const REPLACE_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum of that time.
const REPLACE_INTERVAL_MAX: Duration = Duration::from_secs(600);

/// One replacement is forgiven after each such time.
const FORGIVE_INTERVAL: Duration = Duration::from_secs(300);

/// A partition without trouble for this long is forgotten. Longer than [`REPLACE_INTERVAL_MAX`].
const FORGET_TIMEOUT: Duration = Duration::from_secs(1800);

/// Earlier attempts, so that they are not repeated all the time. One entry per partition in trouble.
#[derive(Debug, Default)]
struct Tried(HashMap<RaftGroup, Attempt>);

/// Attempts for one partition. They include replacements of its first replica, which may fail like it.
#[derive(Debug)]
struct Attempt {
    replica: ReplicaId,
    /// It was opened again once, which repairs a damaged index.
    reopened: bool,
    /// How many replicas were abandoned, less those that are forgiven.
    given_up: u32,
    /// When the last one was abandoned.
    given_up_at: Instant,
    /// The controller is not asked before this time.
    ask_at: Instant,
    seen: Instant,
}

impl Attempt {
    fn new(replica: ReplicaId, now: Instant) -> Self {
        Self { replica, reopened: false, given_up: 0, given_up_at: now, ask_at: now, seen: now }
    }

    fn see(&mut self, replica: ReplicaId, now: Instant) {
        if self.replica != replica {
            (self.replica, self.reopened) = (replica, false);
        }
        self.seen = now;
    }

    /// Records that the controller was asked.
    fn note(&mut self, is_given_up: bool, now: Instant) {
        if is_given_up {
            let forgiven = now.duration_since(self.given_up_at).as_secs() / FORGIVE_INTERVAL.as_secs();
            self.given_up = self.given_up.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX)) + 1;
            self.given_up_at = now;
        }
        let doubled = 1 << self.given_up.saturating_sub(1).min(10);
        self.ask_at = now + (REPLACE_INTERVAL * doubled).min(REPLACE_INTERVAL_MAX);
    }
}

/// A replica that is lost.
struct Lost {
    id: TopicPartition,
    group: RaftGroup,
    replica: ReplicaId,
    reason: String,
    /// Its handle, if it is open and has stopped.
    halted: Option<Arc<PartitionHandle>>,
}

/// Looks for lost replicas for as long as the server runs.
pub(crate) async fn replace_lost(node: Arc<Node>) {
    let mut look = time::interval(POLL_INTERVAL);
    look.set_missed(MissedTicks::Delay);
    let mut tried = Tried::default();
    loop {
        look.tick().await;
        replace(&node, &mut tried).await;
    }
}

/// Has the controller replace the lost replicas that the others can do without.
async fn replace(node: &Arc<Node>, tried: &mut Tried) {
    if node.links.peers().is_none() {
        return;
    }
    let now = Instant::now();
    reopen_metadata(node, tried, now).await;
    let lost = find(node).await;
    for lost in &lost {
        let attempt = tried.0.entry(lost.group).or_insert_with(|| Attempt::new(lost.replica, now));
        attempt.see(lost.replica, now);
    }
    tried.0.retain(|_, attempt| now.duration_since(attempt.seen) < FORGET_TIMEOUT);
    for lost in lost {
        let Some(attempt) = tried.0.get_mut(&lost.group) else { continue };
        if let Some(handle) = lost.halted.as_ref().filter(|_| !attempt.reopened) {
            attempt.reopened = true;
            tracing::warn!(partition = %lost.id, reason = %lost.reason, "opening the replica again");
            node.controller.reopen(handle, node.now()).await;
        } else if now >= attempt.ask_at {
            let is_given_up = ask(node, &lost).await;
            attempt.note(is_given_up, now);
        }
    }
}

/// Opens the metadata log again, at growing intervals if that does not help. The controller cannot replace
/// its replica while it is the one that has stopped.
async fn reopen_metadata(node: &Arc<Node>, tried: &mut Tried, now: Instant) {
    let handle = node.controller.handle();
    let Some(replica) = handle.replica().filter(|_| handle.is_halted()) else { return };
    let attempt = tried.0.entry(controller::GROUP).or_insert_with(|| Attempt::new(replica, now));
    attempt.see(replica, now);
    if now >= attempt.ask_at && node.controller.reopen_log(StopReason::Damage, node.now()).await {
        attempt.note(true, now);
    }
}

async fn find(node: &Arc<Node>) -> Vec<Lost> {
    let topics = Arc::clone(&node.topics());
    let mut found = Vec::new();
    for topic in topics.iter() {
        for (slot, id) in topic.partitions.iter().zip(topic.image.topic_partitions()) {
            let group = RaftGroup { topic: topic.id, partition: id.partition };
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

/// Looks closer only at replicas in trouble.
async fn beyond_repair(handle: &Arc<PartitionHandle>) -> Option<Lost> {
    let replica = handle.replica()?;
    let has_stopped = handle.is_halted();
    if !has_stopped && handle.reader.log().damaged().is_empty() {
        return None;
    }
    let reason = handle.look(|core| core.as_replica()?.beyond_repair()).await??;
    let halted = has_stopped.then(|| Arc::clone(handle));
    Some(Lost { id: handle.id.clone(), group: handle.group, replica, reason, halted })
}

/// Returns true if the replica was abandoned.
async fn ask(node: &Arc<Node>, lost: &Lost) -> bool {
    let Lost { id, group, replica, reason, .. } = lost;
    let command = Command::RenewReplica { topic: group.topic, partition: group.partition, replica: *replica };
    match node.controller.execute(Caller::internal(), command, node.now()).await {
        Ok(_) => {
            node.metrics.repair.replicas_given_up.inc();
            tracing::warn!(partition = %id, %replica, %reason, "the replica is abandoned: another one starts in its place");
            return true;
        }
        Err(CommandError::Refused(error)) => {
            tracing::error!(partition = %id, %replica, %reason, %error, "the replica stays out of service");
        }
        // If there is no controller, the next round asks again.
        Err(error) => tracing::debug!(partition = %id, %error, "could not report a lost replica"),
    }
    false
}

#[cfg(test)]
mod tests {
    use tailrace_types::NodeId;

    use super::*;

    #[test]
    fn replicas_that_are_lost_one_after_the_other_are_reported_ever_more_seldom() {
        tailrace_runtime::install();
        let began = Instant::now();
        let replica = |incarnation| ReplicaId::new(NodeId(1), incarnation);
        let mut attempt = Attempt::new(replica(1), began);
        assert_eq!(attempt.ask_at, began, "asks at once the first time");
        let mut now = began;
        let mut waits = Vec::new();
        for incarnation in 1..=8 {
            attempt.see(replica(incarnation), now);
            attempt.note(true, now);
            waits.push((attempt.ask_at - now).as_secs());
            now = attempt.ask_at;
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 480, 480, 480]);
        attempt.note(false, now);
        assert_eq!((attempt.ask_at - now).as_secs(), 480, "a refusal does not shorten it");
        let later = attempt.given_up_at + 9 * FORGIVE_INTERVAL;
        attempt.note(true, later);
        assert_eq!(attempt.ask_at - later, REPLACE_INTERVAL, "all are forgiven");
        attempt.reopened = true;
        attempt.see(replica(8), now);
        assert!(attempt.reopened);
        attempt.see(replica(9), now);
        assert!(!attempt.reopened, "each is opened again once");
    }
}
