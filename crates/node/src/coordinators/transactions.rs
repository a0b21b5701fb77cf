//! Transaction coordinators as the shell runs them, and the writing of their markers.
//!
//! A prepared transaction is completed by a writer: a task that appends a marker to each partition, waits
//! until all are committed, and reports that. A transactional id never has more than one writer, because a
//! marker written again later could end the next transaction of a producer of the classic protocol. For the
//! same reason the writer writes what the coordinator wanted only if the coordinator still wants it when the
//! writer starts. Otherwise the writer asks again.
//!
//! A transaction is complete only when one generation of its coordinator has written all of its markers. From
//! then on each partition refuses the markers of all earlier generations, which may still be in flight. What
//! an earlier generation wrote in part is written again.
//!
//! A writer retries until it succeeds, the server stops, or another node coordinates. After a start the
//! coordinator asks for it again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{select, task};

use tailrace_coordination::transactions::{
    TransactionCoordinator, TransactionEvent, TransactionProtocol, TransactionReply, TransactionWork,
    WriteMarkers,
};
use tailrace_metadata::CONSUMER_OFFSETS_TOPIC;
use tailrace_replication::{AppendError, ProducerError, TransactionMarker};
use tailrace_types::{LeaderEpoch, NodeId, TopicPartition};

use super::perform::{Perform, Performed};
use super::{CoordinatorFailure, MarkerFailure};
use crate::ask::{AppendMarkers, ask};
use crate::caller::Caller;
use crate::cluster::leaders::leader_of;
use crate::node::Node;
use crate::partitions::{AppendFailure, Awaited, NotHere, PartitionHandle, WaitOutcome, append_marker};
use crate::retry::Pauses;
use tailrace_env::task::stopped;

/// Pauses between attempts. A leader may be elected within milliseconds, and partitions may be out of service
/// for hours.
const PAUSES: Pauses = Pauses::doubling(Duration::from_millis(10), Duration::from_secs(5));

impl Perform for TransactionCoordinator {
    fn perform(node: Arc<Node>, shard: i32, work: TransactionWork) -> Performed {
        let TransactionWork::WriteMarkers(markers) = work;
        Box::pin(async move {
            if node.coordinators.marker_writers.begin(&markers.transactional_id) {
                task::spawn(write_until_done(node, shard, markers));
            }
        })
    }
}

async fn write_until_done(node: Arc<Node>, shard: i32, markers: WriteMarkers) {
    let mut stopping = node.stopping.subscribe();
    let transactional_id = markers.transactional_id.clone();
    let mut wanted = Some(markers);
    loop {
        select! {
            () = complete(&node, shard, &transactional_id, wanted.take()) => {}
            () = stopped(&mut stopping) => return,
        }
        if node.coordinators.marker_writers.end(&transactional_id) {
            return;
        }
    }
}

/// Completes the transaction, if it is prepared. `wanted` is what its coordinator has asked for, if known.
async fn complete(node: &Arc<Node>, shard: i32, transactional_id: &str, mut wanted: Option<WriteMarkers>) {
    let mut retry = PAUSES.without_end();
    loop {
        match attempt(node, shard, transactional_id, wanted.take()).await {
            // The new coordinator writes the markers.
            Ok(()) | Err(CoordinatorFailure::Elsewhere) => return,
            Err(failure) => {
                tracing::warn!(transactional_id, %failure, "could not complete a transaction yet");
                retry.pause().await;
            }
        }
    }
}

async fn attempt(
    node: &Arc<Node>,
    shard: i32,
    transactional_id: &str,
    wanted: Option<WriteMarkers>,
) -> Result<(), CoordinatorFailure> {
    let needed = match wanted {
        // The usual case costs neither a question nor a wait for later writes of others.
        Some(wanted) if needed_in(node, shard, &wanted).await.is_some() => Some(wanted),
        _ => ask_markers(node, shard, transactional_id).await?,
    };
    let Some(markers) = needed else { return Ok(()) };
    let epoch = write_all(node, shard, &markers).await?;
    let is_the_same = move |_: &TransactionCoordinator, now: LeaderEpoch| now == epoch;
    let event = move |token| TransactionEvent::MarkersWritten { token, markers };
    let noted =
        node.coordinators.transactions.submit_if(node, Caller::internal(), shard, is_the_same, event).await?;
    noted.ok_or(CoordinatorFailure::Reloaded)?.reply().await?;
    Ok(())
}

