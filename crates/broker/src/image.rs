//! What holds at one moment: topics, settings, producer ids. Immutable once published.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_types::{NodeId, PartitionId, ProducerId, TimestampMs, TopicId, TopicName, TopicPartition};

use crate::config::{
    BrokerConfig, ConfigError, DescribedConfig, GroupConfig, TopicConfig, describe_broker, describe_cluster,
    describe_group, describe_topic,
};
use crate::features::FeatureLevels;
use crate::record::MetadataRecord;

/// Topic that holds the metadata log. Never listed, never open to clients.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
/// Topic that holds committed group offsets.
pub const CONSUMER_OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Topic that holds the state of transactions.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";

/// Topic that holds the positions of share groups.
pub const SHARE_GROUP_STATE_TOPIC: &str = "__share_group_state";

/// True for the topics that belong to the broker.
pub fn is_internal_topic(name: &str) -> bool {
    matches!(
        name,
        METADATA_TOPIC | CONSUMER_OFFSETS_TOPIC | TRANSACTION_STATE_TOPIC | SHARE_GROUP_STATE_TOPIC
    )
}

/// One topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicImage {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// Number of partitions, from 1.
    pub partitions: i32,
    /// Number of replicas of each partition, from 1.
    pub replication_factor: i16,
    /// When it was created.
    pub created_at: TimestampMs,
    /// What was set for this topic, in canonical text.
    pub overrides: BTreeMap<String, String>,
    /// What holds for this topic.
    pub config: Arc<TopicConfig>,
}

impl TopicImage {
    /// True if it belongs to the broker.
    pub fn is_internal(&self) -> bool {
        is_internal_topic(self.name.as_str())
    }

    /// True if it has this partition.
    pub fn has_partition(&self, partition: PartitionId) -> bool {
        (0..self.partitions).contains(&partition.0)
    }

    /// Its partitions, in order.
    pub fn topic_partitions(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        (0..self.partitions).map(|number| TopicPartition::new(self.name.clone(), PartitionId(number)))
    }
}

/// A group that has settings of its own. It need not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupImage {
    /// What was set for this group, in canonical text. Never empty.
    pub overrides: BTreeMap<String, String>,
    /// What holds for this group.
    pub config: Arc<GroupConfig>,
}

/// Everything the controller knows at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataImage {
    pub(crate) topics: BTreeMap<TopicName, Arc<TopicImage>>,
    pub(crate) ids: BTreeMap<TopicId, TopicName>,
    /// Names with '.' folded into '_', to find collisions.
    pub(crate) folded: BTreeMap<String, TopicName>,
    pub(crate) partitions: u64,
    pub(crate) broker: Arc<BrokerConfig>,
    /// What was set at run time for all nodes, and for single ones.
    pub(crate) cluster_configs: BTreeMap<String, String>,
    pub(crate) node_configs: BTreeMap<NodeId, BTreeMap<String, String>>,
    /// Groups with settings of their own, by id.
    pub(crate) groups: BTreeMap<String, Arc<GroupImage>>,
    pub(crate) features: FeatureLevels,
    pub(crate) next_producer_id: ProducerId,
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
        }
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<TopicImage>> {
        self.topics.values()
    }

    /// Topics whose name is `from` or greater, by name: for answers in pages.
    pub fn topics_from(&self, from: &str) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.topics
            .range::<str, _>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded))
            .map(|(_, topic)| topic)
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// The topic with this id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.ids.get(&id)?)
    }

    /// Partitions of all topics together.
    pub fn partition_count(&self) -> u64 {
        self.partitions
    }

    /// What holds for this process.
    pub fn broker(&self) -> &Arc<BrokerConfig> {
        &self.broker
    }

    /// What holds for a group, whether it exists or not.
    pub fn group_config(&self, group: &str) -> Arc<GroupConfig> {
        match self.groups.get(group) {
            Some(configured) => Arc::clone(&configured.config),
            None => Arc::clone(&self.broker.group_defaults),
        }
    }

    /// The groups that have settings of their own, by id. They need not exist.
    pub fn configured_groups(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<GroupImage>)> {
        self.groups.iter().map(|(group, configured)| (group.as_str(), configured))
    }

    /// The levels of the features.
    pub fn features(&self) -> &FeatureLevels {
        &self.features
    }

    /// The first producer id that was not handed out yet.
    pub fn next_producer_id(&self) -> ProducerId {
        self.next_producer_id
    }

    /// DescribeConfigs of a topic; `None` if there is none of that name.
    pub fn describe_topic(&self, name: &str) -> Option<Vec<DescribedConfig>> {
        let topic = self.topic(name)?;
        // The overrides were resolved when they were applied.
        Some(describe_topic(&topic.overrides, &self.broker).expect("applied overrides are legal"))
    }

    /// DescribeConfigs of a group, whether it exists or not.
    pub fn describe_group(&self, group: &str) -> Vec<DescribedConfig> {
        let none = BTreeMap::new();
        let overrides = self.groups.get(group).map_or(&none, |configured| &configured.overrides);
        // The overrides were resolved when they were applied.
        describe_group(overrides, &self.broker).expect("applied overrides are legal")
    }

    /// DescribeConfigs of this broker.
    pub fn describe_broker(&self) -> Vec<DescribedConfig> {
        describe_broker(&self.broker)
    }

    /// DescribeConfigs of the broker resource with the empty name: what was changed at run time for all nodes.
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
        let mut records = Vec::new();
        if !self.cluster_configs.is_empty() || !self.node_configs.is_empty() {
            let (cluster, nodes) = (self.cluster_configs.clone(), self.node_configs.clone());
            records.push(MetadataRecord::BrokerConfigs { cluster, nodes });
        }
        records.extend(self.topics.values().map(|topic| MetadataRecord::TopicCreated {
            name: topic.name.clone(),
            id: topic.id,
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            created_at: topic.created_at,
            configs: topic.overrides.clone(),
        }));
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
        records
    }
}
