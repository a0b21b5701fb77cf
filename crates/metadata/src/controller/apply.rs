//! Applies records to the image. It makes no decisions: a contradiction means that the log is damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_config::{BrokerConfig, ConfigError, DynamicConfigs, GroupConfig, TopicConfig};
use tailrace_types::{NodeId, PartitionId, ProducerId, ReplicaId, TopicId, TopicName};

use crate::features::FeatureLevels;
use crate::image::{
    AccessContradiction, ClusterImage, GroupImage, MetadataImage, NodeImage, PartitionImage, TopicImage,
};
use crate::record::{MetadataRecord, NodeRegistration};

/// Why a record of the metadata log cannot be applied. The image is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The record names a topic id that no topic has.
    #[error("metadata record names the topic id {id}, which no topic has")]
    UnknownTopicId {
        /// The id.
        id: TopicId,
    },
    /// The record creates a topic whose name or id is taken.
    #[error("metadata record creates topic '{name}' with id {id}, but the name or the id is taken")]
    TopicExists {
        /// The name.
        name: TopicName,
        /// The id.
        id: TopicId,
    },
    /// The record has impossible counts.
    #[error("metadata record for topic '{name}' has {partitions} partitions and {replicas} replicas")]
    InvalidCount {
        /// The topic.
        name: TopicName,
        /// The record's partition count.
        partitions: i32,
        /// The record's replica count.
        replicas: i16,
    },
    /// The record hands out producer ids that were handed out before.
    #[error(
        "metadata record hands out producer ids {first} to {next}, but those below {expected} were already handed out"
    )]
    ProducerIds {
        /// The first id in the record.
        first: ProducerId,
        /// One past the last id in the record.
        next: ProducerId,
        /// The first id that is still free.
        expected: ProducerId,
    },
    /// A topic's settings are illegal, possibly only under this start configuration.
    #[error("settings of topic '{topic}': {error}")]
    TopicConfig {
        /// The topic.
        topic: TopicName,
        /// What is wrong.
        error: ConfigError,
    },
    /// A group's settings cannot be parsed.
    #[error("settings of group '{group}': {error}")]
    GroupConfig {
        /// The group.
        group: String,
        /// What is wrong.
        error: ConfigError,
    },
    /// The record's feature levels are older than the applied ones.
    #[error("metadata record sets the features' epoch to {found}, but it is already {current}")]
    FeatureEpoch {
        /// The record's epoch.
        found: i64,
        /// The newest epoch so far.
        current: i64,
    },
    /// The record founds a cluster, but one exists already.
    #[error("metadata record founds the cluster {cluster_id}, but there is one already")]
    AlreadyFounded {
        /// The cluster in the record.
        cluster_id: String,
    },
    /// The record refers to a cluster, but none exists yet.
    #[error("metadata record is about a cluster, but none was founded")]
    NotFounded,
    /// A registration does not follow the previous ones.
    #[error("metadata record registers node {node} with epoch {epoch}, after epoch {current}")]
    NodeEpoch {
        /// The node.
        node: NodeId,
        /// The record's epoch.
        epoch: i64,
        /// The newest epoch so far.
        current: i64,
    },
    /// The record names a node that is not registered.
    #[error("metadata record is about node {node}, which is not registered")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// The replicas of a partition are inconsistent.
    #[error("metadata record gives partition {partition} of topic '{topic}' inconsistent replicas")]
    InvalidReplicas {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
    },
    /// The broker's settings are illegal, possibly only under this start configuration.
    #[error("broker settings changed at run time: {0}")]
    BrokerConfig(ConfigError),
    /// The record contradicts the users, rules or client quotas.
    #[error(transparent)]
    Access(#[from] AccessContradiction),
}

