//! Replaying the metadata log, or a snapshot of it, leads to the image that was live when it was written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailrace_broker::*;
use tailrace_types::{NodeId, TimestampMs, TopicId};

/// Few names and values, so that commands meet; some collide, some are illegal.
const NAMES: &[&str] = &["a", "a.b", "a_b", "c", "d-e", "..", "__consumer_offsets"];
const SETTINGS: &[(&str, &str)] = &[
    ("retention.ms", "5"),
    ("retention.ms", "x"),
    ("flush.messages", " 9 "),
    ("cleanup.policy", "delete"),
    ("cleanup.policy", "compact"),
    ("min.compaction.lag.ms", "1"),
    ("min.compaction.lag.ms", "8"),
    ("max.compaction.lag.ms", "7"),
    ("log.cleaner.max.compaction.lag.ms", "7"),
    ("max.connections", "5"),
    ("log.retention.ms", "77"),
    ("share.delivery.count.limit", "7"),
    ("share.session.timeout.ms", "50000"),
    ("nope", "1"),
];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES).prop_map(str::to_owned)
}

fn requester() -> impl Strategy<Value = Requester> {
    prop_oneof![4 => Just(Requester::Client), 1 => Just(Requester::Broker)]
}

fn pair() -> impl Strategy<Value = (String, Option<String>)> {
    (prop::sample::select(SETTINGS), prop::bool::weighted(0.95))
        .prop_map(|((key, value), given)| (key.to_owned(), given.then(|| value.to_owned())))
}

fn change() -> impl Strategy<Value = ConfigChange> {
    let op = (pair(), 0..4_i8).prop_map(|((key, value), code)| ConfigOp {
        key,
        value,
        action: ConfigAction::from_code(code).expect("0 to 3"),
    });
    prop_oneof![
        prop::collection::vec(pair(), 0..3).prop_map(ConfigChange::Replace),
        prop::collection::vec(op, 0..3).prop_map(ConfigChange::Incremental),
    ]
}

fn create() -> impl Strategy<Value = Command> {
    (name(), 1..20_u8, -1..4_i32, -1..2_i16, prop::collection::vec(pair(), 0..2), requester()).prop_map(
        |(name, id, partitions, replication_factor, configs, by)| {
            let (id, now) = (TopicId([id; 16]), TimestampMs(i64::from(id)));
            Command::CreateTopic(CreateTopic { name, id, partitions, replication_factor, configs, now, by })
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    let reference = prop_oneof![
        name().prop_map(TopicRef::Name),
        (1..20_u8).prop_map(|id| TopicRef::Id(TopicId([id; 16]))),
    ];
    let scope = prop_oneof![
        Just(BrokerScope::Cluster),
        Just(BrokerScope::Node(NodeId(1))),
        Just(BrokerScope::Node(NodeId(2)))
    ];
    prop_oneof![
        5 => create(),
        2 => (reference, requester()).prop_map(|(topic, by)| Command::DeleteTopic { topic, by }),
        2 => (name(), 0..9_i32, requester())
            .prop_map(|(topic, count, by)| Command::CreatePartitions { topic, count, by }),
        3 => (name(), change()).prop_map(|(topic, change)| Command::AlterTopicConfigs { topic, change }),
        3 => (scope, change()).prop_map(|(scope, change)| Command::AlterBrokerConfigs { scope, change }),
        3 => (prop::sample::select(&["", "g", "h"][..]), change())
            .prop_map(|(group, change)| Command::AlterGroupConfigs { group: group.to_owned(), change }),
        1 => Just(Command::FinalizeFeatures),
        2 => (prop::sample::select(&["group.version", "metadata.version", "nope"][..]), -1..3_i16, any::<bool>())
            .prop_map(|(name, level, up)| Command::UpdateFeatures(vec![FeatureUpdate {
                name: name.to_owned(),
                level,
                direction: if up { FeatureDirection::Upgrade } else { FeatureDirection::SafeDowngrade },
            }])),
        1 => Just(Command::AllocateProducerIds),
    ]
}

fn fixed() -> BTreeMap<String, String> {
    BTreeMap::from([("tailrace.partitions.max".to_owned(), "12".to_owned())])
}

fn replay<'a>(log: impl IntoIterator<Item = &'a Vec<u8>>) -> Controller {
    let mut controller = Controller::new(fixed()).expect("legal");
    for bytes in log {
        let record = MetadataRecord::decode(bytes).expect("was encoded");
        controller.apply(&record).expect("was applied before");
    }
    controller
}

/// What must hold in every image.
fn check(image: &MetadataImage) {
    assert_eq!(
        image.partition_count(),
        image.topics().map(|t| t.partitions.unsigned_abs() as u64).sum::<u64>()
    );
    assert!(image.partition_count() <= 12);
    let topics: Vec<_> = image.topics().collect();
    for (i, topic) in topics.iter().enumerate() {
        assert_eq!(image.topic_by_id(topic.id), Some(*topic));
        assert!(topics[..i].iter().all(|other| !other.name.collides_with(&topic.name)));
        let resolved = config::TopicConfig::resolve(&topic.overrides, image.broker()).expect("legal");
        assert_eq!(*topic.config, resolved);
        assert!(image.describe_topic(topic.name.as_str()).is_some());
    }
    assert_eq!(image.topics_from("b").count(), topics.iter().filter(|t| t.name.as_str() >= "b").count());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn log_and_snapshot_lead_to_the_live_image(commands in prop::collection::vec(command(), 0..40)) {
        let mut live = Controller::new(fixed()).expect("legal");
        let mut log = Vec::new();
        for command in &commands {
            let before = live.image();
            match live.plan(command) {
                Ok(records) => {
                    prop_assert_eq!(&live.plan(command), &Ok(records.clone()), "planning changes nothing");
                    for record in records {
                        let bytes = record.encode();
                        prop_assert_eq!(MetadataRecord::decode(&bytes), Ok(record.clone()));
                        live.apply(&record).expect("planned records apply");
                        log.push(bytes);
                    }
                }
                Err(_) => prop_assert_eq!(&before, &live.image()),
            }
            check(&live.image());
        }
        prop_assert_eq!(live.image(), replay(&log).image());
        let snapshot: Vec<Vec<u8>> = live.snapshot_records().iter().map(MetadataRecord::encode).collect();
        prop_assert_eq!(live.image(), replay(&snapshot).image());
        prop_assert_eq!(replay(&snapshot).snapshot_records(), live.snapshot_records());
    }

    #[test]
    fn damaged_records_are_errors_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        prop_assert!(MetadataRecord::decode(&bytes).is_err());
    }
}

