//! Resolves the effective configuration of one group, within the broker's bounds.
//!
//! A group's value is checked against the broker's bounds when it is set. If the bounds are narrowed later,
//! the value is clamped to them where it is used, as in Kafka, so that it never prevents a start.

use std::collections::BTreeMap;

use crate::broker::BrokerConfig;
use crate::error::{ConfigError, ConfigScope};
use crate::group::{GROUP_KEYS, GroupConfig};
use crate::key::ConfigKey;
use crate::keys::{broker_key, group_key};
use crate::layers::Layers;
use crate::value::Value;

/// The broker keys that bound a group key.
struct Limits {
    key: &'static str,
    min: Option<&'static str>,
    max: Option<&'static str>,
}

const fn between(key: &'static str, min: &'static str, max: &'static str) -> Limits {
    Limits { key, min: Some(min), max: Some(max) }
}

const LIMITS: &[Limits] = &[
    between(
        "consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    between(
        "consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    between(
        "consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    between(
        "share.assignment.interval.ms",
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    between(
        "share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    between(
        "share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    between(
        "share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    between(
        "share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    between(
        "share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    between(
        "streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
    between(
        "streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    Limits {
        key: "streams.num.standby.replicas",
        min: None,
        max: Some("group.streams.max.standby.replicas"),
    },
    between(
        "streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
];

const NOT_BELOW: &str = "the value must not be below that bound";
const NOT_ABOVE: &str = "the value must not be above that bound";

impl GroupConfig {
    /// Merges a group's overrides with the broker's settings and the defaults. Values outside the broker's
    /// bounds are clamped to them.
    ///
    /// # Errors
    /// A key is unknown or a value cannot be parsed.
    pub fn resolve(overrides: &BTreeMap<String, String>, broker: &BrokerConfig) -> Result<Self, ConfigError> {
        Self::resolve_in(overrides, broker.layers())
    }

    pub(crate) fn resolve_in(
        overrides: &BTreeMap<String, String>,
        layers: &Layers,
    ) -> Result<Self, ConfigError> {
        for key in overrides.keys() {
            group_key(key)?;
        }
        Self::read(&|key| effective(key, overrides, layers))
    }

    /// Resolves as [`GroupConfig::resolve`] does, and refuses values outside the broker's bounds.
    ///
    /// # Errors
    /// A key is unknown, a value is illegal, or two values contradict each other.
    pub fn check(overrides: &BTreeMap<String, String>, broker: &BrokerConfig) -> Result<Self, ConfigError> {
        let layers = broker.layers();
        let config = Self::resolve_in(overrides, layers)?;
        check_limits(overrides, layers, ConfigScope::Group)?;
        config.check_sessions()?;
        Ok(config)
    }

    /// Refuses a session timeout that is not longer than the heartbeat interval.
    fn check_sessions(&self) -> Result<(), ConfigError> {
        let pairs = [
            ("consumer", self.consumer_session_timeout_ms, self.consumer_heartbeat_interval_ms),
            ("share", self.share_session_timeout_ms, self.share_heartbeat_interval_ms),
            ("streams", self.streams_session_timeout_ms, self.streams_heartbeat_interval_ms),
        ];
        for (kind, session, heartbeat) in pairs {
            if session <= heartbeat {
                let name = |what: &str| group_key(&format!("{kind}.{what}")).map(|key| key.name);
                return Err(ConfigError::Inconsistent {
                    key: name("session.timeout.ms")?,
                    value: session.into(),
                    other: name("heartbeat.interval.ms")?,
                    other_value: heartbeat.into(),
                    reason: "a session must be longer than the time between two heartbeats",
                });
            }
        }
        Ok(())
    }
}

/// Returns the effective value of `key`, clamped to the broker's bounds.
pub(crate) fn effective(
    key: &ConfigKey,
    overrides: &BTreeMap<String, String>,
    layers: &Layers,
) -> Result<Value, ConfigError> {
    let value = layers.resource_value(key, overrides)?;
    let (Value::Number(number), true) = (&value, overrides.contains_key(key.name)) else { return Ok(value) };
    let (min, max) = limits(key.name, layers)?;
    // `check_broker` has verified that the minimum is not above the maximum.
    Ok(Value::Number((*number).min(max.map_or(i64::MAX, |(_, max)| max)).max(min.map_or(0, |(_, min)| min))))
}

type Limit = Option<(&'static str, i64)>;

fn limits(key: &str, layers: &Layers) -> Result<(Limit, Limit), ConfigError> {
    let Some(limits) = LIMITS.iter().find(|limits| limits.key == key) else { return Ok((None, None)) };
    let value = |name: Option<&'static str>| -> Result<Limit, ConfigError> {
        let Some(name) = name else { return Ok(None) };
        match layers.broker_value(broker_key(name)?)? {
            Value::Number(number) => Ok(Some((name, number))),
            _ => Ok(None),
        }
    };
    Ok((value(limits.min)?, value(limits.max)?))
}

/// Refuses broker settings that no group could use: a minimum above its maximum, or a default out of bounds.
pub(crate) fn check_broker(defaults: &GroupConfig, layers: &Layers) -> Result<(), ConfigError> {
    for key in GROUP_KEYS {
        if let (Some((min_key, min)), Some((max_key, max))) = limits(key.name, layers)?
            && min > max
        {
            let reason = "the lower bound must not exceed the upper one";
            return Err(ConfigError::Inconsistent {
                key: min_key,
                value: min,
                other: max_key,
                other_value: max,
                reason,
            });
        }
    }
    check_limits(&BTreeMap::new(), layers, ConfigScope::Broker)?;
    defaults.check_sessions()
}

/// Refuses the first value that is out of bounds. The error names the group's key, or the broker's key for a
/// default.
fn check_limits(
    overrides: &BTreeMap<String, String>,
    layers: &Layers,
    scope: ConfigScope,
) -> Result<(), ConfigError> {
    for key in GROUP_KEYS {
        let Value::Number(value) = layers.resource_value(key, overrides)? else { continue };
        let (min, max) = limits(key.name, layers)?;
        let below = min.filter(|(_, min)| value < *min).map(|limit| (limit, NOT_BELOW));
        let above = max.filter(|(_, max)| value > *max).map(|limit| (limit, NOT_ABOVE));
        if let Some(((other, other_value), reason)) = below.or(above) {
            let own = key.synonyms.first().filter(|_| scope == ConfigScope::Broker);
            let key = own.map_or(key.name, |synonym| synonym.name);
            return Err(ConfigError::Inconsistent { key, value, other, other_value, reason });
        }
    }
    Ok(())
}
