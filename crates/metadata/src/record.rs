//! Records of the metadata log and their versioned encoding.
//!
//! A record is one JSON object that begins with `"version"` and `"type"`. Every change that an older tailrace could
//! misread raises the version; an older tailrace then refuses with both numbers instead of guessing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailrace_types::{NodeId, PartitionId, ProducerId, ReplicaId, TimestampMs, TopicId, TopicName};

/// The newest version of the encoding, which this build writes where an older one would not do, and the newest it reads.
///
/// Version 2 added settings of groups and levels of features, version 3 nodes and the replicas of partitions.
pub(crate) const METADATA_RECORD_VERSION: u32 = 3;

/// What a node said of itself when it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRegistration {
    /// Its number.
    pub node: NodeId,
    /// Names its data folder. Another one under the same number means that the disk was lost or replaced.
    pub directory: [u8; 16],
    /// Which registration of the cluster this is, from 1. It never comes twice, whatever the node: Kafka's broker epoch.
    pub epoch: i64,
    /// Its replica of group 0, the metadata log.
    pub replica: ReplicaId,
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
    /// Lowest and highest level of the protocol between nodes that it speaks.
    pub levels: (u16, u16),
}

/// One change that counts once it is in the metadata log. Records hold results, not intentions: applying them needs no
/// decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataRecord {
    /// A topic was created.
    TopicCreated {
        /// Its name.
        name: TopicName,
        /// Its id.
        id: TopicId,
        /// Number of partitions.
        partitions: i32,
        /// Number of replicas.
        replication_factor: i16,
        /// When.
        created_at: TimestampMs,
        /// Its overrides.
        configs: BTreeMap<String, String>,
        /// The first replicas of each partition, the preferred leader first. Empty: one on the founder of the cluster, or
        /// on the node that is alone.
        replicas: Vec<Vec<ReplicaId>>,
    },
    /// A topic was deleted.
    TopicDeleted {
        /// Its id.
        id: TopicId,
    },
    /// Partitions were added to a topic.
    PartitionsAdded {
        /// The topic's id.
        id: TopicId,
        /// Number of partitions from now on.
        partitions: i32,
        /// The first replicas of each new partition, as in [`MetadataRecord::TopicCreated`].
        replicas: Vec<Vec<ReplicaId>>,
    },
    /// A topic's overrides are now exactly these.
    TopicConfigs {
        /// The topic's id.
        id: TopicId,
        /// All overrides.
        configs: BTreeMap<String, String>,
    },
    /// The settings changed at run time are now exactly these. They come together, because settings of a node and of
    /// the cluster may be legal only together.
    BrokerConfigs {
        /// For all nodes.
        cluster: BTreeMap<String, String>,
        /// For single nodes.
        nodes: BTreeMap<NodeId, BTreeMap<String, String>>,
    },
    /// A group's overrides are now exactly these; without any it has none of its own.
    GroupConfigs {
        /// The group's id.
        group: String,
        /// All overrides.
        configs: BTreeMap<String, String>,
    },
    /// The levels of the features are now exactly these; those that are not named are at 0.
    Features {
        /// Grows with every change.
        epoch: i64,
        /// By name, above 0.
        levels: BTreeMap<String, i16>,
    },
    /// Producer ids were handed out.
    ProducerIds {
        /// The first of them.
        first: ProducerId,
        /// One past the last of them.
        next: ProducerId,
    },
    /// A cluster began: this node is no longer alone.
    ClusterFounded {
        /// The node that founded it. What was there already lies on it.
        node: NodeId,
        /// The cluster's name for clients and nodes.
        cluster_id: String,
        /// Registrations that the cluster has had so far; above 0 in a snapshot only.
        epoch: i64,
    },
    /// A node registered, for the first time or with other facts than before. The first time it is fenced.
    NodeRegistered(NodeRegistration),
    /// A node is gone or back.
    NodeFenced {
        /// Which.
        node: NodeId,
        /// True if it is gone.
        fenced: bool,
    },
    /// A node left for good.
    NodeRemoved {
        /// Which.
        node: NodeId,
    },
    /// The replicas that a partition is to have.
    PartitionReplicas {
        /// The topic's id.
        id: TopicId,
        /// The partition.
        partition: PartitionId,
        /// Those it is to have in the end, the preferred leader first.
        replicas: Vec<ReplicaId>,
        /// Those that came with the reassignment that is under way, be they wanted still or in `removing` already.
        adding: Vec<ReplicaId>,
        /// Those beside `replicas` that may be members still.
        removing: Vec<ReplicaId>,
        /// Those of `removing` whose disk was lost.
        lost: Vec<ReplicaId>,
        /// Above the incarnations of all replicas that the partition has had.
        next_incarnation: u32,
    },
}

