//! Commands to the controller. They travel between nodes as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tailrace_identity::acl::Acl;
use tailrace_identity::quota::{EntityName, QuotaEntity, QuotaKey};
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_types::{NodeId, PartitionId, ReplicaId, TimestampMs, TopicId};

use crate::access::QuotaLimit;
use crate::features::FeatureUpdate;
use crate::record::KafkaEndpoint;

/// Number of producer ids that are reserved at a time, as in Kafka.
pub(crate) const PRODUCER_IDS_PER_BLOCK: i64 = 1000;

/// Maximum number of groups with their own settings. Each costs memory for its id and settings, and a record
/// in the metadata log.
pub const GROUPS_CONFIGURED_MAX: usize = 10_000;

/// Maximum length of the id of a group with its own settings, in bytes.
pub const GROUP_ID_BYTES_MAX: usize = 1_024;

/// A request for one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Creates a topic.
    CreateTopic(CreateTopic),
    /// Deletes a topic.
    DeleteTopic {
        /// The topic.
        topic: TopicRef,
        /// The requester.
        by: Requester,
    },
    /// Adds partitions to a topic.
    CreatePartitions {
        /// The topic's name.
        topic: String,
        /// Number of partitions afterwards, not the number to add.
        count: i32,
        /// The nodes of each added partition, the preferred leader first. With `None` the controller chooses
        /// them.
        #[serde(with = "crate::serial", default)]
        assignment: Option<Vec<Vec<NodeId>>>,
        /// The requester.
        by: Requester,
    },
    /// Changes the overrides of a topic.
    AlterTopicConfigs {
        /// The topic's name.
        topic: String,
        /// The changes.
        change: ConfigChange,
    },
    /// Changes settings of the broker at run time.
    AlterBrokerConfigs {
        /// The nodes to which the settings apply.
        scope: BrokerScope,
        /// The changes.
        change: ConfigChange,
    },
    /// Changes the overrides of a group, which need not exist.
    AlterGroupConfigs {
        /// The group's id.
        group: String,
        /// The changes.
        change: ConfigChange,
    },
    /// Raises every feature to its newest level, for a new data folder.
    FinalizeFeatures,
    /// Changes the levels of features, all of them or none.
    UpdateFeatures(Vec<FeatureUpdate>),
    /// Reserves a block of producer ids, of the same size as in Kafka.
    AllocateProducerIds,
    /// Changes nothing. It succeeds once a majority has confirmed that its controller is still the
    /// controller. The caller then knows everything that was committed before. Older builds do not know this
    /// command.
    Barrier,
    /// Makes a standalone server the first node of a cluster. Changes nothing if it has already founded this
    /// cluster.
    FoundCluster {
        /// The cluster's name for clients and nodes, at most 64 bytes.
        cluster_id: String,
        /// The founding node.
        node: RegisterNode,
    },
    /// Adds a node, or updates what is known about it. A new node starts fenced.
    RegisterNode(RegisterNode),
    /// Fences or unfences a node.
    FenceNode {
        /// The node.
        #[serde(with = "crate::serial")]
        node: NodeId,
        /// True to fence the node because it is gone.
        fenced: bool,
    },
    /// Removes a node that is fenced and holds no replica.
    RemoveNode {
        /// The node.
        #[serde(with = "crate::serial")]
        node: NodeId,
    },
    /// Sets the nodes that are to hold a partition's replicas.
    ReassignPartition {
        /// The topic's name.
        topic: String,
        /// Its partition.
        #[serde(with = "crate::serial")]
        partition: PartitionId,
        /// The nodes, the preferred leader first. `None` cancels an unfinished reassignment.
        #[serde(with = "crate::serial")]
        nodes: Option<Vec<NodeId>>,
    },
    /// Replaces a replica that its node reports as damaged beyond repair, or gone. The node gets a new, empty
    /// replica. Refused if the other replicas have no majority without it.
    RenewReplica {
        /// The topic.
        #[serde(with = "crate::serial")]
        topic: TopicId,
        /// Its partition.
        #[serde(with = "crate::serial")]
        partition: PartitionId,
        /// The lost replica.
        #[serde(with = "crate::serial")]
        replica: ReplicaId,
    },
    /// Finishes a reassignment. The partition's leader sends it when its members are exactly the wanted ones.
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
    /// Sets or deletes a user's credential for a mechanism of SCRAM (KIP-554). Setting the first one creates
    /// the user. Deleting the last one removes the user, unless it is disabled.
    AlterScramCredential {
        /// The user's name.
        user: String,
        /// The change.
        change: ScramChange,
        /// The principal that makes the change, `User:NAME`.
        by: String,
        /// The time of the caller's clock.
        #[serde(with = "crate::serial")]
        now: TimestampMs,
    },
    /// Creates the first user. If there are users, nothing changes: a node that starts late must not set a
    /// password that an administrator has changed since.
    CreateFirstUser {
        /// The user's name.
        user: String,
        /// A verifier for each mechanism.
        #[serde(with = "crate::serial")]
        verifiers: Vec<ScramVerifier>,
        /// The principal that makes the change.
        by: String,
        /// The time of the caller's clock.
        #[serde(with = "crate::serial")]
        now: TimestampMs,
    },
    /// Disables a user, or enables it again. A disabled user keeps all credentials and cannot log in.
    DisableUser {
        /// The user's name.
        user: String,
        /// True to disable the user.
        disabled: bool,
        /// The principal that makes the change, `User:NAME`.
        by: String,
        /// The time of the caller's clock.
        #[serde(with = "crate::serial")]
        now: TimestampMs,
    },
    /// Removes a user with all credentials. Rules and quotas that name the user stay.
    RemoveUser {
        /// The user's name.
        user: String,
    },
    /// Creates rules, all of them or none. Those that exist are not created again. At most
    /// 10,000 in a command.
    CreateAcls(#[serde(with = "crate::serial")] Vec<Acl>),
    /// Deletes exactly these rules. Those that do not exist are ignored. At most 10,000 in
    /// a command.
    DeleteAcls(#[serde(with = "crate::serial")] Vec<Acl>),
    /// Makes a delegation token (KIP-48).
    CreateToken {
        /// Its id, drawn at random by the caller.
        id: String,
        /// The user that it stands for.
        owner: String,
        /// The other users who may renew it.
        renewers: Vec<String>,
        /// How long it can be renewed, in milliseconds. The setting is the maximum, and stands for numbers
        /// that are not above 0.
        max_lifetime_ms: i64,
        /// The principal that asks for it, `User:NAME`.
        by: String,
        /// The time of the caller's clock.
        #[serde(with = "crate::serial")]
        now: TimestampMs,
    },
    /// Sets the time from which a delegation token is no longer valid.
    ExtendToken {
        /// Its id.
        id: String,
        /// The new end.
        end: TokenEnd,
        /// The principal that asks for it, `User:NAME`.
        by: String,
        /// The time of the caller's clock.
        #[serde(with = "crate::serial")]
        now: TimestampMs,
    },
    /// Removes the delegation tokens and the older passwords that are no longer valid.
    RemoveExpired {
        /// The time of the caller's clock.
        #[serde(with = "crate::serial")]
        now: TimestampMs,
    },
    /// Changes the limits of an entity, all of them or none (KIP-546).
    AlterClientQuota {
        /// The entity.
        #[serde(with = "crate::serial")]
        entity: QuotaEntity,
        /// Limits to set.
        #[serde(with = "crate::serial")]
        set: BTreeMap<QuotaKey, QuotaLimit>,
        /// Limits to remove. Those that are not set are ignored.
        #[serde(with = "crate::serial")]
        remove: Vec<QuotaKey>,
    },
    /// Stores the claims of a NATS account, unless newer ones are stored. The node that sends this has
    /// checked that a trusted operator issued them.
    StoreAccountClaims {
        /// The token of the claims.
        token: String,
    },
    /// Deletes the claims of NATS accounts that were issued before the request was. The node that sends this
    /// has checked that a trusted operator issued it.
    DeleteAccountClaims {
        /// The token of the request.
        token: String,
    },
}

impl fmt::Display for Command {
    /// For the log: the kind of command and its subject. Settings are omitted, because some are secrets.
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
            Self::AlterScramCredential { user, change: ScramChange::Set { verifier, .. }, .. } => {
                let (user, mechanism) = (user.escape_debug(), verifier.mechanism().name());
                write!(f, "AlterScramCredential {user}, set {mechanism}")
            }
            Self::AlterScramCredential { user, change: ScramChange::Delete { mechanism }, .. } => {
                write!(f, "AlterScramCredential {}, delete {}", user.escape_debug(), mechanism.name())
            }
            Self::CreateFirstUser { user, .. } => write!(f, "CreateFirstUser {}", user.escape_debug()),
            Self::DisableUser { user, disabled: true, .. } => {
                write!(f, "DisableUser {}", user.escape_debug())
            }
            Self::DisableUser { user, disabled: false, .. } => {
                write!(f, "DisableUser {}, who is enabled again", user.escape_debug())
            }
            Self::RemoveUser { user } => write!(f, "RemoveUser {}", user.escape_debug()),
            Self::CreateAcls(acls) => write!(f, "CreateAcls, {} of them", acls.len()),
            Self::DeleteAcls(acls) => write!(f, "DeleteAcls, {} of them", acls.len()),
            Self::CreateToken { id, owner, .. } => {
                write!(f, "CreateToken {} for User:{}", id.escape_debug(), owner.escape_debug())
            }
            Self::ExtendToken { id, end: TokenEnd::Renewed { .. }, .. } => {
                write!(f, "RenewToken {}", id.escape_debug())
            }
            Self::ExtendToken { id, end: TokenEnd::Expires { .. }, .. } => {
                write!(f, "ExpireToken {}", id.escape_debug())
            }
            Self::RemoveExpired { .. } => f.write_str("RemoveExpired"),
            Self::AlterClientQuota { entity, .. } => write_entity(f, entity),
            Self::StoreAccountClaims { .. } => f.write_str("StoreAccountClaims"),
            Self::DeleteAccountClaims { .. } => f.write_str("DeleteAccountClaims"),
        }
    }
}

