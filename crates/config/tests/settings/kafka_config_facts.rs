//! Where tailrace has one of Kafka's settings, it has Kafka's name, type, default, synonyms and legal values.
//! Differences are listed here, each with its reason. The facts under `data/` were taken from Apache Kafka
//! 4.3.1.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_config::{
    BrokerConfig, ConfigSource, DynamicConfigs, TopicConfig, Value, broker_key, describe_group,
    describe_topic, group_key, topic_key, topic_keys,
};

const TOPIC_CONFIGS: &str = include_str!("../data/kafka-topic-configs.txt");
const GROUP_CONFIGS: &str = include_str!("../data/kafka-group-configs.txt");
const BROKER_CONFIGS: &str = include_str!("../data/kafka-broker-configs.txt");
const TOPIC_VALUES: &str = include_str!("../data/kafka-topic-values.txt");

fn rows<const N: usize>(text: &'static str) -> Vec<[&'static str; N]> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('|').collect::<Vec<_>>().try_into().expect("as many columns as the head says"))
        .collect()
}

fn defaults() -> BrokerConfig {
    BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).expect("the defaults are legal")
}

#[test]
fn topics_have_exactly_kafkas_settings_and_our_own() {
    let kafka: BTreeSet<&str> = rows::<4>(TOPIC_CONFIGS).iter().map(|row| row[0]).collect();
    let ours = topic_keys().iter().filter(|key| !key.internal && !key.name.starts_with("tailrace."));
    assert_eq!(ours.map(|key| key.name).collect::<BTreeSet<_>>(), kafka);
}

#[test]
fn topic_settings_are_described_as_kafka_describes_them() {
    let described = describe_topic(&BTreeMap::new(), &defaults()).unwrap();
    for [name, kind, value, synonyms] in rows::<4>(TOPIC_CONFIGS) {
        let ours = described.iter().find(|entry| entry.name == name).unwrap();
        // tailrace is strictly durable by default.
        let expected = if name == "flush.messages" { "1" } else { value };
        assert_eq!(ours.value.as_deref(), Some(expected), "{name}");
        assert_eq!(ours.kind.code().to_string(), kind, "{name}");
        assert_eq!(ours.source, ConfigSource::Default, "{name}");
        assert!(!ours.read_only && !ours.sensitive, "{name}");
        let shown = ours.synonyms.iter().map(|s| format!("{}={}", s.name, s.value.clone().unwrap()));
        let expected = synonyms
            .replace("log.flush.interval.messages=9223372036854775807", "log.flush.interval.messages=1");
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{name}");
    }
}

#[test]
fn groups_have_exactly_kafkas_settings_described_as_kafka_describes_them() {
    let described = describe_group(&BTreeMap::new(), &defaults()).unwrap();
    let rows = rows::<5>(GROUP_CONFIGS);
    let names = described.iter().map(|entry| entry.name);
    assert_eq!(names.collect::<Vec<_>>(), rows.iter().map(|row| row[0]).collect::<Vec<_>>());
    for ([name, kind, value, least, synonym], ours) in rows.into_iter().zip(described) {
        assert_eq!(ours.value.as_deref(), Some(value), "{name}");
        assert_eq!(ours.kind.code().to_string(), kind, "{name}");
        assert_eq!(ours.source, ConfigSource::Default, "{name}");
        assert!(!ours.read_only && !ours.sensitive, "{name}");
        let shown = ours.synonyms.iter().map(|s| format!("{}={}", s.name, s.value.clone().unwrap()));
        assert_eq!(shown.collect::<Vec<_>>(), [synonym], "{name}");
        if let Ok(least) = least.parse::<i64>() {
            let key = group_key(name).unwrap();
            assert_eq!(key.parse(&least.to_string()), Ok(Value::Number(least)), "{name}");
            let error = key.parse(&(least - 1).to_string()).unwrap_err().to_string();
            assert!(error.ends_with(&format!("Value must be at least {least}")), "{error}");
        }
    }
}

#[test]
fn broker_settings_have_kafkas_types_and_defaults_and_change_when_kafkas_do() {
    let differing = BTreeMap::from([
        // tailrace is strictly durable by default.
        ("log.flush.interval.messages", "1"),
        // Nothing is unbounded.
        ("max.connections", "10000"),
        ("max.connections.per.ip", "10000"),
        ("queued.max.request.bytes", "104857600"),
        // Kafka has no default. A standalone server needs none.
        ("node.id", "1"),
    ]);
    for [name, kind, default, change] in rows::<4>(BROKER_CONFIGS) {
        let key = broker_key(name).unwrap();
        let expected = differing.get(name).copied().unwrap_or(default);
        assert_eq!(key.default_value().text().as_deref().unwrap_or("-"), expected, "{name}");
        assert_eq!(key.kind.code().to_string(), kind, "{name}");
        assert_eq!(key.dynamic, change == "dynamic", "{name}");
    }
}

#[test]
fn topic_settings_take_the_values_that_kafka_takes() {
    for [name, value, verdict, shown] in rows::<4>(TOPIC_VALUES) {
        let parsed = topic_key(name).unwrap().parse(value);
        let lower = value.trim().to_ascii_lowercase();
        let not_yet = name.starts_with("remote.") && lower == "true";
        match verdict {
            "ok" if not_yet => {
                let error = parsed.unwrap_err().to_string();
                assert!(error.contains("is not supported yet; use"), "{name}={value:?}: {error}");
            }
            "ok" => {
                assert_eq!(parsed.map(|v| v.to_string()), Ok(shown.to_owned()), "{name}={value:?}");
                // A legal value must also fit the typed field.
                let overrides = BTreeMap::from([(name.to_owned(), value.to_owned())]);
                let resolved = TopicConfig::resolve(&overrides, &defaults());
                let lag_too_long = name == "min.compaction.lag.ms";
                assert!(resolved.is_ok() || lag_too_long, "{name}={value:?}: {resolved:?}");
            }
            _ => assert!(parsed.is_err(), "{name}={value:?} must be refused, was read as {parsed:?}"),
        }
    }
}

#[test]
fn refusals_read_as_kafkas_do() {
    let refusal = |name: &str, value: &str| topic_key(name).unwrap().parse(value).unwrap_err().to_string();
    let cases = [
        (
            "retention.ms",
            "abc",
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "max.message.bytes",
            "2147483648",
            "Invalid value 2147483648 for configuration max.message.bytes: Not a number of type INT",
        ),
        (
            "segment.bytes",
            "13",
            "Invalid value 13 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            "compression.zstd.level",
            "23",
            "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22",
        ),
        (
            "compression.gzip.level",
            "10",
            "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "preallocate",
            "maybe",
            "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "remote.storage.enable",
            "true",
            "Invalid value true for configuration remote.storage.enable: true is not supported yet; use false instead",
        ),
    ];
    for (name, value, expected) in cases {
        assert_eq!(refusal(name, value), expected);
    }
    let unknown = topic_key("message.format.version").unwrap_err().to_string();
    assert_eq!(unknown, "Unknown topic config name: message.format.version");
}

#[test]
fn codes_and_names_of_sources_are_kafkas() {
    assert_eq!(ConfigSource::DynamicTopic as i8, 1);
    assert_eq!(ConfigSource::Default as i8, 5);
    assert_eq!(ConfigSource::StaticBroker.name(), "STATIC_BROKER_CONFIG");
    assert_eq!(Value::Double(1.0).to_string(), "1.0");
}
