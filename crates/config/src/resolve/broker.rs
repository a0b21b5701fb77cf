//! Resolves the effective configuration of this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::group;
use crate::broker::BrokerConfig;
use crate::error::{ConfigError, ConfigScope, NumericSetting};
use crate::group::GroupConfig;
use crate::key::ConfigKey;
use crate::layers::{DynamicConfigs, Layers};
use crate::topic::TopicConfig;
use crate::value::Value;
use crate::{cluster, listeners, security};

impl BrokerConfig {
    /// Merges the start configuration (file, environment, flags) with the settings changed at run time.
    ///
    /// # Errors
    /// A key is unknown, a value is illegal, or two values contradict each other.
    pub fn resolve(fixed: &BTreeMap<String, String>, dynamic: &DynamicConfigs) -> Result<Self, ConfigError> {
        let layers = Layers::new(fixed, dynamic)?;
        let topic_defaults = TopicConfig::resolve_in(&BTreeMap::new(), &layers)?;
        let group_defaults = GroupConfig::resolve_in(&BTreeMap::new(), &layers)?;
        group::check_broker(&group_defaults, &layers)?;
        let values = layers.clone();
        let group_defaults = Arc::new(group_defaults);
        let unresolved = Arc::default();
        let mut config =
            Self::read(&|key| values.broker_value(key), topic_defaults, group_defaults, layers, unresolved)?;
        config.listeners_resolved = listeners::resolve(&config)?.into();
        config.check()?;
        Ok(config)
    }

    /// Returns the value of a key of `scope` when the resource itself does not set it.
    ///
    /// # Errors
    /// The broker-wide value is not a legal value of this key.
    pub fn value_without_override(&self, scope: ConfigScope, key: &ConfigKey) -> Result<Value, ConfigError> {
        match scope {
            ConfigScope::Topic | ConfigScope::Group => self.layers().resource_value(key, &BTreeMap::new()),
            ConfigScope::Broker => self.layers().broker_value(key),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        NumericSetting::new("socket.request.max.bytes", self.socket_request_max_bytes).not_above(
            NumericSetting::new("queued.max.request.bytes", self.queued_max_request_bytes),
            "the budget for all requests must hold the largest one",
        )?;
        NumericSetting::new("group.min.session.timeout.ms", self.group_min_session_timeout_ms).not_above(
            NumericSetting::new("group.max.session.timeout.ms", self.group_max_session_timeout_ms),
            "some session timeout must be possible",
        )?;
        NumericSetting::new("num.partitions", self.num_partitions).not_above(
            NumericSetting::new("tailrace.topic.partitions.max", self.tailrace_topic_partitions_max),
            "a topic with the default number of partitions must be possible",
        )?;
        NumericSetting::new("tailrace.nats.max.payload.bytes", self.tailrace_nats_max_payload_bytes)
            .not_above(
                NumericSetting::new("tailrace.nats.max.pending.bytes", self.tailrace_nats_max_pending_bytes),
                "the queue of a client must hold the largest message",
            )?;
        cluster::check(self)?;
        security::check(self)
    }
}
