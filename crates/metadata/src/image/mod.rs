//! The metadata at one moment: topics, settings, nodes, producer ids, access. Immutable once published.

mod access;

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_config::{
    BrokerConfig, ConfigError, DescribedConfig, GroupConfig, TopicConfig, describe_broker, describe_cluster,
    describe_group, describe_topic,
};
use tailrace_identity::acl::AUDIT_TOPIC;
use tailrace_types::{
    NodeId, PartitionId, ProducerId, ReplicaId, TimestampMs, TopicId, TopicName, TopicPartition,
};

pub use access::{AccessContradiction, AccessImage};

use crate::features::FeatureLevels;
use crate::record::{MetadataRecord, NodeRegistration};

/// Name of the topic with the metadata log. It is never listed, and clients cannot access it.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
/// Name of the topic with committed group offsets.
pub const CONSUMER_OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Name of the topic with the state of transactions.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";

/// Name of the topic with the state of share groups.
pub const SHARE_GROUP_STATE_TOPIC: &str = "__share_group_state";

/// Name of the topic with the durable consumers of streams.
pub const JETSTREAM_STATE_TOPIC: &str = "__jetstream_state";

/// Reports whether a topic belongs to the broker.
pub fn is_internal_topic(name: &str) -> bool {
    matches!(
        name,
        METADATA_TOPIC
            | CONSUMER_OFFSETS_TOPIC
            | TRANSACTION_STATE_TOPIC
            | SHARE_GROUP_STATE_TOPIC
            | JETSTREAM_STATE_TOPIC
            | AUDIT_TOPIC
    )
}

/// The replicas of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// The wanted replicas, the preferred leader first.
    pub replicas: Vec<ReplicaId>,
    /// The replicas at creation. A replica that is opened for the first time starts with these as its
    /// members.
    pub founders: Vec<ReplicaId>,
    /// The replicas that the reassignment in progress has added, ordered by id. They may be wanted, or in
    /// `removing` already. See [`PartitionImage::incoming`].
    pub adding: Vec<ReplicaId>,
    /// Replicas that are no longer wanted and may still be members. They keep their folder until the
    /// reassignment is finished.
    pub removing: Vec<ReplicaId>,
    /// The replicas in `removing` whose disk was lost. They never come back.
    pub lost: Vec<ReplicaId>,
    /// Higher than the incarnations of all replicas that the partition has ever had.
    pub next_incarnation: u32,
}

impl PartitionImage {
    pub(crate) fn new(founders: Vec<ReplicaId>) -> Self {
        let next_incarnation = above(&founders);
        let (adding, removing, lost) = (Vec::new(), Vec::new(), Vec::new());
        Self { replicas: founders.clone(), founders, adding, removing, lost, next_incarnation }
    }

    /// Returns the replica whose folder is on `node`, wanted or being removed.
    pub fn present_on(&self, node: NodeId) -> Option<ReplicaId> {
        let here = self.present().filter(|replica| replica.node() == node && !self.lost.contains(replica));
        here.max_by_key(|replica| replica.incarnation())
    }

    /// Returns the wanted replicas that may not be members yet.
    pub fn incoming(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.adding.iter().copied().filter(|replica| self.replicas.contains(replica))
    }

    /// Returns all replicas that may be members: the wanted ones, then those being removed.
    pub fn present(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.replicas.iter().chain(&self.removing).copied()
    }

    /// Reports whether a reassignment is in progress: the members are not yet the wanted ones.
    pub fn is_reassigned(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    fn is_as_founded(&self) -> bool {
        self.replicas == self.founders
            && !self.is_reassigned()
            && self.next_incarnation == above(&self.founders)
    }
}

/// Returns the lowest incarnation above those of these replicas.
fn above(replicas: &[ReplicaId]) -> u32 {
    replicas.iter().map(|replica| replica.incarnation()).max().unwrap_or(0).saturating_add(1)
}

/// One node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// Its registration.
    pub registration: NodeRegistration,
    /// True if the controller considers it dead.
    pub fenced: bool,
}

/// The identity of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterImage {
    pub(crate) founder: NodeId,
    pub(crate) cluster_id: String,
    /// The number of registrations so far.
    pub(crate) epoch: i64,
}

/// One topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicImage {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// Number of partitions, at least 1.
    pub partitions: i32,
    /// Number of replicas of each partition at creation, at least 1. [`TopicImage::partition`] has the
    /// current replicas.
    pub replication_factor: i16,
    /// The time of its creation.
    pub created_at: TimestampMs,
    /// The topic's own settings, in canonical text.
    pub overrides: BTreeMap<String, String>,
    /// The topic's effective configuration.
    pub config: Arc<TopicConfig>,
    /// The replicas of each partition. Its length is `partitions`.
    pub(crate) assignment: Arc<Vec<PartitionImage>>,
}

