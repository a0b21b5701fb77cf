//! Brings the members of partitions that this node leads, and of the metadata log, in line with the metadata,
//! one step at a time.

use std::collections::HashMap;
use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::time::{self, MissedTicks};

use tailrace_metadata::cluster::{
    LeaderMove, Step, controller_members, next_controller_change, next_member_change, preferred_leader_moves,
};
use tailrace_metadata::{Command, MetadataImage, PartitionImage};
use tailrace_replication::raft::{MemberChange, Members, Replica, Role};
use tailrace_types::{LeaderEpoch, RaftGroup, ReplicaId, TimestampMs};

use crate::caller::Caller;
use crate::disk::NodeDisk;
use crate::node::Node;
use crate::partitions::{Core, PartitionHandle};
use crate::retry::Pauses;

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Checks all partitions that this node leads, for as long as it runs.
pub(super) async fn run(node: Arc<Node>) {
    let mut look = time::interval(POLL_INTERVAL);
    look.set_missed(MissedTicks::Delay);
    loop {
        look.tick().await;
        let image = node.image();
        step_controller(&node, &image).await;
        let topics = Arc::clone(&node.topics());
        for topic in topics.iter() {
            let Some(known) = image.topic_by_id(topic.id) else { continue };
            for handle in topic.partitions.iter().filter_map(|slot| slot.handle()) {
                if let Some(partition) = known.partition(handle.id.partition) {
                    step_partition(&node, handle, partition).await;
                }
            }
        }
    }
}

async fn step_controller(node: &Arc<Node>, image: &Arc<MetadataImage>) {
    let handle = &node.controller.handle();
    if handle.leads().is_none() || image.founder().is_none() {
        return;
    }
    let image = Arc::clone(image);
    let taken = take_step(node, handle, move |replica, members| {
        let wanted = controller_members(&image, &members.voters);
        let caught_up = |id| replica.keeps_up(id);
        next_controller_change(&wanted, &members.voters, &members.learners, replica.id(), caught_up)
    });
    taken.await;
}

async fn step_partition(node: &Arc<Node>, handle: &Arc<PartitionHandle>, wanted: &PartitionImage) {
    let Some(epoch) = handle.leads() else { return };
    if handle.settled().is(epoch, wanted) {
        return;
    }
    let replicas = wanted.replicas.clone();
    let taken = take_step(node, handle, move |replica, members| {
        let caught_up = |id| replica.keeps_up(id);
        next_member_change(&replicas, &members.voters, &members.learners, replica.id(), caught_up)
    });
    if taken.await != Some(Step::Finished) {
        return;
    }
    if wanted.is_reassigned() {
        finish(node, handle.group, wanted).await;
    } else {
        handle.settled().note(epoch, wanted);
    }
}

/// Decides about the next step under the partition's lock, and starts it.
async fn take_step(
    node: &Arc<Node>,
    handle: &Arc<PartitionHandle>,
    decide: impl Fn(&Replica<NodeDisk>, &Members) -> Option<Step> + Send + 'static,
) -> Option<Step> {
    let decide = move |core: &Core| {
        let replica = core.as_replica()?;
        replica.leads()?;
        decide(replica, &replica.members())
    };
    // Usually there is nothing to do, and that needs no worker.
    let step = handle.look(&decide).await.flatten()?;
    if step == Step::Finished {
        return Some(step);
    }
    let (own, now) = (Arc::clone(handle), node.now());
    // On a worker, because a change of the members is synced at once.
    let work = move |core: &mut Core| {
        let step = decide(core)?;
        begin(&own, core.replica()?, step, now);
        Some(step)
    };
    handle.with_on_worker(work).await.flatten()
}

fn begin(handle: &PartitionHandle, replica: &mut Replica<NodeDisk>, step: Step, now: TimestampMs) {
    let change = match step {
        Step::Finished => return,
        Step::TransferTo(to) => {
            tracing::info!(partition = %handle.id, %to, "handing leadership over");
            return replica.transfer_leadership(to, now);
        }
        Step::AddLearner(id) => MemberChange::AddLearner(id),
        Step::Promote(id) => MemberChange::Promote(id),
        Step::Remove(id) => MemberChange::Remove(id),
    };
    match replica.change_members(change, now) {
        Ok(()) => tracing::info!(partition = %handle.id, ?change, "changing the members"),
        Err(error) => {
            tracing::debug!(partition = %handle.id, ?change, %error, "cannot change the members yet")
        }
    }
}

