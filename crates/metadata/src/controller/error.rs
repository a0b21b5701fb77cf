//! Reasons for refusing a command. Each variant names its Kafka error.

use serde::{Deserialize, Serialize};
use tailrace_config::ConfigError;
use tailrace_types::{NodeId, PartitionId, ReplicaId, TopicId, TopicName, TopicNameError};

use super::access_error::AccessError;
use crate::features::FeatureError;

/// Why a command is refused. A refused command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// `INVALID_TOPIC_EXCEPTION`.
    #[error("Topic name is invalid: {0}")]
    InvalidTopicName(#[from] TopicNameError),
    /// `INVALID_TOPIC_EXCEPTION`.
    #[error(
        "Topic '{name}' collides with existing topic: {existing}; names must differ in more than '.' and '_'"
    )]
    TopicCollision {
        /// The requested name.
        name: TopicName,
        /// The existing topic.
        existing: TopicName,
    },
    /// `TOPIC_ALREADY_EXISTS`.
    #[error("Topic '{name}' already exists.")]
    TopicExists {
        /// Its name.
        name: TopicName,
    },
    /// `INVALID_REQUEST`: the id that the caller drew is zero or taken. The caller should draw another.
    #[error("The topic id {id} is zero or in use.")]
    TopicIdInUse {
        /// The id.
        id: TopicId,
    },
    /// `TOPIC_AUTHORIZATION_FAILED`: a client may not create, delete or extend an internal topic.
    #[error("Topic '{name}' is internal: clients may neither create, delete nor extend it.")]
    ReservedTopic {
        /// Its name.
        name: TopicName,
    },
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    #[error("The topic '{name}' does not exist.")]
    UnknownTopic {
        /// The requested name.
        name: String,
    },
    /// `UNKNOWN_TOPIC_ID`.
    #[error("There is no topic with the id {id}.")]
    UnknownTopicId {
        /// The requested id.
        id: TopicId,
    },
    /// `TOPIC_DELETION_DISABLED`.
    #[error("Topic deletion is disabled: delete.topic.enable is false.")]
    DeletionDisabled,
    /// `INVALID_PARTITIONS`.
    #[error(
        "Number of partitions was set to an invalid non-positive value: {found}; give a number from 1, or -1 for the default."
    )]
    InvalidPartitions {
        /// The requested number.
        found: i32,
    },
    /// `INVALID_PARTITIONS`.
    #[error("Topic already has {current} partition(s).")]
    AlreadyHasPartitions {
        /// Its partitions.
        current: i32,
    },
    /// `INVALID_PARTITIONS`.
    #[error("The topic {name} currently has {current} partition(s); {found} would not be an increase.")]
    NotAnIncrease {
        /// The topic.
        name: TopicName,
        /// Its partitions now.
        current: i32,
        /// The requested number.
        found: i32,
    },
    /// `POLICY_VIOLATION`.
    #[error("{found} partitions are more than {key} allows: {max}; ask for fewer or raise {key}.")]
    TooManyPartitions {
        /// The setting that sets the limit.
        key: &'static str,
        /// The resulting number of partitions.
        found: u64,
        /// Its value.
        max: u64,
    },
    /// `INVALID_REPLICATION_FACTOR`.
    #[error("Replication factor must be larger than 0, or -1 to use the default value; found {found}.")]
    InvalidReplicationFactor {
        /// The requested number.
        found: i16,
    },
    /// `INVALID_REPLICATION_FACTOR`.
    #[error(
        "Unable to replicate the partition {found} time(s): The target replication factor of {found} cannot be reached because only {nodes} broker(s) are registered."
    )]
    TooFewNodes {
        /// The requested number.
        found: i16,
        /// The number of nodes.
        nodes: i16,
    },
    /// `INVALID_CONFIG`.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// `INVALID_CONFIG`: a NATS subject would belong to two topics, or twice to one topic.
    #[error(
        "tailrace.subjects: '{pattern}' of topic '{topic}' overlaps '{other_pattern}' of topic '{other}'; a subject can be captured only once"
    )]
    SubjectsOverlap {
        /// The topic to be created or changed.
        topic: TopicName,
        /// Its pattern.
        pattern: String,
        /// The topic it overlaps with, which may be the same one.
        other: TopicName,
        /// That topic's pattern.
        other_pattern: String,
    },
    /// `INVALID_CONFIG`.
    #[error("tailrace.subjects: topic '{name}' is internal and cannot capture NATS subjects")]
    InternalTopicCaptures {
        /// Its name.
        name: TopicName,
    },
    /// `INVALID_CONFIG`.
    #[error("the setting '{key}' of the topic of the audit log cannot be changed: only its retention can")]
    AuditTopicConfig {
        /// The setting.
        key: String,
    },
    /// `INVALID_CONFIG`: a setting that belongs to a stream of JetStream.
    #[error("the setting '{key}' belongs to the streams of JetStream: only JetStream's API changes it")]
    StreamConfig {
        /// The setting.
        key: String,
    },
    /// `INVALID_PARTITIONS`.
    #[error("Topic '{name}' is a stream of JetStream, which has one partition.")]
    StreamPartitions {
        /// The topic.
        name: TopicName,
    },
    /// `INVALID_CONFIG`: a change of the broker's settings would invalidate a topic.
    #[error("topic '{topic}': {error}")]
    TopicWouldBreak {
        /// The topic.
        topic: TopicName,
        /// The resulting error of the topic.
        error: ConfigError,
    },
    /// `INVALID_CONFIG`: a new topic's override is null.
    #[error("Null value not supported for topic configs: {key}")]
    NullAtCreation {
        /// The key.
        key: String,
    },
    /// `INVALID_REQUEST`: a setting would become null. To restore the default, delete it.
    #[error("Null value not supported for : {key}")]
    NullConfig {
        /// The key.
        key: String,
    },
    /// `INVALID_CONFIG`.
    #[error("Can't {action} to key {key} because its type is not LIST.")]
    NotAList {
        /// The key.
        key: String,
        /// `APPEND` or `SUBTRACT`.
        action: &'static str,
    },
    /// `INVALID_REQUEST`.
    #[error("Error due to duplicate config keys: {key}")]
    DuplicateConfig {
        /// The key.
        key: String,
    },
    /// `INVALID_REQUEST`.
    #[error("Cannot update these configs dynamically: {key}; set it at the start and restart.")]
    ReadOnlyConfig {
        /// The key.
        key: String,
    },
    /// `INVALID_REQUEST`.
    #[error("Unexpected broker id, expected {existing}, but received {node}")]
    UnknownNode {
        /// The requested number.
        node: NodeId,
        /// The number of the existing node.
        existing: NodeId,
    },
    /// `INVALID_REQUEST`: settings of a group without an id.
    #[error("Default group resources are not allowed.")]
    NoGroupId,
    /// `INVALID_REQUEST`: a group's id is too long for settings.
    #[error("Only groups whose id has at most {max} bytes can have settings; this one has {found}.")]
    GroupIdTooLong {
        /// Its length.
        found: usize,
        /// The maximum length.
        max: usize,
    },
    /// `POLICY_VIOLATION`: too many groups have their own settings.
    #[error("{max} groups have their own settings already; delete the settings of other groups first.")]
    TooManyGroups {
        /// The maximum number.
        max: usize,
    },
    /// `INVALID_UPDATE_VERSION`, or `INVALID_REQUEST` for a feature that appears twice.
    #[error(transparent)]
    Feature(#[from] FeatureError),
    /// `UNKNOWN_SERVER_ERROR`: 2^63 producer ids have been handed out.
    #[error("All producer ids have been handed out.")]
    ProducerIdsExhausted,
    /// `INVALID_REQUEST`: a standalone server has no cluster to change.
    #[error("This is a standalone server: it belongs to no cluster.")]
    NotFounded,
    /// `INVALID_REQUEST`: the node already belongs to a cluster.
    #[error("The cluster {cluster_id} was already founded by node {founder}.")]
    AlreadyFounded {
        /// The cluster's name.
        cluster_id: String,
        /// The node that founded it.
        founder: NodeId,
    },
    /// `INVALID_REQUEST`: a cluster's name is empty, too long, or has characters other than letters, digits,
    /// `-` and `_`.
    #[error("A cluster's name has 1 to {max} letters, digits, - and _.")]
    InvalidClusterId {
        /// The maximum length.
        max: usize,
    },
    /// `INVALID_REGISTRATION`: the registration has impossible contents.
    #[error("Node {node} cannot be registered: {reason}.")]
    InvalidRegistration {
        /// The node.
        node: NodeId,
        /// What is wrong.
        reason: &'static str,
    },
    /// `DUPLICATE_BROKER_REGISTRATION`: another node with this number is running.
    #[error(
        "The node id {node} is in use by a node with another data folder; give this node another id, or stop the other one and wait until it is fenced."
    )]
    NodeIdInUse {
        /// The number.
        node: NodeId,
    },
    /// `POLICY_VIOLATION`.
    #[error("The cluster has {max} nodes, as many as tailrace.cluster.nodes.max allows.")]
    TooManyNodes {
        /// The maximum number.
        max: u32,
    },
    /// `UNSUPPORTED_VERSION`: the node does not support the cluster's protocol level.
    #[error(
        "Node {node} supports levels {min} to {max} of the protocol between nodes, and the cluster is at {level}; start a build that supports it."
    )]
    ClusterLevel {
        /// The node.
        node: NodeId,
        /// Its lowest level.
        min: u16,
        /// Its highest level.
        max: u16,
        /// The level in force.
        level: u16,
    },
    /// `UNKNOWN_SERVER_ERROR`: 2^32 registrations have happened.
    #[error("No more nodes can be registered in this cluster.")]
    RegistrationsExhausted,
    /// `BROKER_ID_NOT_REGISTERED`: the node was a member, and was removed.
    #[error(
        "Node {node} with this data folder (replica {replica}) was removed from the cluster; delete the folder to let the node join again."
    )]
    TakenOut {
        /// The node.
        node: NodeId,
        /// Its folder's replica of the metadata log.
        replica: ReplicaId,
    },
    /// `BROKER_ID_NOT_REGISTERED`.
    #[error("Broker ID {node} is not currently registered.")]
    NotRegistered {
        /// The number.
        node: NodeId,
    },
    /// `INVALID_REQUEST`: a running node cannot be removed.
    #[error("Node {node} is running; stop it first and wait until it is fenced.")]
    NotFenced {
        /// The node.
        node: NodeId,
    },
    /// `INVALID_REQUEST`: a node with replicas cannot be removed.
    #[error("Node {node} holds replicas of {partitions} partition(s); move them to other nodes first.")]
    HoldsReplicas {
        /// The node.
        node: NodeId,
        /// The number of partitions.
        partitions: usize,
    },
    /// `INVALID_REPLICA_ASSIGNMENT`.
    #[error("{reason}")]
    InvalidAssignment {
        /// What is wrong.
        reason: String,
    },
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    #[error("Unable to find partition {topic}:{partition}.")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The requested number.
        partition: PartitionId,
    },
    /// `NO_REASSIGNMENT_IN_PROGRESS`.
    #[error("No reassignment of this partition is in progress.")]
    NoReassignment,
    /// `INVALID_REQUEST`: the members that the leader reports are no longer the wanted ones.
    #[error("These are no longer the wanted replicas of the partition.")]
    OtherReplicasWanted,
    /// A command about users, rules or client quotas. Each variant names its error.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// `CLUSTER_AUTHORIZATION_FAILED`: the client who sent the command has no right to it any more.
    #[error("The rules do not allow this.")]
    NotAuthorized,
    /// Another node refused the command.
    #[error("{message}")]
    Remote {
        /// The kind of refusal.
        kind: ControlErrorKind,
        /// The message.
        message: String,
    },
}

