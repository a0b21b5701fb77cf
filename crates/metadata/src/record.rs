//! Records of the metadata log and their versioned encoding.
//!
//! A record is one JSON object that starts with `"version"` and `"type"`. Every change that an older tailrace
//! could misread raises the version. An older tailrace then refuses the record and names both versions,
//! instead of guessing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailrace_types::{NodeId, PartitionId, ProducerId, ReplicaId, TimestampMs, TopicId, TopicName};

/// The newest version of the encoding that this build reads. It writes this version only where an older one
/// is not enough.
///
/// Version 2 added settings of groups and feature levels. Version 3 added nodes and the replicas of
/// partitions.
pub(crate) const METADATA_RECORD_VERSION: u32 = 3;

/// The contents of a node's registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRegistration {
    /// Its number.
    pub node: NodeId,
    /// The id of its data folder. If it changes under the same number, the disk was lost or replaced.
    pub directory: [u8; 16],
    /// The number of this registration in the cluster, from 1. It is unique across nodes: Kafka's broker
    /// epoch.
    pub epoch: i64,
    /// Its replica of group 0, the metadata log.
    pub replica: ReplicaId,
    /// Its address for other nodes, HOST:PORT.
    pub cluster: String,
    /// Its address for Kafka clients, HOST:PORT.
    pub kafka: String,
    /// Its address for NATS clients, HOST:PORT.
    pub nats: Option<String>,
    /// Its address for HTTP, HOST:PORT.
    pub http: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// The lowest and highest level of the protocol between nodes that it supports.
    pub levels: (u16, u16),
}

/// A change that takes effect once it is in the metadata log. Records hold results, not intentions: applying
/// them needs no decisions.
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
        /// The time of its creation.
        created_at: TimestampMs,
        /// Its overrides.
        configs: BTreeMap<String, String>,
        /// The first replicas of each partition, the preferred leader first. If empty, each partition has one
        /// replica, on the founder of the cluster or on the standalone server.
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
        /// The new number of partitions.
        partitions: i32,
        /// The first replicas of each new partition, as in [`MetadataRecord::TopicCreated`].
        replicas: Vec<Vec<ReplicaId>>,
    },
    /// Replaces a topic's overrides.
    TopicConfigs {
        /// The topic's id.
        id: TopicId,
        /// All overrides.
        configs: BTreeMap<String, String>,
    },
    /// Replaces the settings changed at run time. They are in one record, because settings of a node and of
    /// the cluster may be legal only in combination.
    BrokerConfigs {
        /// For all nodes.
        cluster: BTreeMap<String, String>,
        /// For single nodes.
        nodes: BTreeMap<NodeId, BTreeMap<String, String>>,
    },
    /// Replaces a group's overrides. An empty set removes them.
    GroupConfigs {
        /// The group's id.
        group: String,
        /// All overrides.
        configs: BTreeMap<String, String>,
    },
    /// Replaces the feature levels. Features that are not listed are at level 0.
    Features {
        /// Grows with every change.
        epoch: i64,
        /// By name. All are above 0.
        levels: BTreeMap<String, i16>,
    },
    /// Producer ids were handed out.
    ProducerIds {
        /// The first of them.
        first: ProducerId,
        /// One past the last of them.
        next: ProducerId,
    },
    /// A cluster was founded: the server is no longer standalone.
    ClusterFounded {
        /// The node that founded it. All existing partitions are on it.
        node: NodeId,
        /// The cluster's name for clients and nodes.
        cluster_id: String,
        /// The number of registrations in the cluster so far. Above 0 only in a snapshot.
        epoch: i64,
    },
    /// A node registered, for the first time or with changed contents. A new node starts fenced.
    NodeRegistered(NodeRegistration),
    /// A node was fenced or unfenced.
    NodeFenced {
        /// The node.
        node: NodeId,
        /// True if it was fenced.
        fenced: bool,
    },
    /// A node was removed.
    NodeRemoved {
        /// The node.
        node: NodeId,
    },
    /// The replicas of a partition changed.
    PartitionReplicas {
        /// The topic's id.
        id: TopicId,
        /// The partition.
        partition: PartitionId,
        /// The wanted replicas, the preferred leader first.
        replicas: Vec<ReplicaId>,
        /// The replicas that the reassignment in progress has added. They may be wanted, or in `removing`
        /// already.
        adding: Vec<ReplicaId>,
        /// Replicas that are no longer wanted and may still be members.
        removing: Vec<ReplicaId>,
        /// The replicas in `removing` whose disk was lost.
        lost: Vec<ReplicaId>,
        /// Higher than the incarnations of all replicas that the partition has ever had.
        next_incarnation: u32,
    },
}

/// Why bytes are not a metadata record of this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record was written by a newer tailrace.
    #[error("metadata record has version {found}, this build reads up to {newest}; start a newer tailrace")]
    NewerVersion {
        /// The record's version.
        found: u32,
        /// The newest version that this build reads.
        newest: u32,
    },
    /// The bytes are not a record, or are damaged.
    #[error("metadata record cannot be read: {reason}")]
    Malformed {
        /// What is wrong, and where.
        reason: String,
    },
}

/// The field of every record that every version can read.
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

/// The body as written. Ids and names are texts.
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
    /// Encodes the record as the value of a record in the metadata log.
    pub fn encode(&self) -> Vec<u8> {
        let envelope = Envelope { version: self.version(), body: Body::from(self) };
        // Texts, numbers and maps with text keys can always be serialized.
        serde_json::to_vec(&envelope).expect("metadata records serialize")
    }

    /// Returns the oldest version that can express this record, so that an older tailrace reads as much as
    /// possible.
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

    /// Decodes the output of [`MetadataRecord::encode`].
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

/// Parses a replica id. It must have a valid node and an incarnation.
fn replica(number: u64) -> Result<ReplicaId, RecordError> {
    let replica = ReplicaId(number);
    if replica.incarnation() == 0 || replica.node().0 < 0 {
        return Err(malformed(&format!("{number} is not a replica id")));
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
    TopicId::parse(text).ok_or_else(|| malformed(&format!("{text:?} is not a topic id")))
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