impl TopicImage {
    /// Returns the number of partitions.
    pub fn partition_count(&self) -> usize {
        self.partitions.unsigned_abs() as usize
    }

    /// Checks that the topic has replicas for exactly its partitions.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn assert_whole(&self) {
        let (replicas, name) = (self.assignment.len(), &self.name);
        assert!(
            self.partitions > 0 && replicas == self.partition_count(),
            "topic {name} has {} partitions, and replicas of {replicas}",
            self.partitions
        );
    }

    /// Reports whether the topic belongs to the broker.
    pub fn is_internal(&self) -> bool {
        is_internal_topic(self.name.as_str())
    }

    /// Reports whether the topic has this partition.
    pub fn has_partition(&self, partition: PartitionId) -> bool {
        (0..self.partitions).contains(&partition.0)
    }

    /// Returns the replicas of a partition. `None` if it does not exist.
    pub fn partition(&self, partition: PartitionId) -> Option<&PartitionImage> {
        self.assignment.get(usize::try_from(partition.0).ok()?)
    }

    /// Returns the replicas of all partitions, in order.
    pub fn assignment(&self) -> impl ExactSizeIterator<Item = (PartitionId, &PartitionImage)> {
        // The number of partitions fits an i32.
        self.assignment.iter().enumerate().map(|(number, partition)| (PartitionId(number as i32), partition))
    }

    /// Returns the topic's partitions, in order.
    pub fn topic_partitions(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        (0..self.partitions).map(|number| TopicPartition::new(self.name.clone(), PartitionId(number)))
    }
}

/// A group with its own settings. The group need not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupImage {
    /// The group's own settings, in canonical text. Never empty.
    pub overrides: BTreeMap<String, String>,
    /// The group's effective configuration.
    pub config: Arc<GroupConfig>,
}

/// All metadata at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataImage {
    pub(crate) topics: BTreeMap<TopicName, Arc<TopicImage>>,
    pub(crate) ids: BTreeMap<TopicId, TopicName>,
    /// Keyed by [`TopicName::folded`], to find collisions.
    pub(crate) folded: BTreeMap<String, TopicName>,
    /// The number of partitions of all topics.
    pub(crate) partitions: u64,
    pub(crate) broker: Arc<BrokerConfig>,
    /// Settings changed at run time for all nodes.
    pub(crate) cluster_configs: BTreeMap<String, String>,
    pub(crate) node_configs: BTreeMap<NodeId, BTreeMap<String, String>>,
    /// Groups with their own settings, by id.
    pub(crate) groups: BTreeMap<String, Arc<GroupImage>>,
    pub(crate) features: FeatureLevels,
    pub(crate) next_producer_id: ProducerId,
    /// `None` in a standalone server.
    pub(crate) cluster: Option<ClusterImage>,
    pub(crate) nodes: BTreeMap<NodeId, Arc<NodeImage>>,
    pub(crate) access: AccessImage,
}

impl MetadataImage {
    pub(crate) fn empty(broker: BrokerConfig) -> Self {
        Self {
            topics: BTreeMap::new(),
            ids: BTreeMap::new(),
            folded: BTreeMap::new(),
            partitions: 0,
            broker: Arc::new(broker),
            cluster_configs: BTreeMap::new(),
            node_configs: BTreeMap::new(),
            groups: BTreeMap::new(),
            features: FeatureLevels::unwritten(),
            next_producer_id: ProducerId(0),
            cluster: None,
            nodes: BTreeMap::new(),
            access: AccessImage::default(),
        }
    }

