//! The controller and its metadata: topics with their partitions, ids and settings, the nodes of the cluster,
//! and users, rules and client quotas.
//!
//! Everything here is deterministic and free of I/O: no clock, no randomness, no files, no threads. Ids and
//! times come in with the command. Records go out to the caller, who writes them to the metadata log, and
//! come back through [`Controller::apply`]. Kafka's error codes are the caller's task, too; errors here are
//! typed.

mod access;
pub mod cluster;
mod controller;
mod features;
mod image;
mod record;
pub mod serial;

pub use access::bounds::ACCESS_LEVEL;
pub use access::{
    PreviousCredential, QuotaLimit, QuotaLimitError, Stamp, StoredAccountClaims, StoredCredential,
    StoredToken, StoredUser,
};
pub use controller::{
    AccessError, ApplyError, BrokerScope, Command, ConfigAction, ConfigChange, ConfigOp, ControlError,
    ControlErrorKind, Controller, CreateTopic, GROUP_ID_BYTES_MAX, GROUPS_CONFIGURED_MAX, RegisterNode,
    RemoteControlError, Requester, ScramChange, TokenEnd, TopicRef,
};
pub use features::{CLUSTER_LEVEL, Feature, FeatureDirection, FeatureError, FeatureLevels, FeatureUpdate};
pub use image::{
    AccessContradiction, AccessImage, CONSUMER_OFFSETS_TOPIC, GroupImage, JETSTREAM_STATE_TOPIC,
    METADATA_TOPIC, MetadataImage, NodeImage, PartitionImage, SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC, TopicImage, is_internal_topic,
};
pub use record::{KafkaEndpoint, MetadataRecord, NodeRegistration, RecordError};
