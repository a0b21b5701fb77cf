//! The records of the metadata log.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_identity::acl::Acl;
use tailrace_identity::quota::{QuotaEntity, QuotaKey};
use tailrace_types::{NodeId, PartitionId, ProducerId, ReplicaId, TimestampMs, TopicId, TopicName};

use super::endpoint::KafkaEndpoint;
use crate::access::{QuotaLimit, StoredAccountClaims, StoredToken, StoredUser};

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
    /// Its address for Kafka clients, HOST:PORT: that of its first listener.
    pub kafka: String,
    /// All its Kafka listeners by name. Empty if its only one has no name, or if the cluster's level is below
    /// [`ACCESS_LEVEL`](crate::ACCESS_LEVEL).
    pub listeners: Vec<KafkaEndpoint>,
    /// Its address for NATS clients, HOST:PORT.
    pub nats: Option<String>,
    /// Its address for HTTP, HOST:PORT.
    pub http: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// The lowest and highest level of the protocol between nodes that it supports.
    pub levels: (u16, u16),
}

impl NodeRegistration {
    /// Returns the address of this node for clients who have come by the listener `name` of a node. `None` if
    /// this node has no listener of that name.
    ///
    /// A registration without names has the address of the node's first listener, or of its only one. That
    /// one is told to clients of the first listener (`is_first`), with or without a name.
    pub fn kafka_address(&self, name: Option<&str>, is_first: bool) -> Option<&str> {
        match name {
            None => Some(&self.kafka),
            Some(_) if self.listeners.is_empty() => is_first.then_some(self.kafka.as_str()),
            Some(name) => {
                let found = self.listeners.iter().find(|endpoint| endpoint.name == name);
                found.map(|endpoint| endpoint.address.as_str())
            }
        }
    }
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
    /// Replaces a delegation token, which need not have existed.
    Token(StoredToken),
    /// A delegation token was removed.
    TokenRemoved {
        /// Its id.
        id: String,
    },
    /// Replaces the claims of a NATS account.
    AccountClaims(StoredAccountClaims),
    /// The claims of a NATS account were removed.
    AccountClaimsRemoved {
        /// The public key of the account.
        account: String,
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

#[cfg(test)]
mod tests {
    use tailrace_config::SecurityProtocol;

    use super::*;

    fn endpoint(name: &str, address: &str) -> KafkaEndpoint {
        let (name, address) = (name.to_owned(), address.to_owned());
        KafkaEndpoint { name, protocol: SecurityProtocol::Ssl, address }
    }

    fn node(listeners: Vec<KafkaEndpoint>) -> NodeRegistration {
        NodeRegistration {
            node: NodeId(1),
            directory: [1; 16],
            epoch: 1,
            replica: ReplicaId::new(NodeId(1), 1),
            cluster: "c:1".to_owned(),
            kafka: "k:1".to_owned(),
            listeners,
            nats: None,
            http: None,
            rack: None,
            levels: (1, 2),
        }
    }

    #[test]
    fn clients_are_told_the_listener_that_they_came_by_and_no_other() {
        let two = node(vec![endpoint("IN", "k:1"), endpoint("OUT", "k:2")]);
        for is_first in [true, false] {
            assert_eq!(two.kafka_address(Some("IN"), is_first), Some("k:1"));
            assert_eq!(two.kafka_address(Some("OUT"), is_first), Some("k:2"));
            assert_eq!(two.kafka_address(Some("OTHER"), is_first), None);
        }
        assert_eq!(two.kafka_address(None, true), Some("k:1"));
        let one = node(Vec::new());
        assert_eq!(one.kafka_address(None, true), Some("k:1"));
        assert_eq!(one.kafka_address(Some("IN"), true), Some("k:1"));
        assert_eq!(one.kafka_address(Some("OUT"), false), None);
    }
}