/// Why bytes are no metadata record of this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Written by a newer tailrace.
    #[error("metadata record has version {found}, this build reads up to {newest}; start a newer tailrace")]
    NewerVersion {
        /// The record's version.
        found: u32,
        /// The newest that this build reads.
        newest: u32,
    },
    /// Not a record at all, or damaged.
    #[error("metadata record cannot be read: {reason}")]
    Malformed {
        /// What is wrong, and where.
        reason: String,
    },
}

/// The part of every record that every version can read.
#[derive(Deserialize)]
struct Leading {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize, Deserialize)]
struct NodeConfigs {
    node: i32,
    configs: BTreeMap<String, String>,
}

/// The body as it is written. Ids and names are texts.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Body {
    TopicCreated {
        name: String,
        id: String,
        partitions: i32,
        replication_factor: i16,
        created_at: i64,
        configs: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replicas: Vec<Vec<u64>>,
    },
    TopicDeleted {
        id: String,
    },
    PartitionsAdded {
        id: String,
        partitions: i32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replicas: Vec<Vec<u64>>,
    },
    TopicConfigs {
        id: String,
        configs: BTreeMap<String, String>,
    },
    BrokerConfigs {
        cluster: BTreeMap<String, String>,
        nodes: Vec<NodeConfigs>,
    },
    GroupConfigs {
        group: String,
        configs: BTreeMap<String, String>,
    },
    Features {
        epoch: i64,
        levels: BTreeMap<String, i16>,
    },
    ProducerIds {
        first: i64,
        next: i64,
    },
    ClusterFounded {
        node: i32,
        cluster_id: String,
        epoch: i64,
    },
    NodeRegistered {
        node: i32,
        directory: String,
        epoch: i64,
        replica: u64,
        cluster: String,
        kafka: String,
        nats: Option<String>,
        http: Option<String>,
        rack: Option<String>,
        levels: (u16, u16),
    },
    NodeFenced {
        node: i32,
        fenced: bool,
    },
    NodeRemoved {
        node: i32,
    },
    PartitionReplicas {
        id: String,
        partition: i32,
        replicas: Vec<u64>,
        adding: Vec<u64>,
        removing: Vec<u64>,
        lost: Vec<u64>,
        next_incarnation: u32,
    },
}

impl MetadataRecord {
    /// The bytes that go into the metadata log as a record's value.
    pub fn encode(&self) -> Vec<u8> {
        let envelope = Envelope { version: self.version(), body: Body::from(self) };
        // Texts, numbers and maps with text keys always serialize.
        serde_json::to_vec(&envelope).expect("metadata records serialize")
    }

