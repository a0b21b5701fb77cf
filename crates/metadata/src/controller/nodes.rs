//! Decisions about the nodes of a cluster: registration, fencing and removal.

use tailrace_config::{RACK_BYTES_MAX, is_address};
use tailrace_types::{NodeId, ReplicaId};

use super::command::{CLUSTER_ID_BYTES_MAX, RegisterNode};
use super::decision::Records;
use super::error::ControlError;
use super::{features, replicas};
use crate::access::bounds::ACCESS_LEVEL;
use crate::features::{CLUSTER_LEVEL, stored_level};
use crate::image::{ClusterImage, MetadataImage};
use crate::record::{MetadataRecord, NodeRegistration, check_endpoints};

pub(super) fn found(image: &MetadataImage, cluster_id: &str, node: &RegisterNode) -> Records {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !(1..=CLUSTER_ID_BYTES_MAX).contains(&cluster_id.len()) || !cluster_id.bytes().all(legal) {
        return Err(ControlError::InvalidClusterId { max: CLUSTER_ID_BYTES_MAX });
    }
    if let Some(ClusterImage { founder, cluster_id: known, .. }) = &image.cluster {
        if *founder == node.node && known == cluster_id {
            return register(image, node);
        }
        return Err(ControlError::AlreadyFounded { cluster_id: known.clone(), founder: *founder });
    }
    check(node)?;
    if node.node != image.broker.node() {
        let reason = "only a standalone server can found a cluster, with its own node id";
        return Err(ControlError::InvalidRegistration { node: node.node, reason });
    }
    // Older builds could join at a lower level, and could not read what is stored already.
    if image.access.version() > 0 && node.levels.1 < ACCESS_LEVEL {
        let reason =
            "its levels of the protocol between nodes are too low for the users, rules or quotas it has";
        return Err(ControlError::InvalidRegistration { node: node.node, reason });
    }
    let registration = registration(node, 1, ReplicaId::new(node.node, 1), node.levels.1);
    let mut records = vec![
        MetadataRecord::ClusterFounded { node: node.node, cluster_id: cluster_id.to_owned(), epoch: 0 },
        MetadataRecord::NodeRegistered(registration),
        MetadataRecord::NodeFenced { node: node.node, fenced: false },
    ];
    let mut levels = image.features.levels.clone();
    levels.insert(CLUSTER_LEVEL.to_owned(), stored_level(node.levels.1));
    records.extend(features::put(image, levels));
    Ok(records)
}

pub(super) fn register(image: &MetadataImage, node: &RegisterNode) -> Records {
    let Some(cluster) = &image.cluster else { return Err(ControlError::NotFounded) };
    check(node)?;
    check_level(image, node)?;
    let epoch = cluster.epoch.saturating_add(1);
    let known = image.node(node.node);
    let is_same_folder = known.is_some_and(|known| known.registration.directory == node.directory);
    // If the node was given a new replica before, it may have stopped before it wrote that down.
    let renews = node.renews && is_same_folder;
    if let Some(replica) = node.replica
        && !renews
        && known.is_none_or(|known| known.registration.replica != replica)
    {
        return Err(ControlError::TakenOut { node: node.node, replica });
    }
    let replica = match known {
        Some(known) if is_same_folder && !renews => known.registration.replica,
        // This applies to its own folder, too: a running node's folder may have been copied.
        Some(known) if !known.fenced => return Err(ControlError::NodeIdInUse { node: node.node }),
        Some(_) | None => {
            if !renews {
                check_new(image, node)?;
            }
            let incarnation = u32::try_from(epoch).map_err(|_| ControlError::RegistrationsExhausted)?;
            ReplicaId::new(node.node, incarnation)
        }
    };
    let next = registration(node, epoch, replica, image.features.cluster_level());
    let Some(known) = known else { return Ok(vec![MetadataRecord::NodeRegistered(next)]) };
    if (NodeRegistration { epoch: known.registration.epoch, ..next.clone() }) == known.registration {
        return Ok(Vec::new());
    }
    let mut records = vec![MetadataRecord::NodeRegistered(next)];
    if known.registration.directory != node.directory {
        records.extend(replicas::renewed(image, node.node));
    }
    Ok(records)
}

