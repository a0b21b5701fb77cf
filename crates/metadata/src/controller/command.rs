//! What the controller can be asked to do. Commands travel between nodes as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};
use tailrace_types::{NodeId, PartitionId, ReplicaId, TimestampMs, TopicId};

use crate::features::FeatureUpdate;

/// Producer ids that are reserved at a time, as many as Kafka reserves.
pub(crate) const PRODUCER_IDS_PER_BLOCK: i64 = 1000;

/// Groups that may have settings of their own. Each costs its id and its settings in memory, and a record in the metadata log.
pub const GROUPS_CONFIGURED_MAX: usize = 10_000;

/// Length of the id of a group that may have settings of its own, in bytes.
pub const GROUP_ID_BYTES_MAX: usize = 1_024;

/// One change that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        /// The nodes of each partition that is added, the preferred leader first. `None` leaves it to the controller.
        #[serde(with = "crate::serial", default)]
        assignment: Option<Vec<Vec<NodeId>>>,
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
    /// Reserves a block of producer ids, as many as Kafka does.
    AllocateProducerIds,
    /// Changes nothing. It is carried out once a majority has agreed that its controller is the controller still: who asked then
    /// knows all that was committed before. Builds before it do not know it.
    Barrier,
    /// Makes a node that is alone the first of a cluster. Nothing changes if it founded this one already.
    FoundCluster {
        /// The cluster's name for clients and nodes, at most 64 bytes.
        cluster_id: String,
        /// The founder.
        node: RegisterNode,
    },
    /// Lets a node take part, and tells what has changed with it. It is fenced the first time.
    RegisterNode(RegisterNode),
    /// Takes a node for gone, or for back.
    FenceNode {
        /// Which.
        #[serde(with = "crate::serial")]
        node: NodeId,
        /// True if it is gone.
        fenced: bool,
    },
    /// Forgets a node that is gone and holds no replica.
    RemoveNode {
        /// Which.
        #[serde(with = "crate::serial")]
        node: NodeId,
    },
    /// Says on which nodes a partition is to have its replicas.
    ReassignPartition {
        /// The topic's name.
        topic: String,
        /// Its partition.
        #[serde(with = "crate::serial")]
        partition: PartitionId,
        /// The nodes, the preferred leader first. `None` goes back to where the partition was before a reassignment
        /// that is not finished yet.
        #[serde(with = "crate::serial")]
        nodes: Option<Vec<NodeId>>,
    },
    /// What a node reports of a replica of its own that is damaged beyond repair, or gone: it gets another one, which begins anew. Refused
    /// if the others could not go on without it.
    RenewReplica {
        /// The topic.
        #[serde(with = "crate::serial")]
        topic: TopicId,
        /// Its partition.
        #[serde(with = "crate::serial")]
        partition: PartitionId,
        /// The replica that is no more.
        #[serde(with = "crate::serial")]
        replica: ReplicaId,
    },
    /// What a partition's leader reports: its members are exactly those that it is to have.
    FinishReassignment {
        /// The topic.
        #[serde(with = "crate::serial")]
        topic: TopicId,
        /// Its partition.
        #[serde(with = "crate::serial")]
        partition: PartitionId,
        /// The members.
        #[serde(with = "crate::serial")]
        replicas: Vec<ReplicaId>,
    },
}

impl fmt::Display for Command {
    /// For the log: what it is, and what it is about. Settings are left out: some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateTopic(create) => write!(f, "CreateTopic {}", create.name.escape_debug()),
            Self::DeleteTopic { topic: TopicRef::Name(name), .. } => {
                write!(f, "DeleteTopic {}", name.escape_debug())
            }
            Self::DeleteTopic { topic: TopicRef::Id(id), .. } => write!(f, "DeleteTopic {id}"),
            Self::CreatePartitions { topic, count, .. } => {
                write!(f, "CreatePartitions {} {count}", topic.escape_debug())
            }
            Self::AlterTopicConfigs { topic, .. } => write!(f, "AlterTopicConfigs {}", topic.escape_debug()),
            Self::AlterBrokerConfigs { .. } => f.write_str("AlterBrokerConfigs"),
            Self::AlterGroupConfigs { group, .. } => write!(f, "AlterGroupConfigs {}", group.escape_debug()),
            Self::FinalizeFeatures => f.write_str("FinalizeFeatures"),
            Self::UpdateFeatures(_) => f.write_str("UpdateFeatures"),
            Self::AllocateProducerIds => f.write_str("AllocateProducerIds"),
            Self::Barrier => f.write_str("Barrier"),
            Self::FoundCluster { cluster_id, .. } => {
                write!(f, "FoundCluster {}", cluster_id.escape_debug())
            }
            Self::RegisterNode(registration) => write!(f, "RegisterNode {}", registration.node),
            Self::FenceNode { node, fenced: true } => write!(f, "FenceNode {node}"),
            Self::FenceNode { node, fenced: false } => write!(f, "FenceNode {node}, which is back"),
            Self::RemoveNode { node } => write!(f, "RemoveNode {node}"),
            Self::ReassignPartition { topic, partition, .. } => {
                write!(f, "ReassignPartition {}-{partition}", topic.escape_debug())
            }
            Self::RenewReplica { topic, partition, .. } => write!(f, "RenewReplica {topic}-{partition}"),
            Self::FinishReassignment { topic, partition, .. } => {
                write!(f, "FinishReassignment {topic}-{partition}")
            }
        }
    }
}

