//! Every configuration key of topics and of the broker, and the typed configurations made of them.
//!
//! Values are texts under Kafka's names where Kafka has one, `tailrace.*` else. This crate merges layers and checks
//! values; reading files, environment and command line is the binary's job, storing changes the controller's.

mod broker;
mod choice;
mod cluster;
mod describe;
mod error;
mod group;
mod key;
mod keys;
mod layers;
mod markdown;
mod resolve;
mod security;
mod subjects;
mod table;
mod topic;
mod value;

pub use broker::BrokerConfig;
pub use choice::{
    AdvertisedListener, CleanupPolicy, CompressionType, GroupIsolationLevel, LogFormat, MessageTimestampType,
    MigrationPolicy, NatsTls, ReplicaSelector, Secret, TlsClientAuth,
};
pub use cluster::{RACK_BYTES_MAX, is_address};
pub use describe::{
    ConfigSynonym, DescribedConfig, describe_broker, describe_cluster, describe_group, describe_topic,
};
pub use error::{ConfigError, ConfigScope};
pub use group::{GroupConfig, ShareOffsetReset};
pub use key::{Applies, Bounds, ConfigKey, ConfigKind, Synonym, Unit};
pub use keys::{
    broker_key, broker_key_of_variable, broker_keys, group_key, group_keys, topic_key, topic_keys,
};
pub use layers::{ConfigSource, DynamicConfigs};
pub use markdown::configuration_markdown;
pub use subjects::{CapturedSubjects, PATTERNS_BYTES_MAX, PATTERNS_MAX};
pub use topic::{Durability, TopicConfig};
pub use value::Value;
