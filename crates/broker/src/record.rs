//! Records of the metadata log and their versioned encoding.
//!
//! A record is one JSON object that begins with `"version"` and `"type"`. Every change that an older tailrace could
//! misread raises the version; an older tailrace then refuses with both numbers instead of guessing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailrace_types::{NodeId, ProducerId, TimestampMs, TopicId, TopicName};

/// The newest version of the encoding, which this build writes where an older one would not do, and the newest it reads.
///
/// Version 2 added settings of groups and levels of features.
pub const METADATA_RECORD_VERSION: u32 = 2;

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
    },
    TopicDeleted {
        id: String,
    },
    PartitionsAdded {
        id: String,
        partitions: i32,
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
}

impl MetadataRecord {
    /// The bytes that go into the metadata log as a record's value.
    pub fn encode(&self) -> Vec<u8> {
        let envelope = Envelope { version: self.version(), body: Body::from(self) };
        // Texts, numbers and maps with text keys always serialize.
        serde_json::to_vec(&envelope).expect("metadata records serialize")
    }

    /// The oldest version that can say this, so that an older tailrace reads all that it can understand.
    const fn version(&self) -> u32 {
        match self {
            Self::TopicCreated { .. }
            | Self::TopicDeleted { .. }
            | Self::PartitionsAdded { .. }
            | Self::TopicConfigs { .. }
            | Self::BrokerConfigs { .. }
            | Self::ProducerIds { .. } => 1,
            Self::GroupConfigs { .. } | Self::Features { .. } => 2,
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
            } => Self::TopicCreated {
                name: name.to_string(),
                id: id.to_string(),
                partitions,
                replication_factor,
                created_at: created_at.0,
                configs,
            },
            MetadataRecord::TopicDeleted { id } => Self::TopicDeleted { id: id.to_string() },
            MetadataRecord::PartitionsAdded { id, partitions } => {
                Self::PartitionsAdded { id: id.to_string(), partitions }
            }
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
        }
    }
}

impl TryFrom<Body> for MetadataRecord {
    type Error = RecordError;

    fn try_from(body: Body) -> Result<Self, RecordError> {
        Ok(match body {
            Body::TopicCreated { name, id, partitions, replication_factor, created_at, configs } => {
                Self::TopicCreated {
                    name: TopicName::new(&name).map_err(|e| malformed(&e))?,
                    id: topic_id(&id)?,
                    partitions,
                    replication_factor,
                    created_at: TimestampMs(created_at),
                    configs,
                }
            }
            Body::TopicDeleted { id } => Self::TopicDeleted { id: topic_id(&id)? },
            Body::PartitionsAdded { id, partitions } => {
                Self::PartitionsAdded { id: topic_id(&id)?, partitions }
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
        })
    }
}
