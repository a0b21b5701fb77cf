//! The configuration keys of topics, groups and the broker, and the typed configurations made of them.
//!
//! Values are texts. A key has Kafka's name if Kafka has the setting. Other keys start with `tailrace.`,
//! except for a few short ones such as `data.dir`. This crate merges layers and checks values. The binary
//! reads files, environment and command line; the controller stores changes.

mod broker;
mod choice;
mod cluster;
mod describe;
mod error;
mod group;
mod key;
mod keys;
mod layers;
mod listeners;
mod markdown;
mod resolve;
mod security;
mod subjects;
mod table;
mod topic;
mod value;

pub use broker::BrokerConfig;
pub use choice::{
    AdvertisedListener, AuthorizerClass, CleanupPolicy, CompressionType, GroupIsolationLevel,
    KafkaAuthentication, LogFormat, MessageTimestampType, MigrationPolicy, NatsAuthentication, NatsTls,
    ReplicaSelector, Secret, SecurityProtocol, TlsClientAuth,
};
pub use cluster::{RACK_BYTES_MAX, is_address};
pub use describe::{
    ConfigSynonym, DescribedConfig, describe_broker, describe_cluster, describe_group, describe_topic,
};
pub use error::{ConfigError, ConfigScope};
pub use group::{GroupConfig, ShareOffsetReset};
pub use key::{Applies, Bounds, ConfigKey, ConfigKind, Synonym, Unit};
pub use keys::{
    broker_key, broker_key_of_variable, broker_keys, group_key, group_keys, start_setting, topic_key,
    topic_keys,
};
pub use layers::{ConfigSource, DynamicConfigs};
pub use listeners::{KafkaListener, LISTENER_NAME_BYTES_MAX, LISTENERS_MAX};
pub use markdown::configuration_markdown;
pub use security::TokenKeys;
pub use subjects::{CapturedSubjects, PATTERNS_BYTES_MAX, PATTERNS_MAX};
pub use topic::{Durability, TopicConfig};
pub use value::Value;