fn write_entity(f: &mut fmt::Formatter<'_>, entity: &QuotaEntity) -> fmt::Result {
    f.write_str("AlterClientQuota")?;
    for (part, name) in [("user", &entity.user), ("client-id", &entity.client_id), ("ip", &entity.ip)] {
        match name {
            Some(EntityName::Named(name)) => write!(f, " {part}={}", name.escape_debug())?,
            Some(EntityName::Default) => write!(f, " {part}=<default>")?,
            None => {}
        }
    }
    Ok(())
}

/// A new end of a delegation token. It is never later than the token's maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenEnd {
    /// So many milliseconds from now. The setting is the maximum, and stands for numbers that are not above
    /// 0.
    Renewed {
        /// The number.
        period_ms: i64,
    },
    /// So many milliseconds from now, even if that is later than before. Below 0: now, and the token is
    /// removed.
    Expires {
        /// The number.
        period_ms: i64,
    },
}

/// A change of a user's credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScramChange {
    /// Sets the credential for the verifier's mechanism.
    Set {
        /// What the server keeps of the password.
        #[serde(with = "crate::serial")]
        verifier: ScramVerifier,
        /// The time until which the credential before it stays valid as well. `None` ends it at once. If the
        /// verifier is the current one already, only the end of the one before it changes, so a repeated
        /// command does not end it.
        #[serde(with = "crate::serial")]
        keep_previous_until: Option<TimestampMs>,
    },
    /// Deletes the credential for a mechanism, and the one before it.
    Delete {
        /// The mechanism.
        #[serde(with = "crate::serial")]
        mechanism: ScramMechanism,
    },
}