/// The kind of a refusal, for programs. Each kind is one error of the Kafka protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlErrorKind {
    /// `INVALID_TOPIC_EXCEPTION`.
    InvalidTopic,
    /// `TOPIC_ALREADY_EXISTS`.
    TopicExists,
    /// `TOPIC_AUTHORIZATION_FAILED`.
    TopicReserved,
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    UnknownTopicOrPartition,
    /// `UNKNOWN_TOPIC_ID`.
    UnknownTopicId,
    /// `TOPIC_DELETION_DISABLED`.
    DeletionDisabled,
    /// `INVALID_PARTITIONS`.
    InvalidPartitions,
    /// `POLICY_VIOLATION`.
    Policy,
    /// `INVALID_REPLICATION_FACTOR`.
    InvalidReplicationFactor,
    /// `INVALID_REPLICA_ASSIGNMENT`.
    InvalidAssignment,
    /// `NO_REASSIGNMENT_IN_PROGRESS`.
    NoReassignment,
    /// `INVALID_CONFIG`.
    InvalidConfig,
    /// `INVALID_REQUEST`.
    InvalidRequest,
    /// `INVALID_UPDATE_VERSION`.
    InvalidUpdateVersion,
    /// `INVALID_REGISTRATION`.
    InvalidRegistration,
    /// `DUPLICATE_BROKER_REGISTRATION`.
    NodeIdInUse,
    /// `UNSUPPORTED_VERSION`.
    UnsupportedLevel,
    /// `BROKER_ID_NOT_REGISTERED`.
    NotRegistered,
    /// `RESOURCE_NOT_FOUND`.
    ResourceNotFound,
    /// `DUPLICATE_RESOURCE`.
    DuplicateResource,
    /// `UNACCEPTABLE_CREDENTIAL`.
    UnacceptableCredential,
    /// `CLUSTER_AUTHORIZATION_FAILED`.
    NotAuthorized,
    /// `DELEGATION_TOKEN_NOT_FOUND`.
    UnknownToken,
    /// `DELEGATION_TOKEN_EXPIRED`.
    TokenExpired,
    /// `DELEGATION_TOKEN_OWNER_MISMATCH`.
    TokenOwnerMismatch,
    /// `INVALID_PRINCIPAL_TYPE`.
    InvalidPrincipalType,
    /// `UNKNOWN_SERVER_ERROR`. Also any kind that a newer node sends and this build does not know.
    #[serde(other)]
    Unknown,
}

