//! The records of the metadata log.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_identity::acl::Acl;
use tailrace_identity::quota::{QuotaEntity, QuotaKey};
use tailrace_types::{NodeId, PartitionId, ProducerId, ReplicaId, TimestampMs, TopicId, TopicName};

use crate::access::{QuotaLimit, StoredUser};

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
    /// Replaces a user, with all credentials. The user need not have existed.
    User(StoredUser),
    /// A user was removed.
    UserRemoved {
        /// The name.
        name: String,
    },
    /// Rules were added or removed. At least one.
    AclsChanged {
        /// The new rules. None of them existed before.
        added: BTreeSet<Acl>,
        /// The rules that no longer exist.
        removed: BTreeSet<Acl>,
    },
    /// Replaces the limits of an entity. An empty set removes them.
    ClientQuota {
        /// The entity.
        entity: QuotaEntity,
        /// All limits.
        limits: BTreeMap<QuotaKey, QuotaLimit>,
    },
    /// The version of users, rules and quotas. Only in a snapshot, after their records: what had changed them
    /// before is no longer in the log, and their version must not go back.
    AccessVersion {
        /// The number of changes so far.
        version: u64,
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
