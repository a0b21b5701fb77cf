//! What the controller can be asked to do.

use tailrace_types::{NodeId, TimestampMs, TopicId};

use crate::features::FeatureUpdate;

/// One change that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Creates a topic.
    CreateTopic(CreateTopic),
    /// Deletes a topic.
    DeleteTopic {
        /// Which.
        topic: TopicRef,
        /// Who asks.
        by: Requester,
    },
    /// Adds partitions to a topic.
    CreatePartitions {
        /// The topic's name.
        topic: String,
        /// Number of partitions afterwards, not the number to add.
        count: i32,
        /// Who asks.
        by: Requester,
    },
    /// Changes the overrides of a topic.
    AlterTopicConfigs {
        /// The topic's name.
        topic: String,
        /// What to change.
        change: ConfigChange,
    },
    /// Changes settings of the broker at run time.
    AlterBrokerConfigs {
        /// For which nodes.
        scope: BrokerScope,
        /// What to change.
        change: ConfigChange,
    },
    /// Changes the overrides of a group, which need not exist.
    AlterGroupConfigs {
        /// The group's id.
        group: String,
        /// What to change.
        change: ConfigChange,
    },
    /// Brings every feature to its newest level: for a new data folder.
    FinalizeFeatures,
    /// Changes levels of features, all of them or none.
    UpdateFeatures(Vec<FeatureUpdate>),
    /// Reserves [`super::PRODUCER_IDS_PER_BLOCK`] producer ids.
    AllocateProducerIds,
}

/// The topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopic {
    /// Its name, not yet checked.
    pub name: String,
    /// Its id, drawn by the caller ([`TopicId::from_random`]).
    pub id: TopicId,
    /// Number of partitions, -1 for `num.partitions`.
    pub partitions: i32,
    /// Number of replicas, -1 for `default.replication.factor`.
    pub replication_factor: i16,
    /// Overrides. Of a key that is given twice the last counts, as in Kafka. Null values are refused.
    pub configs: Vec<(String, Option<String>)>,
    /// The caller's clock.
    pub now: TimestampMs,
    /// Who asks.
    pub by: Requester,
}

impl CreateTopic {
    /// A topic with the default number of partitions and replicas and no overrides: what auto-creation asks for.
    pub fn with_defaults(name: &str, id: TopicId, now: TimestampMs, by: Requester) -> Self {
        let name = name.to_owned();
        Self { name, id, partitions: -1, replication_factor: -1, configs: Vec::new(), now, by }
    }
}

/// Who asks for a change. Internal topics are the broker's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A client.
    Client,
    /// tailrace itself.
    Broker,
}

/// Names a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id.
    Id(TopicId),
}

/// For which nodes a broker setting is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokerScope {
    /// All nodes: the broker resource with the empty name.
    Cluster,
    /// One node: the broker resource with its number.
    Node(NodeId),
}

/// A change of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// These are all; what is not named is removed (AlterConfigs).
    Replace(Vec<(String, Option<String>)>),
    /// Each key by itself (IncrementalAlterConfigs).
    Incremental(Vec<ConfigOp>),
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOp {
    /// The key.
    pub key: String,
    /// What to do.
    pub action: ConfigAction,
    /// The value; ignored by [`ConfigAction::Delete`], required by the others.
    pub value: Option<String>,
}

/// What to do with one key. The numbers are those of IncrementalAlterConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigAction {
    /// Sets it.
    Set = 0,
    /// Removes it, so that the default holds.
    Delete = 1,
    /// Adds elements to a list.
    Append = 2,
    /// Removes elements from a list.
    Subtract = 3,
}

impl ConfigAction {
    /// The action that a number of the protocol stands for.
    pub const fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Set),
            1 => Some(Self::Delete),
            2 => Some(Self::Append),
            3 => Some(Self::Subtract),
            _ => None,
        }
    }

    /// Kafka's name of the action.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Delete => "DELETE",
            Self::Append => "APPEND",
            Self::Subtract => "SUBTRACT",
        }
    }
}
