//! The settings of a group: the table and the typed struct. A group need not exist to have settings.

use std::time::Duration;

use super::choice::GroupIsolationLevel;
use super::key::ConfigKind::{Boolean, Int, String as Text};
use super::key::{ConfigKey, ConfigKind, Synonym};
use super::table::settings;
use super::value::{FromValue, Value};

/// The synonym of a group key whose default comes from the broker key `$name`.
macro_rules! from {
    ($name:literal) => {
        &[Synonym { name: $name, factor: 1 }]
    };
}

const fn key(name: &'static str, kind: ConfigKind) -> ConfigKey {
    ConfigKey::new(name, kind).dynamic()
}

settings! {
    /// The effective configuration of one group: its overrides, the broker's settings and the defaults,
    /// merged.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GroupConfig, table GROUP_KEYS {
        /// Minimum time between two assignments of a consumer group (KIP-848), so that many members that join
        /// at the same time are assigned together. 0 assigns at once.
        consumer_assignment_interval_ms: i32 = key("consumer.assignment.interval.ms", Int).default("1000").ms()
            .at_least(0).synonyms(from!("group.consumer.assignment.interval.ms"));
        /// Time between two heartbeats of a member of a consumer group (KIP-848). The server tells it to the
        /// members.
        consumer_heartbeat_interval_ms: i32 = key("consumer.heartbeat.interval.ms", Int).default("5000").ms()
            .at_least(1).synonyms(from!("group.consumer.heartbeat.interval.ms"));
        /// Time without a heartbeat after which a member of a consumer group (KIP-848) is removed.
        consumer_session_timeout_ms: i32 = key("consumer.session.timeout.ms", Int).default("45000").ms().at_least(1)
            .synonyms(from!("group.consumer.session.timeout.ms"));
        /// Minimum time between two assignments of a share group (KIP-932). 0 assigns at once.
        share_assignment_interval_ms: i32 = key("share.assignment.interval.ms", Int).default("1000").ms().at_least(0)
            .synonyms(from!("group.share.assignment.interval.ms"));
        /// Where a share group starts in a partition that it reads for the first time: earliest, latest, or
        /// by_duration: followed by an ISO 8601 duration before now, as in by_duration:P1DT12H.
        share_auto_offset_reset: ShareOffsetReset = key("share.auto.offset.reset", Text).default("latest");
        /// Maximum number of times that a record is delivered to a share group. After that it counts as
        /// rejected.
        share_delivery_count_limit: i32 = key("share.delivery.count.limit", Int).default("5").count("deliveries")
            .at_least(2).synonyms(from!("group.share.delivery.count.limit"));
        /// Time between two heartbeats of a member of a share group. The server tells it to the members.
        share_heartbeat_interval_ms: i32 = key("share.heartbeat.interval.ms", Int).default("5000").ms().at_least(1)
            .synonyms(from!("group.share.heartbeat.interval.ms"));
        /// Which transactional records a share group gets. read_committed: only those of committed
        /// transactions. read_uncommitted: all, including those that are aborted later.
        share_isolation_level: GroupIsolationLevel = key("share.isolation.level", Text).default("read_uncommitted")
            .one_of(&["read_committed", "read_uncommitted"]);
        /// Maximum number of records of one partition that a share group may have acquired and not yet
        /// acknowledged.
        share_partition_max_record_locks: i32 = key("share.partition.max.record.locks", Int).default("2000")
            .count("records").at_least(100).synonyms(from!("group.share.partition.max.record.locks"));
        /// Time for which a member of a share group holds the lock on a record that it acquired. If it
        /// neither acknowledges nor renews within that time, the record goes to another member.
        share_record_lock_duration_ms: i32 = key("share.record.lock.duration.ms", Int).default("30000").ms()
            .at_least(1000).synonyms(from!("group.share.record.lock.duration.ms"));
        /// Whether members of a share group may renew the lock on a record (acknowledgements of type renew).
        share_renew_acknowledge_enable: bool = key("share.renew.acknowledge.enable", Boolean).default("true");
        /// Time without a heartbeat after which a member of a share group is removed.
        share_session_timeout_ms: i32 = key("share.session.timeout.ms", Int).default("45000").ms().at_least(1)
            .synonyms(from!("group.share.session.timeout.ms"));
        /// Minimum time between two assignments of a streams group (KIP-1071).
        streams_assignment_interval_ms: i32 = key("streams.assignment.interval.ms", Int).default("1000").ms()
            .at_least(0).accepted().synonyms(from!("group.streams.assignment.interval.ms"));
        /// Time between two heartbeats of a member of a streams group.
        streams_heartbeat_interval_ms: i32 = key("streams.heartbeat.interval.ms", Int).default("5000").ms().at_least(1)
            .accepted().synonyms(from!("group.streams.heartbeat.interval.ms"));
        /// Time for which a new streams group waits for further members before its first assignment.
        streams_initial_rebalance_delay_ms: i32 = key("streams.initial.rebalance.delay.ms", Int).default("3000").ms()
            .at_least(0).accepted().synonyms(from!("group.streams.initial.rebalance.delay.ms"));
        /// Number of standby copies of each task's state in a streams group.
        streams_num_standby_replicas: i32 = key("streams.num.standby.replicas", Int).default("0").count("replicas")
            .at_least(0).accepted().synonyms(from!("group.streams.num.standby.replicas"));
        /// Time without a heartbeat after which a member of a streams group is removed.
        streams_session_timeout_ms: i32 = key("streams.session.timeout.ms", Int).default("45000").ms().at_least(1)
            .accepted().synonyms(from!("group.streams.session.timeout.ms"));
    }
    with {}
}

/// Where a share group starts in a partition that it reads for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareOffsetReset {
    /// At the first record in the log.
    Earliest,
    /// At the end of the log, before the next record to be appended.
    Latest,
    /// At the first record that is at most this old. The duration is never negative.
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
                    format!("{duration} is not a non-negative ISO 8601 duration, such as PT1H30M or P7D")
                })
            }
            _ => Err("must be earliest, latest or by_duration:PnDTnHnMn.nS".to_owned()),
        }
    }
}

/// Parses days, hours, minutes and seconds in ISO 8601 form: what Java's `Duration.parse` accepts, except for
/// signs.
fn iso_duration(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let rest = upper.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        // A trailing T is an error.
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

/// Returns `number` times `seconds`. Only seconds may have a fraction, of up to nine digits.
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