/// A refusal, as sent to the node that forwarded the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteControlError {
    /// The kind of refusal.
    pub kind: ControlErrorKind,
    /// The message.
    pub message: String,
}

impl From<&ControlError> for RemoteControlError {
    fn from(error: &ControlError) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}

impl From<RemoteControlError> for ControlError {
    fn from(RemoteControlError { kind, message }: RemoteControlError) -> Self {
        Self::Remote { kind, message }
    }
}

impl ControlError {
    /// Returns the kind. It is the same on the node that refused and on the one that forwarded the command.
    pub fn kind(&self) -> ControlErrorKind {
        use ControlErrorKind as Kind;
        match self {
            Self::InvalidTopicName(_) | Self::TopicCollision { .. } => Kind::InvalidTopic,
            Self::TopicExists { .. } => Kind::TopicExists,
            Self::ReservedTopic { .. } => Kind::TopicReserved,
            Self::UnknownTopic { .. } | Self::UnknownPartition { .. } => Kind::UnknownTopicOrPartition,
            Self::UnknownTopicId { .. } => Kind::UnknownTopicId,
            Self::DeletionDisabled => Kind::DeletionDisabled,
            Self::InvalidPartitions { .. }
            | Self::StreamPartitions { .. }
            | Self::AlreadyHasPartitions { .. }
            | Self::NotAnIncrease { .. } => Kind::InvalidPartitions,
            Self::TooManyPartitions { .. } | Self::TooManyGroups { .. } | Self::TooManyNodes { .. } => {
                Kind::Policy
            }
            Self::InvalidReplicationFactor { .. } | Self::TooFewNodes { .. } => {
                Kind::InvalidReplicationFactor
            }
            Self::Config(_)
            | Self::SubjectsOverlap { .. }
            | Self::InternalTopicCaptures { .. }
            | Self::AuditTopicConfig { .. }
            | Self::StreamConfig { .. }
            | Self::TopicWouldBreak { .. }
            | Self::NullAtCreation { .. }
            | Self::NotAList { .. } => Kind::InvalidConfig,
            Self::Feature(FeatureError::Repeated { .. }) => Kind::InvalidRequest,
            Self::Feature(
                FeatureError::Unknown { .. }
                | FeatureError::OutOfRange { .. }
                | FeatureError::IsDowngrade { .. }
                | FeatureError::IsUpgrade { .. }
                | FeatureError::Unsafe { .. }
                | FeatureError::Fixed { .. },
            ) => Kind::InvalidUpdateVersion,
            Self::NoGroupId
            | Self::GroupIdTooLong { .. }
            | Self::TopicIdInUse { .. }
            | Self::NullConfig { .. }
            | Self::DuplicateConfig { .. }
            | Self::ReadOnlyConfig { .. }
            | Self::UnknownNode { .. }
            | Self::NotFounded
            | Self::AlreadyFounded { .. }
            | Self::InvalidClusterId { .. }
            | Self::NotFenced { .. }
            | Self::HoldsReplicas { .. }
            | Self::OtherReplicasWanted => Kind::InvalidRequest,
            Self::InvalidAssignment { .. } => Kind::InvalidAssignment,
            Self::NoReassignment => Kind::NoReassignment,
            Self::InvalidRegistration { .. } => Kind::InvalidRegistration,
            Self::NodeIdInUse { .. } => Kind::NodeIdInUse,
            Self::ClusterLevel { .. } => Kind::UnsupportedLevel,
            Self::TakenOut { .. } | Self::NotRegistered { .. } => Kind::NotRegistered,
            Self::ProducerIdsExhausted | Self::RegistrationsExhausted => Kind::Unknown,
            Self::Access(error) => kind_of(error),
            Self::NotAuthorized => Kind::NotAuthorized,
            Self::Remote { kind, .. } => *kind,
        }
    }
}

