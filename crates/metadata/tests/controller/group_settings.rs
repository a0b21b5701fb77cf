//! Settings of groups: their effective values and the messages of refusals. A stored value never prevents a
//! start.

use std::collections::BTreeMap;
use std::time::Duration;

use tailrace_config::{ConfigSource, GroupIsolationLevel, ShareOffsetReset};
use tailrace_metadata::*;

struct Fixture(Controller);

impl Fixture {
    fn new(fixed: &[(&str, &str)]) -> Self {
        let fixed: BTreeMap<_, _> = fixed.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self(Controller::new(fixed).expect("legal"))
    }

    fn set(&mut self, group: &str, pairs: &[(&str, &str)]) -> Result<(), String> {
        let op = |(key, value): &(&str, &str)| ConfigOp {
            key: (*key).to_owned(),
            action: ConfigAction::Set,
            value: Some((*value).to_owned()),
        };
        self.alter(group, ConfigChange::Incremental(pairs.iter().map(op).collect()))
    }

    fn alter(&mut self, group: &str, change: ConfigChange) -> Result<(), String> {
        let command = Command::AlterGroupConfigs { group: group.to_owned(), change };
        for record in self.0.plan(&command).map_err(|error| error.to_string())? {
            self.0.apply(&record).expect("planned records apply");
        }
        Ok(())
    }

    fn delete(&mut self, group: &str, key: &str) {
        let op = ConfigOp { key: key.to_owned(), action: ConfigAction::Delete, value: None };
        self.alter(group, ConfigChange::Incremental(vec![op])).expect("deleting works");
    }
}

#[test]
fn a_groups_own_value_wins_and_other_groups_keep_theirs() {
    let mut fixture = Fixture::new(&[("group.share.session.timeout.ms", "46000")]);
    fixture
        .set("g", &[("share.record.lock.duration.ms", " 20000 "), ("consumer.session.timeout.ms", "50000")])
        .unwrap();
    fixture.set("g", &[("share.auto.offset.reset", "by_duration:P1DT1H")]).unwrap();
    fixture.set("g", &[("share.isolation.level", "read_committed")]).unwrap();
    let image = fixture.0.image();
    let config = image.group_config("g");
    assert_eq!((config.share_record_lock_duration_ms, config.consumer_session_timeout_ms), (20_000, 50_000));
    assert_eq!(config.share_auto_offset_reset, ShareOffsetReset::ByDuration(Duration::from_secs(90_000)));
    assert_eq!(config.share_isolation_level, GroupIsolationLevel::ReadCommitted);
    assert_eq!(config.share_session_timeout_ms, 46_000, "the broker's");
    let other = image.group_config("h");
    assert_eq!((other.share_record_lock_duration_ms, other.consumer_session_timeout_ms), (30_000, 45_000));
    assert_eq!(image.configured_groups().map(|(group, _)| group).collect::<Vec<_>>(), ["g"]);

    let described = image.describe_group("g");
    let lock = described.iter().find(|entry| entry.name == "share.record.lock.duration.ms").unwrap();
    assert_eq!((lock.value.as_deref(), lock.source), (Some("20000"), ConfigSource::DynamicGroup));
    let places = lock.synonyms.iter().map(|s| (s.name, s.value.as_deref().unwrap(), s.source));
    assert_eq!(
        places.collect::<Vec<_>>(),
        [
            ("share.record.lock.duration.ms", "20000", ConfigSource::DynamicGroup),
            ("group.share.record.lock.duration.ms", "30000", ConfigSource::Default)
        ]
    );
    let session = described.iter().find(|entry| entry.name == "share.session.timeout.ms").unwrap();
    assert_eq!((session.value.as_deref(), session.source), (Some("46000"), ConfigSource::StaticBroker));

    fixture
        .alter(
            "g",
            ConfigChange::Replace(vec![("share.delivery.count.limit".to_owned(), Some("9".to_owned()))]),
        )
        .unwrap();
    assert_eq!(fixture.0.image().group_config("g").share_record_lock_duration_ms, 30_000);
    fixture.delete("g", "share.delivery.count.limit");
    assert_eq!(fixture.0.image().configured_groups().len(), 0, "nothing is left of it");
}

