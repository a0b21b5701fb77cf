//! The writing of transactions' markers: one writer for each transactional id, until every partition has its marker.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_coordination::transactions::{
    TransactionCoordinator, TransactionEvent, TransactionProtocol, TransactionReply, WriteMarkers,
};
use tailrace_metadata::CONSUMER_OFFSETS_TOPIC;
use tailrace_replication::raft::ProposeError;
use tailrace_replication::{AppendError, ProducerError, TransactionMarker};
use tailrace_types::{LeaderEpoch, RaftGroup, TopicPartition};

use super::messages::{Request, Response};
use super::metadata::group_of;
use super::shard::Awaited;
use super::sim::Sim;

/// How long another node may take, in milliseconds. Much longer than most messages do.
const PATIENCE_MS: u64 = 4_000;
const PAUSE_FIRST_MS: u64 = 10;
const PAUSE_MAX_MS: u64 = 500;

type Partitions = BTreeSet<TopicPartition>;

pub(super) fn begin(sim: &Sim, number: u64, shard: i32, markers: WriteMarkers) {
    {
        let mut world = sim.world();
        let Some(running) = world.nodes.get_mut(&number).and_then(|node| node.running.as_mut()) else {
            return;
        };
        if let Some(more) = running.marker_writers.get_mut(&markers.transactional_id) {
            *more = true;
            return;
        }
        running.marker_writers.insert(markers.transactional_id.clone(), false);
    }
    let (owner, again) = (sim.world().owner(number), sim.clone());
    sim.spawn(owner, async move {
        let id = markers.transactional_id.clone();
        let mut wanted = Some(markers);
        loop {
            let mut pause_ms = PAUSE_FIRST_MS;
            while !attempt(&again, number, shard, &id, wanted.take()).await {
                if !coordinates(&again, number, shard) {
                    break;
                }
                again.sleep(pause_ms).await;
                pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
            }
            let mut world = again.world();
            let Some(running) = world.nodes.get_mut(&number).and_then(|node| node.running.as_mut()) else {
                return;
            };
            if running.marker_writers.get_mut(&id).is_some_and(std::mem::take) {
                continue;
            }
            running.marker_writers.remove(&id);
            return;
        }
    });
}

/// A node that coordinates no more asks in vain; whoever coordinates now writes.
fn coordinates(sim: &Sim, number: u64, shard: i32) -> bool {
    sim.act::<TransactionCoordinator>(number, shard, |_, _| Default::default()).is_ok()
}

/// True if the transaction is complete, or not prepared.
async fn attempt(sim: &Sim, number: u64, shard: i32, id: &str, wanted: Option<WriteMarkers>) -> bool {
    let needed = match wanted.filter(|wanted| needed_in(sim, number, shard, wanted).is_some()) {
        Some(wanted) => wanted,
        None => {
            let event = |token| TransactionEvent::AskMarkers { token, transactional_id: id.to_owned() };
            let Ok((pending, _)) = sim.submit::<TransactionCoordinator>(number, shard, event) else {
                return false;
            };
            match pending.get().await {
                Some(TransactionReply::Markers(Some(needed))) => needed,
                Some(_) => return true,
                None => return false,
            }
        }
    };
    let Some(epoch) = write_all(sim, number, shard, &needed).await else { return false };
    // Loads what is not loaded; nothing happens between this and the report.
    let now = sim.act::<TransactionCoordinator>(number, shard, |_, _| Default::default());
    if now.ok() != Some(epoch) {
        sim.world().count("markers of an earlier coordinator were not reported");
        return false;
    }
    let event = |token| TransactionEvent::MarkersWritten { token, markers: needed };
    let Ok((pending, _)) = sim.submit::<TransactionCoordinator>(number, shard, event) else { return false };
    pending.get().await.is_some()
}

/// The generation of the coordinator on this node to which the transaction needs exactly these markers.
fn needed_in(sim: &Sim, number: u64, shard: i32, markers: &WriteMarkers) -> Option<LeaderEpoch> {
    let world = sim.world();
    let shard = world.nodes.get(&number)?.running.as_ref()?.transactions.get(&shard)?;
    shard.core.needs(markers).then_some(shard.epoch)
}

