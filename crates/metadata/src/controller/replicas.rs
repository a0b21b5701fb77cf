//! Decisions about the replicas of partitions: initial placement and later moves.

use std::collections::BTreeSet;

use tailrace_types::{NodeId, PartitionId, ReplicaId, TopicId};

use super::decision::{Records, existing, partition};
use super::error::ControlError;
use crate::cluster::{PlacementNode, place};
use crate::image::{MetadataImage, PartitionImage, TopicImage};
use crate::record::MetadataRecord;

/// Chooses the replicas of the new partitions `partitions` of a topic. Empty for a standalone server.
pub(super) fn chosen(
    image: &MetadataImage,
    topic: TopicId,
    partitions: std::ops::Range<i32>,
    replication_factor: i16,
) -> Result<Vec<Vec<ReplicaId>>, ControlError> {
    let places: Vec<PlacementNode> = image
        .nodes()
        .filter(|node| !node.fenced)
        .map(|node| PlacementNode { node: node.registration.node, rack: node.registration.rack.clone() })
        .collect();
    let live = if image.founder().is_some() { places.len() } else { 1 };
    let wanted = usize::try_from(replication_factor).unwrap_or(0);
    if wanted > live {
        let nodes = i16::try_from(live).unwrap_or(i16::MAX);
        return Err(ControlError::TooFewNodes { found: replication_factor, nodes });
    }
    if image.founder().is_none() {
        return Ok(Vec::new());
    }
    let [from, to] = [partitions.start, partitions.end].map(|number| usize::try_from(number).unwrap_or(0));
    Ok(first_replicas(place(&places, topic, from..to, wanted)))
}

/// Returns the replicas of new partitions on given nodes. Each partition must have `replicas` of them, or as
/// many as the first partition. Empty for a standalone server. The error messages are Kafka's.
pub(super) fn given(
    image: &MetadataImage,
    assignment: &[Vec<NodeId>],
    replicas: Option<usize>,
) -> Result<Vec<Vec<ReplicaId>>, ControlError> {
    let expected = replicas.or(assignment.first().map(Vec::len)).unwrap_or(0);
    for (partition, nodes) in assignment.iter().enumerate() {
        check_nodes(image, nodes)?;
        if nodes.len() != expected {
            return Err(refused(format!(
                "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with previous partitions, which have {expected} replica(s).",
                nodes.len()
            )));
        }
        if !nodes.iter().any(|node| image.is_live(*node)) {
            return Err(refused(format!(
                "All brokers specified in the manual partition assignment for partition {partition} are fenced or in controlled shutdown."
            )));
        }
    }
    if image.founder().is_none() {
        return Ok(Vec::new());
    }
    Ok(first_replicas(assignment.to_vec()))
}

fn first_replicas(assignment: Vec<Vec<NodeId>>) -> Vec<Vec<ReplicaId>> {
    let replicas = |nodes: Vec<NodeId>| nodes.into_iter().map(|node| ReplicaId::new(node, 1)).collect();
    assignment.into_iter().map(replicas).collect()
}

fn refused(reason: String) -> ControlError {
    ControlError::InvalidAssignment { reason }
}

fn check_nodes(image: &MetadataImage, nodes: &[NodeId]) -> Result<(), ControlError> {
    let refuse = |what: String| Err(refused(format!("The manual partition assignment includes {what}.")));
    if nodes.is_empty() {
        return refuse("an empty replica list".to_owned());
    }
    let mut seen = BTreeSet::new();
    for node in nodes {
        if !seen.insert(node) {
            return refuse(format!("the broker {node} more than once"));
        }
        if image.node(*node).is_none() && !image.is_live(*node) {
            return refuse(format!("broker {node}, but no such broker is registered"));
        }
    }
    Ok(())
}

pub(super) fn reassign(
    image: &MetadataImage,
    topic: &str,
    number: PartitionId,
    nodes: Option<&[NodeId]>,
) -> Records {
    let topic = existing(image, topic)?;
    let partition = partition(topic, number)?;
    let wanted = match nodes {
        Some(nodes) => {
            check_nodes(image, nodes)?;
            moved(partition, nodes)
        }
        None if !partition.is_reassigned() => return Err(ControlError::NoReassignment),
        None => match moved(partition, &nodes_before(partition)) {
            Some(wanted) => Some(wanted),
            // The node has lost its disk, so the partition cannot go back there.
            None => return Err(ControlError::NoReassignment),
        },
    };
    Ok(wanted.into_iter().map(|wanted| record(topic.id, number, wanted)).collect())
}

pub(super) fn finish(
    image: &MetadataImage,
    topic: TopicId,
    number: PartitionId,
    replicas: &[ReplicaId],
) -> Records {
    let topic = image.topic_by_id(topic).ok_or(ControlError::UnknownTopicId { id: topic })?;
    let partition = partition(topic, number)?;
    let set = |replicas: &[ReplicaId]| replicas.iter().copied().collect::<BTreeSet<_>>();
    if set(replicas) != set(&partition.replicas) {
        return Err(ControlError::OtherReplicasWanted);
    }
    if !partition.is_reassigned() {
        return Ok(Vec::new());
    }
    let mut done = partition.clone();
    [&mut done.adding, &mut done.removing, &mut done.lost].into_iter().for_each(Vec::clear);
    Ok(vec![record(topic.id, number, done)])
}