async fn finish(node: &Arc<Node>, group: RaftGroup, wanted: &PartitionImage) {
    let command = Command::FinishReassignment {
        topic: group.topic,
        partition: group.partition,
        replicas: wanted.replicas.clone(),
    };
    if let Err(error) = node.controller.execute(Caller::internal(), command, node.now()).await {
        tracing::warn!(%group, %error, "could not record the end of a reassignment yet");
    }
}

/// Leadership that other nodes returned this often stays here: they are stopping too.
const RETURNS_MAX: i32 = 2;

/// Pause between two checks whether others have taken over.
const HANDED_OVER: Pauses = Pauses::steady(Duration::from_millis(20));

/// Hands over everything that this node leads, and waits at most `patience` for others to take it. What no
/// other node can lead stays here.
pub async fn hand_over(node: &Arc<Node>, patience: Duration) {
    let mut looks = HANDED_OVER.until(time::Instant::now() + patience);
    let mut first_epochs = HashMap::new();
    loop {
        let mut left = 0;
        let mut handles: Vec<_> = node.topics().online().cloned().collect();
        handles.push(node.controller.handle());
        for handle in handles {
            left += usize::from(hand_over_one(node, &handle, &mut first_epochs).await);
        }
        if left == 0 || !looks.pause().await {
            return;
        }
    }
}

/// Returns true if the handover is in progress.
async fn hand_over_one(
    node: &Node,
    handle: &Arc<PartitionHandle>,
    first_epochs: &mut HashMap<RaftGroup, LeaderEpoch>,
) -> bool {
    let handed = handle.with(|core| match core.replica() {
        Some(replica) => transfer(node, handle.group, replica, first_epochs),
        None => false,
    });
    handed.await.unwrap_or(false)
}

fn transfer(
    node: &Node,
    group: RaftGroup,
    replica: &mut Replica<NodeDisk>,
    first_epochs: &mut HashMap<RaftGroup, LeaderEpoch>,
) -> bool {
    if replica.role() != Role::Leader {
        return false;
    }
    // Leadership that goes to another node and back takes two epochs.
    let first = *first_epochs.entry(group).or_insert(replica.epoch());
    if replica.epoch().0.saturating_sub(first.0) >= 2 * RETURNS_MAX {
        return false;
    }
    let image = node.image();
    let own = replica.id();
    let members = replica.members();
    let fits = |id: &&ReplicaId| **id != own && image.is_live(id.node()) && replica.has_caught_up(**id);
    let Some(to) = members.voters.iter().find(fits).copied() else {
        return members.voters.len() > 1
            && members.voters.iter().any(|id| *id != own && image.is_live(id.node()));
    };
    replica.transfer_leadership(to, node.now());
    true
}

/// Periodically moves leadership back to the preferred leaders.
pub(super) async fn balance(node: &Arc<Node>) {
    loop {
        let config = node.config();
        time::sleep(Duration::from_secs(config.leader_imbalance_check_interval_seconds)).await;
        if !node.config().auto_leader_rebalance_enable {
            continue;
        }
        let (image, leaders) = (node.image(), node.links.leaders());
        for LeaderMove { group, to, .. } in preferred_leader_moves(&image, &leaders) {
            hand_to(node, Caller::internal(), group, to).await;
        }
    }
}

/// Hands leadership of a partition over, if this node leads it and `to` has caught up. True if the handover
/// was started.
pub async fn hand_to(node: &Node, caller: &Caller, group: RaftGroup, to: ReplicaId) -> bool {
    let Some(handle) = node.partition_of(group).filter(|handle| handle.leads().is_some()) else {
        return false;
    };
    let hand_over = handle.with(|core| match core.replica() {
        Some(replica) if replica.leads().is_some() && replica.id() != to && replica.has_caught_up(to) => {
            replica.transfer_leadership(to, node.now());
            true
        }
        _ => false,
    });
    let is_begun = hand_over.await.unwrap_or(false);
    if is_begun {
        tracing::info!(%caller, %group, %to, "handing leadership over");
    }
    is_begun
}