#[test]
fn what_is_refused() {
    let mut fixture = Fixture::new(&[]);
    let before = fixture.0.image();
    for (key, value, words) in [
        ("nope", "1", "Unknown group config name: nope"),
        (
            "share.session.timeout",
            "1",
            "Unknown group config name: share.session.timeout (did you mean share.session.timeout.ms?)",
        ),
        ("retention.ms", "1", "Unknown group config name: retention.ms (it is a topic config)"),
        (
            "group.share.session.timeout.ms",
            "1",
            "Unknown group config name: group.share.session.timeout.ms (did you mean share.session.timeout.ms?)",
        ),
        (
            "consumer.session.timeout.ms",
            "x",
            "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
        (
            "consumer.session.timeout.ms",
            "1",
            "consumer.session.timeout.ms=1 does not fit group.consumer.min.session.timeout.ms=45000: the value must not be below that bound",
        ),
        (
            "consumer.session.timeout.ms",
            "60001",
            "consumer.session.timeout.ms=60001 does not fit group.consumer.max.session.timeout.ms=60000: the value must not be above that bound",
        ),
        (
            "share.partition.max.record.locks",
            "99",
            "Invalid value 99 for configuration share.partition.max.record.locks: Value must be at least 100",
        ),
        (
            "share.partition.max.record.locks",
            "4001",
            "share.partition.max.record.locks=4001 does not fit group.share.max.partition.max.record.locks=4000: the value must not be above that bound",
        ),
        (
            "streams.num.standby.replicas",
            "3",
            "streams.num.standby.replicas=3 does not fit group.streams.max.standby.replicas=2: the value must not be above that bound",
        ),
        (
            "share.auto.offset.reset",
            "none",
            "Invalid value none for configuration share.auto.offset.reset: must be earliest, latest or by_duration:PnDTnHnMn.nS",
        ),
        (
            "share.auto.offset.reset",
            "by_duration:-PT1S",
            "Invalid value by_duration:-PT1S for configuration share.auto.offset.reset: -PT1S is not a non-negative ISO 8601 duration, such as PT1H30M or P7D",
        ),
        (
            "share.isolation.level",
            "READ_COMMITTED",
            "Invalid value READ_COMMITTED for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted",
        ),
        (
            "share.renew.acknowledge.enable",
            "1",
            "Invalid value 1 for configuration share.renew.acknowledge.enable: Expected value to be either true or false",
        ),
    ] {
        assert_eq!(fixture.set("g", &[(key, value)]), Err(words.to_owned()));
    }
    assert_eq!(
        fixture.set("", &[("share.renew.acknowledge.enable", "true")]),
        Err("Default group resources are not allowed.".to_owned())
    );
    let long = "g".repeat(GROUP_ID_BYTES_MAX + 1);
    assert!(fixture.set(&long, &[("share.renew.acknowledge.enable", "true")]).unwrap_err().contains("1025"));
    fixture.set(&long[1..], &[("nope", "1")]).unwrap_err();
    assert_eq!(before, fixture.0.image(), "a refusal changes nothing");
    fixture.set(&long[1..], &[("share.renew.acknowledge.enable", "true")]).unwrap();
}

#[test]
fn a_session_is_longer_than_the_time_between_heartbeats() {
    let wide = [("group.share.min.session.timeout.ms", "1"), ("group.share.min.heartbeat.interval.ms", "1")];
    let mut fixture = Fixture::new(&wide);
    fixture.set("g", &[("share.session.timeout.ms", "6000")]).unwrap();
    let refused = fixture.set("g", &[("share.heartbeat.interval.ms", "6000")]).unwrap_err();
    assert!(refused.contains("longer than the time between two heartbeats"), "{refused}");
    fixture.set("g", &[("share.heartbeat.interval.ms", "5999")]).unwrap();
    let refused = |fixed: &[(&str, &str)]| {
        let fixed = fixed.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Controller::new(fixed).unwrap_err().to_string()
    };
    assert!(refused(&[wide[0], ("group.share.session.timeout.ms", "4000")]).contains("heartbeats"));
    assert_eq!(
        refused(&[("group.consumer.session.timeout.ms", "44999")]),
        "group.consumer.session.timeout.ms=44999 does not fit group.consumer.min.session.timeout.ms=45000: the value must not be below that bound"
    );
    let bounds = [
        ("group.consumer.min.heartbeat.interval.ms", "6"),
        ("group.consumer.max.heartbeat.interval.ms", "5"),
    ];
    assert!(refused(&bounds).contains("the lower bound must not exceed the upper one"));
}

#[test]
fn values_that_narrower_bounds_forbid_are_moved_into_them_and_start_all_the_same() {
    let mut wide = Fixture::new(&[]);
    wide.set("g", &[("consumer.session.timeout.ms", "60000"), ("share.delivery.count.limit", "10")]).unwrap();
    let records = wide.0.snapshot_records();
    let mut narrow = Fixture::new(&[
        ("group.consumer.max.session.timeout.ms", "50000"),
        ("group.share.max.delivery.count.limit", "7"),
    ]);
    for record in &records {
        narrow.0.apply(record).expect("stored settings never keep a server from starting");
    }
    let config = narrow.0.image().group_config("g");
    assert_eq!((config.consumer_session_timeout_ms, config.share_delivery_count_limit), (50_000, 7));
    let described = narrow.0.image().describe_group("g");
    let session = described.iter().find(|entry| entry.name == "consumer.session.timeout.ms").unwrap();
    assert_eq!(session.value.as_deref(), Some("50000"));
    assert_eq!(session.synonyms[0].value.as_deref(), Some("60000"), "what was set");
    // The next change must correct the value.
    assert!(narrow.set("g", &[("share.delivery.count.limit", "6")]).unwrap_err().contains("60000"));
}

#[test]
fn the_number_of_groups_with_settings_is_bounded() {
    let mut fixture = Fixture::new(&[]);
    for number in 0..GROUPS_CONFIGURED_MAX {
        let configs = BTreeMap::from([("share.delivery.count.limit".to_owned(), "3".to_owned())]);
        fixture.0.apply(&MetadataRecord::GroupConfigs { group: number.to_string(), configs }).unwrap();
    }
    let refused = fixture.set("one more", &[("share.delivery.count.limit", "3")]).unwrap_err();
    assert!(refused.contains("10000 groups have their own settings already"), "{refused}");
    fixture.set("0", &[("share.delivery.count.limit", "4")]).unwrap();
    fixture.delete("0", "share.delivery.count.limit");
    fixture.set("one more", &[("share.delivery.count.limit", "3")]).unwrap();
}