pub(super) fn apply(
    image: &mut MetadataImage,
    fixed: &BTreeMap<String, String>,
    record: &MetadataRecord,
) -> Result<(), ApplyError> {
    match record {
        MetadataRecord::TopicCreated {
            name,
            id,
            partitions,
            replication_factor,
            created_at,
            configs,
            replicas,
        } => {
            let topic = TopicImage {
                name: name.clone(),
                id: *id,
                partitions: *partitions,
                replication_factor: *replication_factor,
                created_at: *created_at,
                overrides: configs.clone(),
                config: resolve(name, configs, &image.broker)?,
                assignment: Arc::default(),
            };
            topic_created(image, topic, replicas)
        }
        MetadataRecord::TopicDeleted { id } => topic_deleted(image, *id),
        MetadataRecord::PartitionsAdded { id, partitions, replicas } => {
            partitions_added(image, *id, *partitions, replicas)
        }
        MetadataRecord::TopicConfigs { id, configs } => topic_configs(image, *id, configs),
        MetadataRecord::BrokerConfigs { cluster, nodes } => broker_configs(image, fixed, cluster, nodes),
        MetadataRecord::GroupConfigs { group, configs } => group_configs(image, group, configs),
        MetadataRecord::Features { epoch, levels } => features(image, *epoch, levels),
        MetadataRecord::ProducerIds { first, next } => producer_ids(image, *first, *next),
        MetadataRecord::ClusterFounded { node, cluster_id, epoch } => {
            let (founder, cluster_id) = (*node, cluster_id.clone());
            cluster_founded(image, ClusterImage { founder, cluster_id, epoch: *epoch })
        }
        MetadataRecord::NodeRegistered(registration) => node_registered(image, registration),
        MetadataRecord::NodeFenced { node, fenced } => node_fenced(image, *node, *fenced),
        MetadataRecord::NodeRemoved { node } => {
            image.nodes.remove(node).map(drop).ok_or(ApplyError::UnknownNode { node: *node })
        }
        MetadataRecord::PartitionReplicas {
            id,
            partition,
            replicas,
            adding,
            removing,
            lost,
            next_incarnation,
        } => {
            let wanted = PartitionImage {
                replicas: replicas.clone(),
                founders: Vec::new(),
                adding: adding.clone(),
                removing: removing.clone(),
                lost: lost.clone(),
                next_incarnation: *next_incarnation,
            };
            partition_replicas(image, *id, *partition, wanted)
        }
        MetadataRecord::User(user) => Ok(image.access.put_user(user)?),
        MetadataRecord::UserRemoved { name } => Ok(image.access.remove_user(name)?),
        MetadataRecord::AclsChanged { added, removed } => Ok(image.access.change_acls(added, removed)?),
        MetadataRecord::ClientQuota { entity, limits } => Ok(image.access.put_limits(entity, limits)?),
        MetadataRecord::Token(token) => {
            image.access.put_token(token);
            Ok(())
        }
        MetadataRecord::TokenRemoved { id } => Ok(image.access.remove_token(id)?),
        MetadataRecord::AccountClaims(claims) => Ok(image.access.put_account_claims(claims)?),
        MetadataRecord::AccountClaimsRemoved { account } => {
            Ok(image.access.remove_account_claims(account)?)
        }
        MetadataRecord::AccessVersion { version } => Ok(image.access.continue_from(*version)?),
    }
}