/// Maximum length of a cluster's name, in bytes.
pub(crate) const CLUSTER_ID_BYTES_MAX: usize = 64;

/// The registration of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterNode {
    /// Its number.
    #[serde(with = "crate::serial")]
    pub node: NodeId,
    /// The random id of its data folder, made together with the folder.
    pub directory: [u8; 16],
    /// Its address for other nodes, HOST:PORT.
    pub cluster: String,
    /// Its address for Kafka clients, HOST:PORT: that of its first listener.
    pub kafka: String,
    /// Its Kafka listeners, if they have names. Older builds do not send them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<KafkaEndpoint>,
    /// Its address for NATS clients, HOST:PORT.
    pub nats: Option<String>,
    /// Its address for HTTP, HOST:PORT.
    pub http: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// The lowest and highest level of the protocol between nodes that it supports, from 1.
    pub levels: (u16, u16),
    /// Its replica of the metadata log, if its folder has one. The cluster must know the node by that
    /// replica. `None` for a node that wants to join, and from older builds, which did not send it.
    #[serde(default, with = "crate::serial::optional")]
    pub replica: Option<ReplicaId>,
    /// True if the node's metadata log is damaged or gone, and the rest of its folder is intact. The node is
    /// to get a new replica of the metadata log; the old one never comes back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renews: bool,
}