    /// Returns the registered nodes of the cluster, ordered by number. Empty in a standalone server.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<NodeImage>> {
        self.nodes.values()
    }

    /// Returns a registered node of the cluster.
    pub fn node(&self, node: NodeId) -> Option<&Arc<NodeImage>> {
        self.nodes.get(&node)
    }

    /// Returns the nodes that can hold replicas and that clients may be told about, ordered by number: those
    /// that are not fenced, or the standalone server itself.
    pub fn live_nodes(&self) -> Vec<NodeId> {
        match self.cluster {
            None => vec![self.broker.node()],
            Some(_) => {
                let live = self.nodes.values().filter(|node| !node.fenced);
                live.map(|node| node.registration.node).collect()
            }
        }
    }

    /// Reports whether a node is one of [`MetadataImage::live_nodes`].
    pub fn is_live(&self, node: NodeId) -> bool {
        match self.cluster {
            None => node == self.broker.node(),
            Some(_) => self.nodes.get(&node).is_some_and(|node| !node.fenced),
        }
    }

    /// Returns the lowest and highest level of the protocol between nodes that all registered nodes support.
    /// Only these levels can be put in force. `None` in a standalone server.
    pub fn cluster_levels(&self) -> Option<(u16, u16)> {
        let levels = || self.nodes.values().map(|node| node.registration.levels);
        Some((levels().map(|(min, _)| min).max()?, levels().map(|(_, max)| max).min()?))
    }

    /// Returns the node that founded the cluster. `None` in a standalone server.
    pub fn founder(&self) -> Option<NodeId> {
        self.cluster.as_ref().map(|cluster| cluster.founder)
    }

    /// Returns the cluster's name. `None` in a standalone server.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster.as_ref().map(|cluster| cluster.cluster_id.as_str())
    }

    /// Returns the replication factor for creating an internal topic: the configured one, but at most the
    /// number of live nodes.
    pub fn internal_replication_factor(&self, topic: &str) -> i16 {
        let configured = match topic {
            CONSUMER_OFFSETS_TOPIC => self.broker.offsets_topic_replication_factor,
            TRANSACTION_STATE_TOPIC => self.broker.transaction_state_log_replication_factor,
            SHARE_GROUP_STATE_TOPIC => self.broker.share_coordinator_state_topic_replication_factor,
            JETSTREAM_STATE_TOPIC => self.broker.tailrace_jetstream_state_topic_replication_factor,
            AUDIT_TOPIC => self.broker.tailrace_audit_log_topic_replication_factor,
            _ => self.broker.default_replication_factor,
        };
        configured.min(i16::try_from(self.live_nodes().len()).unwrap_or(i16::MAX)).max(1)
    }

    /// Returns the replicas of partitions whose record names none: one on the founder, or on the standalone
    /// server.
    pub(crate) fn implicit_replicas(&self) -> Vec<ReplicaId> {
        vec![ReplicaId::new(self.founder().unwrap_or(self.broker.node()), 1)]
    }

    /// Returns all topics, ordered by name.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<TopicImage>> {
        self.topics.values()
    }

    /// Returns the topic of this name.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// Returns the topic with this id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.ids.get(&id)?)
    }

    /// Returns the effective configuration of this process.
    pub fn broker(&self) -> &Arc<BrokerConfig> {
        &self.broker
    }

    /// Returns the effective configuration of a group, which need not exist.
    pub fn group_config(&self, group: &str) -> Arc<GroupConfig> {
        match self.groups.get(group) {
            Some(configured) => Arc::clone(&configured.config),
            None => Arc::clone(&self.broker.group_defaults),
        }
    }

    /// Returns the groups with their own settings, ordered by id. They need not exist.
    pub fn configured_groups(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<GroupImage>)> {
        self.groups.iter().map(|(group, configured)| (group.as_str(), configured))
    }

    /// Returns users, rules and client quotas.
    pub fn access(&self) -> &AccessImage {
        &self.access
    }

    /// Returns the feature levels.
    pub fn features(&self) -> &FeatureLevels {
        &self.features
    }

    /// Returns the first producer id that has not been handed out yet.
    pub fn next_producer_id(&self) -> ProducerId {
        self.next_producer_id
    }

    /// Answers DescribeConfigs for a topic. `None` if there is no topic of that name.
    pub fn describe_topic(&self, name: &str) -> Option<Vec<DescribedConfig>> {
        let topic = self.topic(name)?;
        // Overrides are resolved when they are applied.
        Some(describe_topic(&topic.overrides, &self.broker).expect("applied overrides are legal"))
    }

    /// Answers DescribeConfigs for a group, which need not exist.
    pub fn describe_group(&self, group: &str) -> Vec<DescribedConfig> {
        let none = BTreeMap::new();
        let overrides = self.groups.get(group).map_or(&none, |configured| &configured.overrides);
        // Overrides are resolved when they are applied.
        describe_group(overrides, &self.broker).expect("applied overrides are legal")
    }

    /// Answers DescribeConfigs for this broker.
    pub fn describe_broker(&self) -> Vec<DescribedConfig> {
        describe_broker(&self.broker)
    }

    /// Answers DescribeConfigs for the broker resource with the empty name: the settings changed at run time
    /// for all nodes.
    pub fn describe_cluster(&self) -> Vec<DescribedConfig> {
        describe_cluster(&self.broker)
    }

    /// Resolves every topic against other broker settings.
    pub(crate) fn resolve_topics(
        &self,
        broker: &BrokerConfig,
    ) -> Result<BTreeMap<TopicName, Arc<TopicImage>>, (TopicName, ConfigError)> {
        let resolve = |topic: &Arc<TopicImage>| {
            let config = TopicConfig::resolve(&topic.overrides, broker)
                .map_err(|error| (topic.name.clone(), error))?;
            let resolved = if config == *topic.config {
                Arc::clone(topic)
            } else {
                Arc::new(TopicImage { config: Arc::new(config), ..(**topic).clone() })
            };
            Ok((topic.name.clone(), resolved))
        };
        self.topics.values().map(resolve).collect()
    }

    /// Resolves every group against other broker settings.
    pub(crate) fn resolve_groups(
        &self,
        broker: &BrokerConfig,
    ) -> Result<BTreeMap<String, Arc<GroupImage>>, (String, ConfigError)> {
        let resolve = |(group, known): (&String, &Arc<GroupImage>)| {
            let config =
                GroupConfig::resolve(&known.overrides, broker).map_err(|error| (group.clone(), error))?;
            let resolved = GroupImage { config: Arc::new(config), ..(**known).clone() };
            Ok((group.clone(), Arc::new(resolved)))
        };
        self.groups.iter().map(resolve).collect()
    }

    pub(crate) fn snapshot_records(&self) -> Vec<MetadataRecord> {
        let mut records = self.cluster_records();
        if !self.cluster_configs.is_empty() || !self.node_configs.is_empty() {
            let (cluster, nodes) = (self.cluster_configs.clone(), self.node_configs.clone());
            records.push(MetadataRecord::BrokerConfigs { cluster, nodes });
        }
        self.topics.values().for_each(|topic| self.topic_records(topic, &mut records));
        records.extend(self.groups.iter().map(|(group, configured)| MetadataRecord::GroupConfigs {
            group: group.clone(),
            configs: configured.overrides.clone(),
        }));
        if self.features.epoch > 0 {
            let (epoch, levels) = (self.features.epoch, self.features.levels.clone());
            records.push(MetadataRecord::Features { epoch, levels });
        }
        if self.next_producer_id > ProducerId(0) {
            records.push(MetadataRecord::ProducerIds { first: ProducerId(0), next: self.next_producer_id });
        }
        records.extend(self.access.snapshot_records());
        records
    }

    /// Returns the records of the cluster. They come first: without them only a standalone server can have
    /// partitions.
    fn cluster_records(&self) -> Vec<MetadataRecord> {
        let Some(ClusterImage { founder, cluster_id, epoch }) = self.cluster.clone() else {
            return Vec::new();
        };
        let mut records = vec![MetadataRecord::ClusterFounded { node: founder, cluster_id, epoch }];
        for node in self.nodes.values() {
            records.push(MetadataRecord::NodeRegistered(node.registration.clone()));
            if !node.fenced {
                records.push(MetadataRecord::NodeFenced { node: node.registration.node, fenced: false });
            }
        }
        records
    }

    fn topic_records(&self, topic: &TopicImage, records: &mut Vec<MetadataRecord>) {
        // A standalone server writes a form that an older tailrace can read.
        let founders = topic.assignment.iter().filter(|_| self.cluster.is_some());
        records.push(MetadataRecord::TopicCreated {
            name: topic.name.clone(),
            id: topic.id,
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            created_at: topic.created_at,
            configs: topic.overrides.clone(),
            replicas: founders.map(|partition| partition.founders.clone()).collect(),
        });
        let moved = topic.assignment().filter(|(_, partition)| !partition.is_as_founded());
        records.extend(moved.map(|(number, partition)| MetadataRecord::PartitionReplicas {
            id: topic.id,
            partition: number,
            replicas: partition.replicas.clone(),
            adding: partition.adding.clone(),
            removing: partition.removing.clone(),
            lost: partition.lost.clone(),
            next_incarnation: partition.next_incarnation,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "topic t has 2 partitions, and replicas of 1")]
    fn each_partition_has_replicas() {
        let broker = BrokerConfig::resolve(&BTreeMap::new(), &Default::default()).expect("defaults");
        let topic = TopicImage {
            name: TopicName::new("t").expect("the name is legal"),
            id: TopicId([1; 16]),
            partitions: 2,
            replication_factor: 1,
            created_at: TimestampMs(0),
            overrides: BTreeMap::new(),
            config: Arc::new(TopicConfig::resolve(&BTreeMap::new(), &broker).expect("defaults")),
            assignment: Arc::new(vec![PartitionImage::new(vec![ReplicaId::new(NodeId(1), 1)])]),
        };
        topic.assert_whole();
    }
}