/// Length of a cluster's name, in bytes.
pub(crate) const CLUSTER_ID_BYTES_MAX: usize = 64;

/// A node that wants to take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterNode {
    /// Its number.
    #[serde(with = "crate::serial")]
    pub node: NodeId,
    /// Names its data folder: random, made with it.
    pub directory: [u8; 16],
    /// Where other nodes reach it, HOST:PORT.
    pub cluster: String,
    /// Where Kafka clients reach it, HOST:PORT.
    pub kafka: String,
    /// Where NATS clients reach it, HOST:PORT.
    pub nats: Option<String>,
    /// Where it answers HTTP, HOST:PORT.
    pub http: Option<String>,
    /// Where it stands.
    pub rack: Option<String>,
    /// Lowest and highest level of the protocol between nodes that it speaks, from 1.
    pub levels: (u16, u16),
    /// Its replica of the metadata log, if its folder has one: the cluster must know it by that. `None` for a node that wants to join,
    /// and from builds that did not say.
    #[serde(default, with = "crate::serial::optional")]
    pub replica: Option<ReplicaId>,
    /// Its metadata log is damaged, or gone, and all else is there: it is to get another replica of it. The one that it had never
    /// comes back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renews: bool,
}

/// The topic to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateTopic {
    /// Its name, not yet checked.
    pub name: String,
    /// Its id, drawn by the caller ([`TopicId::from_random`]).
    #[serde(with = "crate::serial")]
    pub id: TopicId,
    /// Number of partitions, -1 for `num.partitions`.
    pub partitions: i32,
    /// Number of replicas, -1 for `default.replication.factor`.
    pub replication_factor: i16,
    /// Overrides. Of a key that is given twice the last counts, as in Kafka. Null values are refused.
    pub configs: Vec<(String, Option<String>)>,
    /// The nodes of each partition, the preferred leader first. It goes before the two numbers. `None` leaves it to the
    /// controller.
    #[serde(with = "crate::serial", default)]
    pub assignment: Option<Vec<Vec<NodeId>>>,
    /// The caller's clock.
    #[serde(with = "crate::serial")]
    pub now: TimestampMs,
    /// Who asks.
    pub by: Requester,
}

impl CreateTopic {
    /// A topic with the default number of partitions and replicas and no overrides: what auto-creation asks for.
    pub fn with_defaults(name: &str, id: TopicId, now: TimestampMs, by: Requester) -> Self {
        let name = name.to_owned();
        let (configs, assignment) = (Vec::new(), None);
        Self { name, id, partitions: -1, replication_factor: -1, configs, assignment, now, by }
    }
}

/// Who asks for a change. Internal topics are the broker's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requester {
    /// A client.
    Client,
    /// tailrace itself.
    Broker,
}

/// Names a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id.
    Id(#[serde(with = "crate::serial")] TopicId),
}

/// For which nodes a broker setting is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BrokerScope {
    /// All nodes: the broker resource with the empty name.
    Cluster,
    /// One node: the broker resource with its number.
    Node(#[serde(with = "crate::serial")] NodeId),
}

/// A change of settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigChange {
    /// These are all; what is not named is removed (AlterConfigs).
    Replace(Vec<(String, Option<String>)>),
    /// Each key by itself (IncrementalAlterConfigs).
    Incremental(Vec<ConfigOp>),
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigOp {
    /// The key.
    pub key: String,
    /// What to do.
    pub action: ConfigAction,
    /// The value; ignored by [`ConfigAction::Delete`], required by the others.
    pub value: Option<String>,
}

/// What to do with one key. The numbers are those of IncrementalAlterConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
