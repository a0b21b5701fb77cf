//! The settings of a group: table and typed struct, and the broker's bounds for them.
//!
//! A group need not exist to have settings. What is set is checked against the broker's bounds then; when those are narrowed
//! later, the value is moved into them where it is used, as Kafka does it, so that a start never fails for it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::broker::{BrokerConfig, broker_key};
use super::choice::GroupIsolationLevel;
use super::error::{ConfigError, ConfigScope};
use super::key::ConfigKind::{Boolean, Int, String as Text};
use super::key::{ConfigKey, ConfigKind, Synonym};
use super::layers::{self, Layers};
use super::table::settings;
use super::value::{FromValue, Value};

/// A group key whose default comes from the broker key `$name`.
macro_rules! from {
    ($name:literal) => {
        &[Synonym { name: $name, factor: 1 }]
    };
}

const fn key(name: &'static str, kind: ConfigKind) -> ConfigKey {
    ConfigKey::new(name, kind).dynamic()
}

settings! {
    /// What holds for one group, after its overrides, the broker's settings and the defaults were merged.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GroupConfig, table GROUP_KEYS {
        /// Time between two assignments of a consumer group (KIP-848), so that many members that come at once are assigned
        /// together. 0 assigns at once.
        consumer_assignment_interval_ms: i32 = key("consumer.assignment.interval.ms", Int).default("1000").ms()
            .at_least(0).synonyms(from!("group.consumer.assignment.interval.ms"));
        /// Time between two heartbeats of a consumer group's members (KIP-848); the server tells it to them.
        consumer_heartbeat_interval_ms: i32 = key("consumer.heartbeat.interval.ms", Int).default("5000").ms()
            .at_least(1).synonyms(from!("group.consumer.heartbeat.interval.ms"));
        /// Time without a heartbeat after which a member of a consumer group (KIP-848) is removed.
        consumer_session_timeout_ms: i32 = key("consumer.session.timeout.ms", Int).default("45000").ms().at_least(1)
            .synonyms(from!("group.consumer.session.timeout.ms"));
        /// Time between two assignments of a share group (KIP-932). 0 assigns at once.
        share_assignment_interval_ms: i32 = key("share.assignment.interval.ms", Int).default("1000").ms().at_least(0)
            .synonyms(from!("group.share.assignment.interval.ms"));
        /// Where a share group begins in a partition that it reads for the first time: earliest, latest, or
        /// by_duration: and an ISO 8601 duration (as in by_duration:P1DT12H), which is so long ago.
        share_auto_offset_reset: ShareOffsetReset = key("share.auto.offset.reset", Text).default("latest");
        /// How often a record is delivered to a share group at most. After that it counts as rejected.
        share_delivery_count_limit: i32 = key("share.delivery.count.limit", Int).default("5").count("deliveries")
            .at_least(2).synonyms(from!("group.share.delivery.count.limit"));
        /// Time between two heartbeats of a share group's members; the server tells it to them.
        share_heartbeat_interval_ms: i32 = key("share.heartbeat.interval.ms", Int).default("5000").ms().at_least(1)
            .synonyms(from!("group.share.heartbeat.interval.ms"));
        /// Which records of transactions a share group gets: read_committed, only those of committed ones;
        /// read_uncommitted, all, also those that are aborted later.
        share_isolation_level: GroupIsolationLevel = key("share.isolation.level", Text).default("read_uncommitted")
            .one_of(&["read_committed", "read_uncommitted"]);
        /// Records of one partition that a share group may have acquired and not yet acknowledged.
        share_partition_max_record_locks: i32 = key("share.partition.max.record.locks", Int).default("2000")
            .count("records").at_least(100).synonyms(from!("group.share.partition.max.record.locks"));
        /// Time for which a member of a share group holds a record that it acquired. Unless it acknowledges or renews until then, the
        /// record goes to another member.
        share_record_lock_duration_ms: i32 = key("share.record.lock.duration.ms", Int).default("30000").ms()
            .at_least(1000).synonyms(from!("group.share.record.lock.duration.ms"));
        /// Whether members of a share group may extend the time for which they hold a record (acknowledgements of type renew).
        share_renew_acknowledge_enable: bool = key("share.renew.acknowledge.enable", Boolean).default("true");
        /// Time without a heartbeat after which a member of a share group is removed.
        share_session_timeout_ms: i32 = key("share.session.timeout.ms", Int).default("45000").ms().at_least(1)
            .synonyms(from!("group.share.session.timeout.ms"));
        /// Time between two assignments of a streams group (KIP-1071).
        streams_assignment_interval_ms: i32 = key("streams.assignment.interval.ms", Int).default("1000").ms()
            .at_least(0).accepted().synonyms(from!("group.streams.assignment.interval.ms"));
        /// Time between two heartbeats of a streams group's members.
        streams_heartbeat_interval_ms: i32 = key("streams.heartbeat.interval.ms", Int).default("5000").ms().at_least(1)
            .accepted().synonyms(from!("group.streams.heartbeat.interval.ms"));
        /// Time that a new streams group waits for further members before its first assignment.
        streams_initial_rebalance_delay_ms: i32 = key("streams.initial.rebalance.delay.ms", Int).default("3000").ms()
            .at_least(0).accepted().synonyms(from!("group.streams.initial.rebalance.delay.ms"));
        /// Copies of each task's state that a streams group keeps ready.
        streams_num_standby_replicas: i32 = key("streams.num.standby.replicas", Int).default("0").count("replicas")
            .at_least(0).accepted().synonyms(from!("group.streams.num.standby.replicas"));
        /// Time without a heartbeat after which a member of a streams group is removed.
        streams_session_timeout_ms: i32 = key("streams.session.timeout.ms", Int).default("45000").ms().at_least(1)
            .accepted().synonyms(from!("group.streams.session.timeout.ms"));
    }
    with {}
}