/// Returns the coordinator's generation, if the transaction still needs these markers. That it once needed
/// them is committed: see `Coordinator::step`.
async fn needed_in(node: &Arc<Node>, shard: i32, markers: &WriteMarkers) -> Option<LeaderEpoch> {
    let look = |core: &TransactionCoordinator, epoch| core.needs(markers).then_some(epoch);
    node.coordinators.transactions.peek(node, Caller::internal(), shard, look).await.flatten()
}

async fn ask_markers(
    node: &Arc<Node>,
    shard: i32,
    transactional_id: &str,
) -> Result<Option<WriteMarkers>, CoordinatorFailure> {
    let id = transactional_id.to_owned();
    let event = |token| TransactionEvent::AskMarkers { token, transactional_id: id };
    let asked = node.coordinators.transactions.submit_to(node, Caller::internal(), shard, event).await?;
    match asked.reply().await? {
        TransactionReply::Markers(needed) => Ok(needed),
        _ => Ok(None),
    }
}

/// Writes a marker to every partition, however long that takes, while one generation of the coordinator needs
/// them, and returns that generation. Later the same markers might end another transaction.
///
/// # Errors
/// [`CoordinatorFailure::Reloaded`] if the transaction now needs something else, or another generation needs
/// it.
async fn write_all(
    node: &Arc<Node>,
    shard: i32,
    markers: &WriteMarkers,
) -> Result<LeaderEpoch, CoordinatorFailure> {
    let mut left = markers.partitions.clone();
    let mut retry = PAUSES.without_end();
    let epoch = needed_in(node, shard, markers).await.ok_or(CoordinatorFailure::Reloaded)?;
    let marker = TransactionMarker {
        producer_id: markers.producer.id,
        producer_epoch: markers.producer.epoch,
        coordinator_epoch: epoch.get(),
        committed: markers.committed,
        epochs_are_bumped: markers.protocol == TransactionProtocol::EpochPerTransaction,
    };
    loop {
        left = write_round(node, marker, left).await;
        if left.is_empty() {
            return Ok(epoch);
        }
        if retry.is_longest() {
            let (transactional_id, partitions) = (&markers.transactional_id, left.len());
            tracing::warn!(transactional_id, partitions, %epoch, "markers of a transaction are still to be written");
        }
        retry.pause().await;
        if needed_in(node, shard, markers).await != Some(epoch) {
            return Err(CoordinatorFailure::Reloaded);
        }
    }
}

/// Has `node` write the markers for partitions that it leads. Returns the partitions to retry.
async fn write_elsewhere(
    here: &Node,
    node: NodeId,
    marker: TransactionMarker,
    partitions: BTreeSet<TopicPartition>,
) -> BTreeSet<TopicPartition> {
    match ask(&here.links, Caller::internal(), node, AppendMarkers::new(marker, &partitions)).await {
        Ok(over) => over.left_of(partitions),
        Err(error) => {
            tracing::warn!(%node, %error, "could not ask a node to write a transaction's markers");
            partitions
        }
    }
}

/// Appends to all partitions, then waits for all of them. Returns the partitions to retry.
async fn write_round(
    here: &Arc<Node>,
    marker: TransactionMarker,
    partitions: BTreeSet<TopicPartition>,
) -> BTreeSet<TopicPartition> {
    let mut appended = Vec::with_capacity(partitions.len());
    let mut again = BTreeSet::new();
    let (led_here, elsewhere) = by_leader(here, partitions);
    let others = elsewhere.into_iter().map(|(node, partitions)| {
        let here = Arc::clone(here);
        task::spawn(async move { write_elsewhere(&here, node, marker, partitions).await })
    });
    let others: Vec<_> = others.collect();
    for partition in led_here {
        match mark(here, &partition, marker).await {
            Ok(Marked::At(handle, committed_at)) => appended.push((partition, handle, committed_at)),
            Ok(Marked::NotNeeded) => {}
            Err(failure) => {
                tracing::warn!(%partition, ?failure, "could not write a transaction's marker yet");
                again.insert(partition);
            }
        }
    }
    for (partition, handle, committed_at) in appended {
        if !committed(&handle, committed_at).await {
            again.insert(partition);
        }
    }
    for other in others {
        // The task fails only by a panic, which this propagates.
        again.extend(other.await.expect("asking another node does not panic"));
    }
    again
}