    /// The oldest version that can say this, so that an older tailrace reads all that it can understand.
    fn version(&self) -> u32 {
        match self {
            Self::TopicCreated { replicas, .. } | Self::PartitionsAdded { replicas, .. }
                if !replicas.is_empty() =>
            {
                3
            }
            Self::TopicCreated { .. }
            | Self::TopicDeleted { .. }
            | Self::PartitionsAdded { .. }
            | Self::TopicConfigs { .. }
            | Self::BrokerConfigs { .. }
            | Self::ProducerIds { .. } => 1,
            Self::GroupConfigs { .. } | Self::Features { .. } => 2,
            Self::ClusterFounded { .. }
            | Self::NodeRegistered(_)
            | Self::NodeFenced { .. }
            | Self::NodeRemoved { .. }
            | Self::PartitionReplicas { .. } => 3,
        }
    }

    /// Reads what [`MetadataRecord::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are damaged, or were written by a newer tailrace.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let leading: Leading = serde_json::from_slice(bytes).map_err(|e| malformed(&e))?;
        if leading.version > METADATA_RECORD_VERSION {
            let (found, newest) = (leading.version, METADATA_RECORD_VERSION);
            return Err(RecordError::NewerVersion { found, newest });
        }
        if leading.version == 0 {
            return Err(malformed(&"version 0 was never written"));
        }
        let envelope: Envelope<Body> = serde_json::from_slice(bytes).map_err(|e| malformed(&e))?;
        envelope.body.try_into()
    }
}

fn malformed(reason: &dyn std::fmt::Display) -> RecordError {
    RecordError::Malformed { reason: reason.to_string() }
}

fn numbers(replicas: Vec<ReplicaId>) -> Vec<u64> {
    replicas.into_iter().map(|replica| replica.0).collect()
}

/// Replica ids that can be: of a node that can be, and with an incarnation.
fn replica(number: u64) -> Result<ReplicaId, RecordError> {
    let replica = ReplicaId(number);
    if replica.incarnation() == 0 || replica.node().0 < 0 {
        return Err(malformed(&format!("{number} is no replica id")));
    }
    Ok(replica)
}

fn replicas(numbers: Vec<u64>) -> Result<Vec<ReplicaId>, RecordError> {
    numbers.into_iter().map(replica).collect()
}

fn assignment(numbers: Vec<Vec<u64>>) -> Result<Vec<Vec<ReplicaId>>, RecordError> {
    numbers.into_iter().map(replicas).collect()
}

fn topic_id(text: &str) -> Result<TopicId, RecordError> {
    TopicId::parse(text).ok_or_else(|| malformed(&format!("{text:?} is no topic id")))
}

impl From<&MetadataRecord> for Body {
    fn from(record: &MetadataRecord) -> Self {
        match record.clone() {
            MetadataRecord::TopicCreated {
                name,
                id,
                partitions,
                replication_factor,
                created_at,
                configs,
                replicas,
            } => Self::TopicCreated {
                name: name.to_string(),
                id: id.to_string(),
                partitions,
                replication_factor,
                created_at: created_at.0,
                configs,
                replicas: replicas.into_iter().map(numbers).collect(),
            },
            MetadataRecord::TopicDeleted { id } => Self::TopicDeleted { id: id.to_string() },
            MetadataRecord::PartitionsAdded { id, partitions, replicas } => Self::PartitionsAdded {
                id: id.to_string(),
                partitions,
                replicas: replicas.into_iter().map(numbers).collect(),
            },
            MetadataRecord::TopicConfigs { id, configs } => {
                Self::TopicConfigs { id: id.to_string(), configs }
            }
            MetadataRecord::BrokerConfigs { cluster, nodes } => {
                let nodes = nodes.into_iter().map(|(node, configs)| NodeConfigs { node: node.0, configs });
                Self::BrokerConfigs { cluster, nodes: nodes.collect() }
            }
            MetadataRecord::GroupConfigs { group, configs } => Self::GroupConfigs { group, configs },
            MetadataRecord::Features { epoch, levels } => Self::Features { epoch, levels },
            MetadataRecord::ProducerIds { first, next } => Self::ProducerIds { first: first.0, next: next.0 },
            MetadataRecord::ClusterFounded { node, cluster_id, epoch } => {
                Self::ClusterFounded { node: node.0, cluster_id, epoch }
            }
            MetadataRecord::NodeRegistered(registration) => registration.into(),
            MetadataRecord::NodeFenced { node, fenced } => Self::NodeFenced { node: node.0, fenced },
            MetadataRecord::NodeRemoved { node } => Self::NodeRemoved { node: node.0 },
            MetadataRecord::PartitionReplicas {
                id,
                partition,
                replicas,
                adding,
                removing,
                lost,
                next_incarnation,
            } => Self::PartitionReplicas {
                id: id.to_string(),
                partition: partition.0,
                replicas: numbers(replicas),
                adding: numbers(adding),
                removing: numbers(removing),
                lost: numbers(lost),
                next_incarnation,
            },
        }
    }
}

