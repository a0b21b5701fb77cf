//! Why the controller refuses a command. Each variant names the Kafka error it stands for.

use tailrace_types::{NodeId, TopicId, TopicName, TopicNameError};

use crate::config::ConfigError;
use crate::features::FeatureError;

/// Why a command is refused. Nothing has changed then.
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
        /// The name that was asked for.
        name: TopicName,
        /// The topic in its way.
        existing: TopicName,
    },
    /// `TOPIC_ALREADY_EXISTS`.
    #[error("Topic '{name}' already exists.")]
    TopicExists {
        /// Its name.
        name: TopicName,
    },
    /// `INVALID_REQUEST`: the id that the caller drew is zero or taken; draw another.
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
        /// The name that was asked for.
        name: String,
    },
    /// `UNKNOWN_TOPIC_ID`.
    #[error("There is no topic with the id {id}.")]
    UnknownTopicId {
        /// The id that was asked for.
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
        /// What was asked for.
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
        /// What was asked for.
        found: i32,
    },
    /// `POLICY_VIOLATION`.
    #[error("{found} partitions are more than {key} allows: {max}; ask for fewer or raise {key}.")]
    TooManyPartitions {
        /// The setting that limits.
        key: &'static str,
        /// How many there would be.
        found: u64,
        /// Its value.
        max: u64,
    },
    /// `INVALID_REPLICATION_FACTOR`.
    #[error("Replication factor must be larger than 0, or -1 to use the default value; found {found}.")]
    InvalidReplicationFactor {
        /// What was asked for.
        found: i16,
    },
    /// `INVALID_REPLICATION_FACTOR`.
    #[error(
        "Unable to replicate the partition {found} time(s): The target replication factor of {found} cannot be reached because only {nodes} broker(s) are registered."
    )]
    TooFewNodes {
        /// What was asked for.
        found: i16,
        /// How many nodes there are.
        nodes: i16,
    },
    /// `INVALID_CONFIG`.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// `INVALID_CONFIG`: a NATS subject would belong to two topics, or to one of them twice.
    #[error(
        "tailrace.subjects: '{pattern}' of topic '{topic}' overlaps '{other_pattern}' of topic '{other}'; a subject can be captured only once"
    )]
    SubjectsOverlap {
        /// The topic that is to be created or changed.
        topic: TopicName,
        /// Its pattern.
        pattern: String,
        /// The topic in its way, or itself.
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
    /// `INVALID_CONFIG`: a change of the broker's settings would break a topic.
    #[error("topic '{topic}': {error}")]
    TopicWouldBreak {
        /// The topic.
        topic: TopicName,
        /// What would be wrong with it.
        error: ConfigError,
    },
    /// `INVALID_CONFIG`: a new topic's override is null.
    #[error("Null value not supported for topic configs: {key}")]
    NullAtCreation {
        /// The key.
        key: String,
    },
    /// `INVALID_REQUEST`: a setting is to become null; deleting it is what brings the default back.
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
        /// The number that was asked for.
        node: NodeId,
        /// The node that there is.
        existing: NodeId,
    },
    /// `INVALID_REQUEST`: settings of a group without an id.
    #[error("Default group resources are not allowed.")]
    NoGroupId,
    /// `INVALID_REQUEST`: a group's id is too long to have settings.
    #[error("Settings can be kept for groups whose id has at most {max} bytes; this one has {found}.")]
    GroupIdTooLong {
        /// Its length.
        found: usize,
        /// What is allowed.
        max: usize,
    },
    /// `POLICY_VIOLATION`: too many groups have settings of their own.
    #[error("{max} groups have settings of their own already; delete those of others first.")]
    TooManyGroups {
        /// How many may.
        max: usize,
    },
    /// `INVALID_UPDATE_VERSION`, or `INVALID_REQUEST` for a feature that comes twice.
    #[error(transparent)]
    Feature(#[from] FeatureError),
    /// `UNKNOWN_SERVER_ERROR`: 2^63 producer ids have been handed out.
    #[error("All producer ids have been handed out.")]
    ProducerIdsExhausted,
}