#[test]
fn the_encoding_is_fixed() {
    let id = TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    let configs = BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]);
    let cases = [
        (
            MetadataRecord::TopicCreated {
                name: "orders".parse().unwrap(),
                id,
                partitions: 3,
                replication_factor: 1,
                created_at: TimestampMs(9),
                configs: configs.clone(),
            },
            r#"{"version":1,"type":"topic-created","name":"orders","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":3,"replication_factor":1,"created_at":9,"configs":{"retention.ms":"5"}}"#,
        ),
        (
            MetadataRecord::TopicDeleted { id },
            r#"{"version":1,"type":"topic-deleted","id":"AQIDBAUGBwgJCgsMDQ4PEA"}"#,
        ),
        (
            MetadataRecord::PartitionsAdded { id, partitions: 4 },
            r#"{"version":1,"type":"partitions-added","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":4}"#,
        ),
        (
            MetadataRecord::TopicConfigs { id, configs: configs.clone() },
            r#"{"version":1,"type":"topic-configs","id":"AQIDBAUGBwgJCgsMDQ4PEA","configs":{"retention.ms":"5"}}"#,
        ),
        (
            MetadataRecord::BrokerConfigs {
                cluster: BTreeMap::new(),
                nodes: BTreeMap::from([(NodeId(1), configs.clone())]),
            },
            r#"{"version":1,"type":"broker-configs","cluster":{},"nodes":[{"node":1,"configs":{"retention.ms":"5"}}]}"#,
        ),
        (
            MetadataRecord::ProducerIds { first: 0.into(), next: 1000.into() },
            r#"{"version":1,"type":"producer-ids","first":0,"next":1000}"#,
        ),
        (
            MetadataRecord::GroupConfigs {
                group: "g".to_owned(),
                configs: BTreeMap::from([("share.auto.offset.reset".to_owned(), "earliest".to_owned())]),
            },
            r#"{"version":2,"type":"group-configs","group":"g","configs":{"share.auto.offset.reset":"earliest"}}"#,
        ),
        (
            MetadataRecord::Features {
                epoch: 3,
                levels: BTreeMap::from([("transaction.version".to_owned(), 2)]),
            },
            r#"{"version":2,"type":"features","epoch":3,"levels":{"transaction.version":2}}"#,
        ),
    ];
    for (record, text) in cases {
        assert_eq!(String::from_utf8(record.encode()).unwrap(), text);
        assert_eq!(MetadataRecord::decode(text.as_bytes()), Ok(record));
    }
}

#[test]
fn a_newer_version_is_named_beside_ours() {
    let newer = br#"{"version":3,"type":"something-new","x":[1,2]}"#;
    assert_eq!(
        MetadataRecord::decode(newer).unwrap_err().to_string(),
        "metadata record has version 3, this build reads up to 2; start a newer tailrace"
    );
    let damaged: &[&[u8]] = &[
        b"",
        b"{}",
        br#"{"version":0,"type":"producer-ids","first":0,"next":1}"#,
        br#"{"version":-1}"#,
        br#"{"version":1,"type":"something-new"}"#,
        br#"{"version":1,"type":"topic-deleted","id":"short"}"#,
        br#"{"version":1,"type":"topic-created","name":"a/b","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":1,"replication_factor":1,"created_at":0,"configs":{}}"#,
        br#"{"version":1,"type":"topic-deleted","id":"AQIDBAUGBwgJCgsMDQ4PEA"} x"#,
    ];
    for bytes in damaged {
        let error = MetadataRecord::decode(bytes).unwrap_err().to_string();
        assert!(error.starts_with("metadata record cannot be read: "), "{error}");
    }
}