impl From<NodeRegistration> for Body {
    fn from(registration: NodeRegistration) -> Self {
        let NodeRegistration { node, directory, epoch, replica, cluster, kafka, nats, http, rack, levels } =
            registration;
        let (node, directory, replica) = (node.0, TopicId(directory).to_string(), replica.0);
        Self::NodeRegistered { node, directory, epoch, replica, cluster, kafka, nats, http, rack, levels }
    }
}

impl TryFrom<Body> for MetadataRecord {
    type Error = RecordError;

    fn try_from(body: Body) -> Result<Self, RecordError> {
        Ok(match body {
            Body::TopicCreated {
                name,
                id,
                partitions,
                replication_factor,
                created_at,
                configs,
                replicas,
            } => Self::TopicCreated {
                name: TopicName::new(&name).map_err(|e| malformed(&e))?,
                id: topic_id(&id)?,
                partitions,
                replication_factor,
                created_at: TimestampMs(created_at),
                configs,
                replicas: assignment(replicas)?,
            },
            Body::TopicDeleted { id } => Self::TopicDeleted { id: topic_id(&id)? },
            Body::PartitionsAdded { id, partitions, replicas } => {
                Self::PartitionsAdded { id: topic_id(&id)?, partitions, replicas: assignment(replicas)? }
            }
            Body::TopicConfigs { id, configs } => Self::TopicConfigs { id: topic_id(&id)?, configs },
            Body::BrokerConfigs { cluster, nodes } => {
                let nodes = nodes.into_iter().map(|node| (NodeId(node.node), node.configs));
                Self::BrokerConfigs { cluster, nodes: nodes.collect() }
            }
            Body::GroupConfigs { group, configs } => Self::GroupConfigs { group, configs },
            Body::Features { epoch, levels } => Self::Features { epoch, levels },
            Body::ProducerIds { first, next } => {
                Self::ProducerIds { first: ProducerId(first), next: ProducerId(next) }
            }
            Body::ClusterFounded { node, cluster_id, epoch } => {
                Self::ClusterFounded { node: NodeId(node), cluster_id, epoch }
            }
            Body::NodeRegistered {
                node,
                directory,
                epoch,
                replica: number,
                cluster,
                kafka,
                nats,
                http,
                rack,
                levels,
            } => Self::NodeRegistered(NodeRegistration {
                node: NodeId(node),
                directory: topic_id(&directory)?.0,
                epoch,
                replica: replica(number)?,
                cluster,
                kafka,
                nats,
                http,
                rack,
                levels,
            }),
            Body::NodeFenced { node, fenced } => Self::NodeFenced { node: NodeId(node), fenced },
            Body::NodeRemoved { node } => Self::NodeRemoved { node: NodeId(node) },
            Body::PartitionReplicas {
                id,
                partition,
                replicas: wanted,
                adding,
                removing,
                lost,
                next_incarnation,
            } => Self::PartitionReplicas {
                id: topic_id(&id)?,
                partition: PartitionId(partition),
                replicas: replicas(wanted)?,
                adding: replicas(adding)?,
                removing: replicas(removing)?,
                lost: replicas(lost)?,
                next_incarnation,
            },
        })
    }
}