pub(super) fn fence(image: &MetadataImage, node: NodeId, fenced: bool) -> Records {
    let known = image.node(node).ok_or(ControlError::NotRegistered { node })?;
    if known.fenced == fenced {
        return Ok(Vec::new());
    }
    Ok(vec![MetadataRecord::NodeFenced { node, fenced }])
}

pub(super) fn remove(image: &MetadataImage, node: NodeId) -> Records {
    let known = image.node(node).ok_or(ControlError::NotRegistered { node })?;
    if !known.fenced {
        return Err(ControlError::NotFenced { node });
    }
    // A replica that is being removed counts, too. Until it has been removed, a majority may need it.
    let partitions = image
        .topics()
        .flat_map(|topic| topic.assignment())
        .filter(|(_, partition)| partition.present().any(|replica| replica.node() == node))
        .count();
    if partitions > 0 {
        return Err(ControlError::HoldsReplicas { node, partitions });
    }
    Ok(vec![MetadataRecord::NodeRemoved { node }])
}

/// Makes a registration for a cluster of this level. Below [`ACCESS_LEVEL`] it has no names of listeners:
/// older builds could not read them. The node registers again when the level is raised.
fn registration(node: &RegisterNode, epoch: i64, replica: ReplicaId, level: u16) -> NodeRegistration {
    let RegisterNode { node, directory, cluster, kafka, mut listeners, nats, http, rack, levels, .. } =
        node.clone();
    if level < ACCESS_LEVEL {
        listeners.clear();
    }
    NodeRegistration { node, directory, epoch, replica, cluster, kafka, listeners, nats, http, rack, levels }
}

/// Checks that other nodes can use the contents of a registration.
fn check(node: &RegisterNode) -> Result<(), ControlError> {
    let refused = |reason| Err(ControlError::InvalidRegistration { node: node.node, reason });
    if node.node.0 < 0 {
        return refused("its id is negative");
    }
    if node.directory == [0; 16] {
        return refused("its data folder has no id");
    }
    let optional = [&node.nats, &node.http].into_iter().flatten();
    if [&node.cluster, &node.kafka].into_iter().chain(optional).any(|text| !is_address(text)) {
        return refused("one of its addresses is not HOST:PORT");
    }
    if let Err(reason) = check_endpoints(&node.listeners) {
        return refused(reason);
    }
    if node.rack.as_ref().is_some_and(|rack| rack.is_empty() || rack.len() > RACK_BYTES_MAX) {
        return refused("the name of its rack is empty or longer than 255 bytes");
    }
    let (min, max) = node.levels;
    if min == 0 || min > max || max > i16::MAX.unsigned_abs() {
        return refused("its levels of the protocol between nodes are not a range within 1 to 32767");
    }
    Ok(())
}

fn check_level(image: &MetadataImage, node: &RegisterNode) -> Result<(), ControlError> {
    let (level, (min, max)) = (image.features.cluster_level(), node.levels);
    if (min..=max).contains(&level) {
        return Ok(());
    }
    Err(ControlError::ClusterLevel { node: node.node, min, max, level })
}

/// Checks a number that is new to the cluster, or a known number with a new data folder.
fn check_new(image: &MetadataImage, node: &RegisterNode) -> Result<(), ControlError> {
    if image.nodes().any(|other| other.registration.directory == node.directory) {
        let reason = "its data folder is a copy of another node's";
        return Err(ControlError::InvalidRegistration { node: node.node, reason });
    }
    let max = image.broker.tailrace_cluster_nodes_max;
    if image.node(node.node).is_none() && image.nodes().len() >= max as usize {
        return Err(ControlError::TooManyNodes { max });
    }
    Ok(())
}