fn kind_of(error: &AccessError) -> ControlErrorKind {
    use AccessError as Access;
    use ControlErrorKind as Kind;
    match error {
        Access::LevelTooLow { .. } => Kind::UnsupportedLevel,
        Access::NoUserName | Access::InvalidUserName { .. } | Access::UserOfSettings => {
            Kind::UnacceptableCredential
        }
        Access::UnknownCredential | Access::UnknownUser => Kind::ResourceNotFound,
        Access::CredentialTwice => Kind::DuplicateResource,
        Access::EndsBeforeNow
        | Access::OtherSalt
        | Access::TokenId
        | Access::InvalidTokenUser { .. }
        | Access::InvalidPrincipal { .. }
        | Access::TooManyAclsAtOnce { .. }
        | Access::InvalidAcl { .. }
        | Access::NoEntity
        | Access::InvalidEntity { .. }
        | Access::InvalidQuotaKey { .. }
        | Access::QuotaKeyTwice { .. }
        | Access::InvalidLimit(_)
        | Access::InvalidAccountClaims { .. }
        | Access::OlderAccountClaims { .. } => Kind::InvalidRequest,
        Access::UnknownToken => Kind::UnknownToken,
        Access::TokenExpired => Kind::TokenExpired,
        Access::TokenOwnerMismatch => Kind::TokenOwnerMismatch,
        Access::TokenPrincipalType => Kind::InvalidPrincipalType,
        Access::TooManyUsers { .. }
        | Access::TooManyAcls { .. }
        | Access::TooManyEntities { .. }
        | Access::TooManyRenewers { .. }
        | Access::TooManyTokens { .. }
        | Access::TooManyTokensOfUser { .. }
        | Access::TooManyAccountClaims { .. }
        | Access::AccountClaimsTooLong { .. } => Kind::Policy,
    }
}