/// The topic to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateTopic {
    /// Its name, not yet checked.
    pub name: String,
    /// Its id, drawn at random by the caller ([`TopicId::from_random`]).
    #[serde(with = "crate::serial")]
    pub id: TopicId,
    /// Number of partitions. -1 for `num.partitions`.
    pub partitions: i32,
    /// Number of replicas. -1 for `default.replication.factor`.
    pub replication_factor: i16,
    /// Overrides. If a key is given twice, the last value counts, as in Kafka. Null values are refused.
    pub configs: Vec<(String, Option<String>)>,
    /// The nodes of each partition, the preferred leader first. If given, it overrides the two numbers. With
    /// `None` the controller chooses the nodes.
    #[serde(with = "crate::serial", default)]
    pub assignment: Option<Vec<Vec<NodeId>>>,
    /// The time of the caller's clock.
    #[serde(with = "crate::serial")]
    pub now: TimestampMs,
    /// The requester.
    pub by: Requester,
}

impl CreateTopic {
    /// Makes the command for auto-creation: the default number of partitions and replicas, and no overrides.
    pub fn with_defaults(name: &str, id: TopicId, now: TimestampMs, by: Requester) -> Self {
        let name = name.to_owned();
        let (configs, assignment) = (Vec::new(), None);
        Self { name, id, partitions: -1, replication_factor: -1, configs, assignment, now, by }
    }
}

/// The requester of a change. Only the broker may create or change internal topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requester {
    /// A client.
    Client,
    /// tailrace itself.
    Broker,
    /// A client, through JetStream's API: the topic is a stream.
    Stream,
}

/// A topic, by name or id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id.
    Id(#[serde(with = "crate::serial")] TopicId),
}

/// The nodes to which a change of broker settings applies.
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
    /// The complete new settings. Keys that are not listed are removed (AlterConfigs).
    Replace(Vec<(String, Option<String>)>),
    /// Changes of individual keys (IncrementalAlterConfigs).
    Incremental(Vec<ConfigOp>),
    /// All settings that belong to the stream that the topic is. The others stay.
    Stream(Vec<(String, String)>),
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigOp {
    /// The key.
    pub key: String,
    /// The action.
    pub action: ConfigAction,
    /// The value. [`ConfigAction::Delete`] ignores it, the others require it.
    pub value: Option<String>,
}

/// An action on one key. The numbers are those of IncrementalAlterConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigAction {
    /// Sets it.
    Set = 0,
    /// Removes it, so that the default applies.
    Delete = 1,
    /// Adds elements to a list.
    Append = 2,
    /// Removes elements from a list.
    Subtract = 3,
}

impl ConfigAction {
    /// Returns the action for a number of the protocol.
    pub const fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Set),
            1 => Some(Self::Delete),
            2 => Some(Self::Append),
            3 => Some(Self::Subtract),
            _ => None,
        }
    }

    /// Returns Kafka's name of the action.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Delete => "DELETE",
            Self::Append => "APPEND",
            Self::Subtract => "SUBTRACT",
        }
    }
}