type Partitions = BTreeSet<TopicPartition>;

/// Splits partitions into those that this node leads or that have no known leader, and those that other nodes
/// lead.
fn by_leader(here: &Node, partitions: Partitions) -> (Partitions, HashMap<NodeId, Partitions>) {
    let (mut led_here, mut elsewhere) = (BTreeSet::new(), HashMap::<NodeId, Partitions>::new());
    for partition in partitions {
        let topic = here.topics().by_name(partition.topic.as_str());
        let leader = topic.and_then(|topic| leader_of(here, &topic, partition.partition.0));
        match leader.map(|(node, _)| node).filter(|node| *node != here.id()) {
            Some(node) => drop(elsewhere.entry(node).or_default().insert(partition)),
            None => drop(led_here.insert(partition)),
        }
    }
    (led_here, elsewhere)
}

/// Outcome of writing a marker.
pub(crate) enum Marked {
    /// Appended. It counts once it is committed.
    At(Arc<PartitionHandle>, Awaited),
    /// The partition no longer exists, or has seen a later generation of the producer, which came after the
    /// end of this transaction.
    NotNeeded,
}

async fn mark(
    node: &Arc<Node>,
    partition: &TopicPartition,
    marker: TransactionMarker,
) -> Result<Marked, AppendFailure> {
    let topic = node.topics().by_name(partition.topic.as_str());
    let here =
        topic.as_ref().map_or(Err(NotHere::NoSuchPartition), |topic| topic.here(partition.partition.0));
    let handle = match here {
        Ok(handle) => Arc::clone(handle),
        Err(NotHere::NoSuchPartition) => return Ok(Marked::NotNeeded),
        Err(NotHere::Offline(_)) => return Err(AppendFailure::Gone),
        Err(NotHere::Elsewhere) => return Err(AppendFailure::NotLeader),
    };
    match append_any_marker(node, Caller::internal(), &handle, marker).await {
        Ok(committed_at) => Ok(Marked::At(handle, committed_at)),
        Err(AppendFailure::Refused(AppendError::Producer(error @ ProducerError::StaleEpoch { .. }))) => {
            tracing::info!(%partition, %error, "a transaction's marker is not needed");
            Ok(Marked::NotNeeded)
        }
        Err(failure) => Err(failure),
    }
}

/// Appends a marker to any partition. Markers in the topic of group offsets also go to the group coordinator.
///
/// # Errors
/// As `append_marker`.
pub async fn append_any_marker(
    node: &Arc<Node>,
    caller: &Caller,
    handle: &Arc<PartitionHandle>,
    marker: TransactionMarker,
) -> Result<Awaited, AppendFailure> {
    if handle.id.topic.as_str() == CONSUMER_OFFSETS_TOPIC {
        return append_group_marker(node, caller, handle, marker).await;
    }
    Ok((&append_marker(node, caller, handle, marker, None).await?).into())
}

async fn append_group_marker(
    node: &Arc<Node>,
    caller: &Caller,
    handle: &Arc<PartitionHandle>,
    marker: TransactionMarker,
) -> Result<Awaited, AppendFailure> {
    let groups = &node.coordinators.groups;
    match groups.append_marker(node, caller, handle.id.partition.0, marker).await {
        Ok(committed_at) => Ok(committed_at),
        Err(MarkerFailure::Refused(failure)) => Err(failure),
        // Retried: the coordinator has to know of the marker, or its offsets would stay undecided.
        Err(MarkerFailure::Coordinator(failure)) => {
            tracing::debug!(%caller, partition = %handle.id, %failure, "cannot pass a marker to its coordinator");
            Err(AppendFailure::Gone)
        }
    }
}

/// Waits for the commit. False if it will not come.
pub async fn committed(handle: &PartitionHandle, committed_at: Awaited) -> bool {
    match handle.wait_committed(committed_at) {
        None => true,
        Some(wait) => matches!(wait.await, Ok(WaitOutcome::Committed)),
    }
}