/// Where a share group begins in a partition that it reads for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareOffsetReset {
    /// At the first record that is kept.
    Earliest,
    /// At the next record.
    Latest,
    /// At the first record that is at most this old. Never negative.
    ByDuration(Duration),
}

impl FromValue for ShareOffsetReset {
    fn from_value(value: Value) -> Result<Self, String> {
        let text = value.to_string();
        match text.split_once(':') {
            None if text == "earliest" => Ok(Self::Earliest),
            None if text == "latest" => Ok(Self::Latest),
            Some(("by_duration", duration)) => {
                iso_duration(duration).map(Self::ByDuration).ok_or_else(|| {
                    format!("{duration} is no ISO 8601 duration from zero, such as PT1H30M or P7D")
                })
            }
            _ => Err("must be earliest, latest or by_duration:PnDTnHnMn.nS".to_owned()),
        }
    }
}

/// Days, hours, minutes and seconds as ISO 8601 writes them: what Java's `Duration.parse` takes, but for signs.
fn iso_duration(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let rest = upper.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        // A T with nothing behind it is an error.
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    for (part, units) in [(date, &[('D', 86_400)][..]), (time, &[('H', 3_600), ('M', 60), ('S', 1)][..])] {
        let mut left = part;
        for &(unit, seconds) in units {
            let Some((number, behind)) = left.split_once(unit) else { continue };
            total = total.checked_add(amount(number, seconds, unit == 'S')?)?;
            left = behind;
        }
        if !left.is_empty() {
            return None;
        }
    }
    Some(total)
}

/// `number` times `seconds`; only seconds may have a fraction, of up to nine digits.
fn amount(number: &str, seconds: u64, may_be_broken: bool) -> Option<Duration> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    if number.contains('.') && !may_be_broken {
        return None;
    }
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse::<u64>().ok()?.checked_mul(seconds)?, nanos))
}

/// Broker keys between whose values a group key must lie.
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

const NOT_BELOW: &str = "the value must not lie below that bound";
const NOT_ABOVE: &str = "the value must not lie above that bound";

impl GroupConfig {
    /// Merges a group's overrides with the broker's settings and the defaults. Values that the broker's bounds do not allow are moved
    /// into them.
    ///
    /// # Errors
    /// A key is unknown or a value cannot be read.
    pub fn resolve(overrides: &BTreeMap<String, String>, broker: &BrokerConfig) -> Result<Self, ConfigError> {
        Self::resolve_in(overrides, broker.layers())
    }

    pub(super) fn resolve_in(
        overrides: &BTreeMap<String, String>,
        layers: &Layers,
    ) -> Result<Self, ConfigError> {
        for key in overrides.keys() {
            group_key(key)?;
        }
        Self::read(&|key| effective(key, overrides, layers))
    }

    /// Resolves as [`GroupConfig::resolve`] does, and refuses what the broker's bounds do not allow.
    ///
    /// # Errors
    /// A key is unknown, a value is illegal, or two values do not fit together.
    pub fn check(overrides: &BTreeMap<String, String>, broker: &BrokerConfig) -> Result<Self, ConfigError> {
        let layers = broker.layers();
        let config = Self::resolve_in(overrides, layers)?;
        check_limits(overrides, layers, ConfigScope::Group)?;
        config.check_sessions()?;
        Ok(config)
    }

    /// A member must have time for more than one heartbeat.
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

/// What holds for `key`, moved into the broker's bounds.
pub(super) fn effective(
    key: &ConfigKey,
    overrides: &BTreeMap<String, String>,
    layers: &Layers,
) -> Result<Value, ConfigError> {
    let value = layers.resource_value(key, overrides)?;
    let (Value::Number(number), true) = (&value, overrides.contains_key(key.name)) else { return Ok(value) };
    let (min, max) = limits(key.name, layers)?;
    // The broker's own check sees to it that the bounds are in order.
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

/// Refuses broker settings that no group could live with: bounds in the wrong order, defaults outside of them.
pub(super) fn check_broker(defaults: &GroupConfig, layers: &Layers) -> Result<(), ConfigError> {
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

/// Refuses the first value that lies outside its bounds; at fault is the group's key, or the broker's for a default.
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

/// All keys of groups, by name.
pub fn group_keys() -> &'static [ConfigKey] {
    GROUP_KEYS
}

/// Finds a group key.
///
/// # Errors
/// There is none of that name.
pub fn group_key(name: &str) -> Result<&'static ConfigKey, ConfigError> {
    GROUP_KEYS
        .iter()
        .find(|key| key.name == name)
        .ok_or_else(|| layers::unknown(ConfigScope::Group, name, GROUP_KEYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_java_reads_them() {
        let seconds = |text| iso_duration(text).map(|duration| duration.as_secs_f64());
        for (text, expected) in [
            ("P1D", 86_400.0),
            ("PT1H30M", 5_400.0),
            ("p1dt0.5s", 86_400.5),
            ("PT0S", 0.0),
            ("PT1.S", 1.0),
            ("PT36H", 129_600.0),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1",
            "1D",
            "P1DT",
            "PT1M1H",
            "PT1.5H",
            "P-1D",
            "PT1.0000000001S",
            "P99999999999999999999D",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