/// Writes a marker to every partition, however long it takes, for as long as one generation of the coordinator needs them: which one, is
/// the result. `None` if it does not any more.
async fn write_all(sim: &Sim, number: u64, shard: i32, markers: &WriteMarkers) -> Option<LeaderEpoch> {
    let (mut left, mut pause_ms) = (markers.partitions.clone(), PAUSE_FIRST_MS);
    let epoch = needed_in(sim, number, shard, markers)?;
    let marker = TransactionMarker {
        producer_id: markers.producer.id,
        producer_epoch: markers.producer.epoch,
        coordinator_epoch: epoch.get(),
        committed: markers.committed,
        epochs_are_bumped: markers.protocol == TransactionProtocol::EpochPerTransaction,
    };
    loop {
        left = write_round(sim, number, marker, left).await;
        if left.is_empty() {
            return Some(epoch);
        }
        sim.world().count("a marker was written again");
        sim.sleep(pause_ms).await;
        pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
        if needed_in(sim, number, shard, markers) != Some(epoch) {
            return None;
        }
    }
}

/// Those where it has to be done again.
async fn write_round(
    sim: &Sim,
    number: u64,
    marker: TransactionMarker,
    partitions: Partitions,
) -> Partitions {
    let mut by_node: BTreeMap<u64, Partitions> = BTreeMap::new();
    {
        let world = sim.world();
        let image = super::metadata::image(&world, number);
        for partition in partitions {
            let group = image.as_ref().and_then(|image| group_of(image, &partition));
            let leader = group.and_then(|group| world.leader_of(number, group));
            by_node.entry(leader.map_or(number, |(node, _)| node)).or_default().insert(partition);
        }
    }
    let mut again = by_node.remove(&number).unwrap_or_default();
    if !again.is_empty() {
        again = write_here(sim, number, marker, again).await;
    }
    for (node, partitions) in by_node {
        let late_ms = sim.world().aim_at_markers(number);
        let request = Request::Markers(marker, partitions.clone());
        match sim.ask_late(number, node, request, PATIENCE_MS, late_ms).await {
            Some(Response::NotMarked(left)) => again.extend(left),
            _ => again.extend(partitions),
        }
    }
    again
}

/// Appends to all partitions that this node leads, then waits for all of them.
pub(super) async fn write_here(
    sim: &Sim,
    number: u64,
    marker: TransactionMarker,
    partitions: Partitions,
) -> Partitions {
    let (mut again, mut appended) = (BTreeSet::new(), Vec::new());
    for partition in partitions {
        match mark(sim, number, &partition, &marker) {
            Marked::At(group, awaited) => appended.push((partition, group, awaited)),
            Marked::NotNeeded => {}
            Marked::NotYet => drop(again.insert(partition)),
        }
    }
    for (partition, group, awaited) in appended {
        if !sim.committed(number, group, awaited, 10_000).await {
            again.insert(partition);
        }
    }
    again
}

enum Marked {
    At(RaftGroup, Awaited),
    NotNeeded,
    NotYet,
}

fn mark(sim: &Sim, number: u64, partition: &TopicPartition, marker: &TransactionMarker) -> Marked {
    let group = {
        let world = sim.world();
        let Some(image) = super::metadata::image(&world, number) else { return Marked::NotYet };
        match group_of(&image, partition) {
            Some(group) => group,
            // No topic is ever deleted here: these are old metadata.
            None => return Marked::NotYet,
        }
    };
    let appended: Option<Result<Awaited, ProposeError>> =
        if partition.topic.as_str() == CONSUMER_OFFSETS_TOPIC {
            sim.mark_group(number, partition.partition.0, marker).ok()
        } else {
            let appended = sim.world().append_marker(number, group, marker, None);
            appended.map(|appended| appended.map(|appended| (&appended).into()))
        };
    match appended {
        Some(Ok(awaited)) => {
            sim.world().count("a marker was written");
            Marked::At(group, awaited)
        }
        Some(Err(ProposeError::Append(AppendError::Producer(ProducerError::StaleEpoch { .. })))) => {
            Marked::NotNeeded
        }
        Some(Err(ProposeError::Append(AppendError::Producer(ProducerError::CoordinatorFenced {
            ..
        })))) => {
            sim.world().count("a marker of an earlier coordinator was refused");
            Marked::NotYet
        }
        _ => Marked::NotYet,
    }
}