fn resolve(
    name: &TopicName,
    configs: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Result<Arc<TopicConfig>, ApplyError> {
    TopicConfig::resolve(configs, broker)
        .map(Arc::new)
        .map_err(|error| ApplyError::TopicConfig { topic: name.clone(), error })
}

fn topic_created(
    image: &mut MetadataImage,
    mut topic: TopicImage,
    replicas: &[Vec<ReplicaId>],
) -> Result<(), ApplyError> {
    if topic.partitions < 1 || topic.replication_factor < 1 {
        let (name, partitions, replicas) = (topic.name, topic.partitions, topic.replication_factor);
        return Err(ApplyError::InvalidCount { name, partitions, replicas });
    }
    let folded = topic.name.folded();
    if image.folded.contains_key(&folded) || image.ids.contains_key(&topic.id) || topic.id.is_zero() {
        return Err(ApplyError::TopicExists { name: topic.name, id: topic.id });
    }
    topic.assignment = Arc::new(founded(image, &topic.name, 0..topic.partitions, replicas)?);
    topic.assert_whole();
    image.folded.insert(folded, topic.name.clone());
    image.ids.insert(topic.id, topic.name.clone());
    image.partitions += topic.partitions.unsigned_abs() as u64;
    image.topics.insert(topic.name.clone(), Arc::new(topic));
    Ok(())
}

fn topic_deleted(image: &mut MetadataImage, id: TopicId) -> Result<(), ApplyError> {
    let topic = known(image, id)?;
    image.folded.remove(&topic.name.folded());
    image.ids.remove(&id);
    let others = image.partitions.checked_sub(u64::from(topic.partitions.unsigned_abs()));
    image.partitions = others.expect("all topics together have the partitions of each");
    image.topics.remove(&topic.name);
    Ok(())
}

/// Returns new partitions with their replicas. If the record names no replicas, each has one on the founder,
/// or on the standalone server.
fn founded(
    image: &MetadataImage,
    topic: &TopicName,
    partitions: std::ops::Range<i32>,
    replicas: &[Vec<ReplicaId>],
) -> Result<Vec<PartitionImage>, ApplyError> {
    if replicas.is_empty() {
        return Ok(partitions.map(|_| PartitionImage::new(image.implicit_replicas())).collect());
    }
    if image.cluster.is_none() {
        return Err(ApplyError::NotFounded);
    }
    let invalid = |partition| ApplyError::InvalidReplicas { topic: topic.clone(), partition };
    if replicas.len() != partitions.len() {
        return Err(invalid(PartitionId(partitions.end)));
    }
    let found = |(partition, replicas): (i32, &Vec<ReplicaId>)| {
        let made = PartitionImage::new(replicas.clone());
        if is_possible(&made) { Ok(made) } else { Err(invalid(PartitionId(partition))) }
    };
    partitions.zip(replicas).map(found).collect()
}

/// Reports whether the replicas are consistent: at least one, at most one wanted per node, none both wanted
/// and being removed.
fn is_possible(partition: &PartitionImage) -> bool {
    let PartitionImage { replicas, adding, removing, lost, next_incarnation, .. } = partition;
    let nodes: BTreeSet<NodeId> = replicas.iter().map(|replica| replica.node()).collect();
    let gone: BTreeSet<ReplicaId> = removing.iter().copied().collect();
    !replicas.is_empty()
        && nodes.len() == replicas.len()
        && gone.len() == removing.len()
        && replicas.iter().all(|replica| !gone.contains(replica))
        && adding.iter().all(|replica| partition.present().any(|present| present == *replica))
        && lost.iter().all(|replica| gone.contains(replica))
        && partition.present().all(|replica| replica.incarnation() < *next_incarnation)
}

fn partition_replicas(
    image: &mut MetadataImage,
    id: TopicId,
    partition: PartitionId,
    wanted: PartitionImage,
) -> Result<(), ApplyError> {
    let topic = known(image, id)?;
    if image.cluster.is_none() {
        return Err(ApplyError::NotFounded);
    }
    let invalid = || ApplyError::InvalidReplicas { topic: topic.name.clone(), partition };
    let before = topic.partition(partition).ok_or_else(invalid)?;
    let wanted = PartitionImage { founders: before.founders.clone(), ..wanted };
    if !is_possible(&wanted) || wanted.next_incarnation < before.next_incarnation {
        return Err(invalid());
    }
    let name = topic.name.clone();
    drop(topic);
    // Clones the topic's assignment only if the previous image is still in use.
    let topic = Arc::make_mut(image.topics.get_mut(&name).expect("it was just found"));
    let number = usize::try_from(partition.0).expect("it was just found");
    Arc::make_mut(&mut topic.assignment)[number] = wanted;
    Ok(())
}

fn cluster_founded(image: &mut MetadataImage, cluster: ClusterImage) -> Result<(), ApplyError> {
    if image.cluster.is_some() {
        return Err(ApplyError::AlreadyFounded { cluster_id: cluster.cluster_id });
    }
    image.cluster = Some(cluster);
    // The log has named no replicas so far.
    let founded = PartitionImage::new(image.implicit_replicas());
    for topic in image.topics.values_mut() {
        let assignment = Arc::new(vec![founded.clone(); topic.assignment.len()]);
        Arc::make_mut(topic).assignment = assignment;
    }
    Ok(())
}

fn node_registered(image: &mut MetadataImage, registration: &NodeRegistration) -> Result<(), ApplyError> {
    let cluster = image.cluster.as_mut().ok_or(ApplyError::NotFounded)?;
    let (node, epoch) = (registration.node, registration.epoch);
    let before = image.nodes.get(&node);
    // In a snapshot, nodes are ordered by number. Their epochs are all within the number of registrations
    // that the snapshot starts with.
    let newest = before.map_or(0, |before| before.registration.epoch);
    if epoch <= newest {
        return Err(ApplyError::NodeEpoch { node, epoch, current: newest });
    }
    cluster.epoch = cluster.epoch.max(epoch);
    let fenced = before.is_none_or(|before| before.fenced);
    image.nodes.insert(node, Arc::new(NodeImage { registration: registration.clone(), fenced }));
    Ok(())
}

fn node_fenced(image: &mut MetadataImage, node: NodeId, fenced: bool) -> Result<(), ApplyError> {
    let known = image.nodes.get_mut(&node).ok_or(ApplyError::UnknownNode { node })?;
    Arc::make_mut(known).fenced = fenced;
    Ok(())
}

fn partitions_added(
    image: &mut MetadataImage,
    id: TopicId,
    partitions: i32,
    replicas: &[Vec<ReplicaId>],
) -> Result<(), ApplyError> {
    let topic = known(image, id)?;
    if partitions <= topic.partitions {
        let (name, replicas) = (topic.name.clone(), topic.replication_factor);
        return Err(ApplyError::InvalidCount { name, partitions, replicas });
    }
    let mut assignment = Vec::clone(&topic.assignment);
    assignment.extend(founded(image, &topic.name, topic.partitions..partitions, replicas)?);
    image.partitions += u64::from((partitions - topic.partitions).unsigned_abs());
    let topic = TopicImage { partitions, assignment: Arc::new(assignment), ..(*topic).clone() };
    topic.assert_whole();
    replace(image, topic);
    Ok(())
}

fn topic_configs(
    image: &mut MetadataImage,
    id: TopicId,
    configs: &BTreeMap<String, String>,
) -> Result<(), ApplyError> {
    let topic = known(image, id)?;
    let config = resolve(&topic.name, configs, &image.broker)?;
    replace(image, TopicImage { overrides: configs.clone(), config, ..(*topic).clone() });
    Ok(())
}

fn broker_configs(
    image: &mut MetadataImage,
    fixed: &BTreeMap<String, String>,
    cluster: &BTreeMap<String, String>,
    nodes: &BTreeMap<NodeId, BTreeMap<String, String>>,
) -> Result<(), ApplyError> {
    let node = nodes.get(&image.broker.node()).cloned().unwrap_or_default();
    let dynamic = DynamicConfigs { node, cluster: cluster.clone() };
    let broker = BrokerConfig::resolve(fixed, &dynamic).map_err(ApplyError::BrokerConfig)?;
    image.topics =
        image.resolve_topics(&broker).map_err(|(topic, error)| ApplyError::TopicConfig { topic, error })?;
    image.groups =
        image.resolve_groups(&broker).map_err(|(group, error)| ApplyError::GroupConfig { group, error })?;
    image.broker = Arc::new(broker);
    image.cluster_configs.clone_from(cluster);
    image.node_configs.clone_from(nodes);
    Ok(())
}

fn group_configs(
    image: &mut MetadataImage,
    group: &str,
    configs: &BTreeMap<String, String>,
) -> Result<(), ApplyError> {
    if configs.is_empty() {
        image.groups.remove(group);
        return Ok(());
    }
    let config = GroupConfig::resolve(configs, &image.broker)
        .map_err(|error| ApplyError::GroupConfig { group: group.to_owned(), error })?;
    let configured = GroupImage { overrides: configs.clone(), config: Arc::new(config) };
    image.groups.insert(group.to_owned(), Arc::new(configured));
    Ok(())
}

fn features(image: &mut MetadataImage, epoch: i64, levels: &BTreeMap<String, i16>) -> Result<(), ApplyError> {
    let current = image.features.epoch;
    if epoch <= current {
        return Err(ApplyError::FeatureEpoch { found: epoch, current });
    }
    image.features = FeatureLevels { levels: levels.clone(), epoch };
    Ok(())
}

fn producer_ids(image: &mut MetadataImage, first: ProducerId, next: ProducerId) -> Result<(), ApplyError> {
    if first != image.next_producer_id || next <= first {
        return Err(ApplyError::ProducerIds { first, next, expected: image.next_producer_id });
    }
    image.next_producer_id = next;
    Ok(())
}

fn known(image: &MetadataImage, id: TopicId) -> Result<Arc<TopicImage>, ApplyError> {
    image.topic_by_id(id).cloned().ok_or(ApplyError::UnknownTopicId { id })
}

fn replace(image: &mut MetadataImage, topic: TopicImage) {
    image.topics.insert(topic.name.clone(), Arc::new(topic));
}