/// Maximum number of replicas on one node that may be lost before the reassignment that replaces the first of
/// them is finished. Otherwise a folder that damages every new replica would fill the metadata.
const LOST_MAX: usize = 3;

/// Replaces a lost replica of a partition. Its group must be able to commit the change without it.
pub(super) fn renew(
    image: &MetadataImage,
    topic: TopicId,
    number: PartitionId,
    replica: ReplicaId,
) -> Records {
    let topic = image.topic_by_id(topic).ok_or(ControlError::UnknownTopicId { id: topic })?;
    let partition = partition(topic, number)?;
    if partition.present_on(replica.node()) != Some(replica) {
        // It has been replaced already.
        return Ok(Vec::new());
    }
    let node = replica.node();
    if partition.lost.iter().filter(|lost| lost.node() == node).count() >= LOST_MAX {
        return Err(refused(format!(
            "Replica {replica} of {}-{number} stays as it is: {LOST_MAX} replicas on node {node} were lost since the first of \
             them was replaced. Check the disk of node {node}, and move the partition to other nodes.",
            topic.name
        )));
    }
    // A replica that is being added may not vote yet. A replica that is being removed may still vote, even if
    // it is lost.
    let voters: BTreeSet<_> = partition.present().filter(|other| !partition.adding.contains(other)).collect();
    let there = |other: &ReplicaId| {
        *other != replica && !partition.lost.contains(other) && image.is_live(other.node())
    };
    let live = voters.iter().filter(|other| there(other)).count();
    if live <= voters.len() / 2 {
        return Err(refused(format!(
            "Replica {replica} of {}-{number} stays as it is: of the {} voting replicas, {live} others are available, and \
             that is not a majority.",
            topic.name,
            voters.len()
        )));
    }
    Ok(vec![record(topic.id, number, without(partition, replica))])
}

/// Returns the partition with a new replica in place of `lost`.
fn without(partition: &PartitionImage, lost: ReplicaId) -> PartitionImage {
    let mut wanted = partition.clone();
    wanted.lost.push(lost);
    if wanted.replicas.contains(&lost) {
        let new = ReplicaId::new(lost.node(), wanted.next_incarnation);
        wanted.next_incarnation = wanted.next_incarnation.saturating_add(1);
        wanted.replicas.iter_mut().filter(|replica| **replica == lost).for_each(|replica| *replica = new);
        wanted.adding.push(new);
        wanted.adding.sort_unstable();
        wanted.removing.push(lost);
    }
    wanted
}

/// Replaces all replicas on `node`, whose disk is gone, by new ones, and marks the old ones as lost.
pub(super) fn renewed(image: &MetadataImage, node: NodeId) -> Vec<MetadataRecord> {
    let renew = |topic: &TopicImage, number, partition: &PartitionImage| {
        let lost = partition.present_on(node)?;
        Some(record(topic.id, number, without(partition, lost)))
    };
    let of_topic = |topic| {
        let topic: &TopicImage = topic;
        topic.assignment().filter_map(|(number, partition)| renew(topic, number, partition))
    };
    image.topics().flat_map(|topic| of_topic(topic)).collect()
}

fn record(id: TopicId, partition: PartitionId, wanted: PartitionImage) -> MetadataRecord {
    let PartitionImage { replicas, adding, removing, lost, next_incarnation, .. } = wanted;
    MetadataRecord::PartitionReplicas { id, partition, replicas, adding, removing, lost, next_incarnation }
}

/// Returns the partition's nodes before the reassignment in progress.
fn nodes_before(partition: &PartitionImage) -> Vec<NodeId> {
    let mut nodes = Vec::new();
    for replica in partition.present().filter(|replica| !partition.adding.contains(replica)) {
        if !nodes.contains(&replica.node()) {
            nodes.push(replica.node());
        }
    }
    nodes
}

/// Returns the partition with its replicas on `nodes`. `None` if nothing changes. A node that still has a
/// replica keeps it, because its data is on disk. Only a node without one gets a new replica.
fn moved(partition: &PartitionImage, nodes: &[NodeId]) -> Option<PartitionImage> {
    let new = partition.next_incarnation;
    let on = |node: &NodeId| partition.present_on(*node).unwrap_or(ReplicaId::new(*node, new));
    let replicas: Vec<ReplicaId> = nodes.iter().map(on).collect();
    let is_new = replicas.iter().any(|replica| replica.incarnation() == new);
    let next_incarnation = if is_new { new.saturating_add(1) } else { new };
    let removing: Vec<ReplicaId> =
        partition.present().filter(|replica| !replicas.contains(replica)).collect();
    let was_there = |replica: ReplicaId| {
        partition.present().any(|r| r == replica) && !partition.adding.contains(&replica)
    };
    let mut adding: Vec<ReplicaId> =
        replicas.iter().chain(&removing).copied().filter(|replica| !was_there(*replica)).collect();
    adding.sort_unstable();
    let (founders, lost) = (partition.founders.clone(), partition.lost.clone());
    let moved = PartitionImage { replicas, founders, adding, removing, lost, next_incarnation };
    (moved != *partition).then_some(moved)
}
