//! The commands that the controller refuses, with the messages that clients see. A refusal changes nothing.

use std::collections::BTreeMap;

use tailrace_identity::acl::AUDIT_TOPIC;
use tailrace_metadata::*;
use tailrace_types::{NodeId, PartitionId, ProducerId, TimestampMs, TopicId, TopicName};

struct Fixture {
    controller: Controller,
    ids: u8,
}

impl Fixture {
    fn new(fixed: &[(&str, &str)]) -> Self {
        let fixed: BTreeMap<_, _> = fixed.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self { controller: Controller::new(fixed).expect("legal"), ids: 0 }
    }

    fn create(&mut self, name: &str) -> CreateTopic {
        self.ids += 1;
        CreateTopic::with_defaults(name, TopicId([self.ids; 16]), TimestampMs(1), Requester::Client)
    }

    fn run(&mut self, command: &Command) -> Result<(), ControlError> {
        for record in self.controller.plan(command)? {
            self.controller.apply(&record).expect("planned records apply");
        }
        Ok(())
    }

    fn refusal(&mut self, command: &Command) -> String {
        let before = self.controller.image();
        let error = self.run(command).expect_err("must be refused");
        assert_eq!(before, self.controller.image(), "a refusal changes nothing");
        error.to_string()
    }

    fn has(&mut self, name: &str) -> TopicId {
        let create = self.create(name);
        let id = create.id;
        self.run(&Command::CreateTopic(create)).expect("legal");
        id
    }

    fn refused_creation(&mut self, name: &str, edit: impl FnOnce(&mut CreateTopic)) -> String {
        let mut create = self.create(name);
        edit(&mut create);
        self.refusal(&Command::CreateTopic(create))
    }
}

fn set(key: &str, value: &str) -> ConfigOp {
    ConfigOp { key: key.to_owned(), action: ConfigAction::Set, value: Some(value.to_owned()) }
}

fn op(key: &str, action: ConfigAction, value: Option<&str>) -> ConfigOp {
    ConfigOp { key: key.to_owned(), action, value: value.map(str::to_owned) }
}

fn alter(topic: &str, ops: &[ConfigOp]) -> Command {
    Command::AlterTopicConfigs { topic: topic.to_owned(), change: ConfigChange::Incremental(ops.to_vec()) }
}

fn replace(topic: &str, pairs: &[(&str, Option<&str>)]) -> Command {
    let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), v.map(str::to_owned))).collect();
    Command::AlterTopicConfigs { topic: topic.to_owned(), change: ConfigChange::Replace(pairs) }
}

fn alter_broker(scope: BrokerScope, ops: &[ConfigOp]) -> Command {
    Command::AlterBrokerConfigs { scope, change: ConfigChange::Incremental(ops.to_vec()) }
}

fn delete(name: &str) -> Command {
    Command::DeleteTopic { topic: TopicRef::Name(name.to_owned()), by: Requester::Client }
}

fn partitions(topic: &str, count: i32) -> Command {
    Command::CreatePartitions { topic: topic.to_owned(), count, assignment: None, by: Requester::Client }
}

#[test]
fn names() {
    let mut f = Fixture::new(&[]);
    f.has("a.b");
    assert_eq!(f.refused_creation("a.b", |_| {}), "Topic 'a.b' already exists.");
    assert_eq!(
        f.refused_creation("a_b", |_| {}),
        "Topic 'a_b' collides with existing topic: a.b; names must differ in more than '.' and '_'"
    );
    for name in ["", ".", "..", "a/b", "a b", "ü", &"x".repeat(250)] {
        let text = f.refused_creation(name, |_| {});
        assert!(text.starts_with("Topic name is invalid: "), "{text}");
    }
    f.has(&"x".repeat(249));
    f.run(&delete("a.b")).unwrap();
    f.has("a_b");
}

#[test]
fn internal_topics() {
    let mut f = Fixture::new(&[]);
    for name in
        [METADATA_TOPIC, CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, JETSTREAM_STATE_TOPIC, AUDIT_TOPIC]
    {
        let words = format!("Topic '{name}' is internal: clients may neither create, delete nor extend it.");
        assert_eq!(f.refused_creation(name, |_| {}), words);
        let mut create = f.create(name);
        create.by = Requester::Broker;
        f.run(&Command::CreateTopic(create)).unwrap();
        assert!(f.controller.image().topic(name).unwrap().is_internal());
        assert_eq!(f.refusal(&delete(name)), words);
        assert_eq!(f.refusal(&partitions(name, 5)), words);
    }
}

#[test]
fn only_the_retention_of_the_audit_log_can_be_changed() {
    let mut f = Fixture::new(&[]);
    let mut create = f.create(AUDIT_TOPIC);
    create.by = Requester::Broker;
    f.run(&Command::CreateTopic(create)).unwrap();
    let alter = |key: &str, value: &str| Command::AlterTopicConfigs {
        topic: AUDIT_TOPIC.to_owned(),
        change: ConfigChange::Incremental(vec![ConfigOp {
            key: key.to_owned(),
            action: ConfigAction::Set,
            value: Some(value.to_owned()),
        }]),
    };
    for (key, value) in [("retention.ms", "60000"), ("retention.bytes", "1000000")] {
        f.run(&alter(key, value)).unwrap();
    }
    for (key, value) in [
        ("cleanup.policy", "compact"),
        ("max.message.bytes", "100"),
        ("min.insync.replicas", "3"),
        ("tailrace.subjects", "a.>"),
    ] {
        let words = format!(
            "the setting '{key}' of the topic of the audit log cannot be changed: only its retention can"
        );
        assert_eq!(f.refusal(&alter(key, value)), words);
    }
    // Nor by a list of all settings that leaves out one.
    let pairs = vec![("cleanup.policy".to_owned(), Some("compact".to_owned()))];
    let replace =
        Command::AlterTopicConfigs { topic: AUDIT_TOPIC.to_owned(), change: ConfigChange::Replace(pairs) };
    assert!(f.refusal(&replace).contains("'cleanup.policy'"));
}

#[test]
fn ids() {
    let mut f = Fixture::new(&[]);
    let id = f.has("a");
    assert_eq!(
        f.refused_creation("b", |create| create.id = id),
        format!("The topic id {id} is zero or in use.")
    );
    assert!(f.refused_creation("b", |create| create.id = TopicId::ZERO).contains("is zero or in use"));
    f.run(&delete("a")).unwrap();
    let stale = Command::DeleteTopic { topic: TopicRef::Id(id), by: Requester::Client };
    assert_eq!(f.refusal(&stale), format!("There is no topic with the id {id}."));
    assert_eq!(f.refusal(&delete("a")), "The topic 'a' does not exist.");
    let second = f.has("a");
    assert_ne!(second, id);
    assert!(f.controller.image().topic_by_id(id).is_none());
    f.run(&Command::DeleteTopic { topic: TopicRef::Id(second), by: Requester::Client }).unwrap();
    assert_eq!(f.controller.image().topics().len(), 0);
}

#[test]
fn numbers_of_partitions() {
    let limits =
        [("num.partitions", "3"), ("tailrace.topic.partitions.max", "6"), ("tailrace.partitions.max", "8")];
    let mut f = Fixture::new(&limits);
    for found in [0, -2, i32::MIN] {
        let text = f.refused_creation("a", |create| create.partitions = found);
        assert!(text.starts_with("Number of partitions was set to an invalid non-positive value"), "{text}");
    }
    let too_many = "7 partitions are more than tailrace.topic.partitions.max allows: 6; \
        ask for fewer or raise tailrace.topic.partitions.max.";
    assert_eq!(f.refused_creation("a", |create| create.partitions = 7), too_many);
    assert!(f.refused_creation("a", |create| create.partitions = i32::MAX).contains("2147483647 partitions"));
    f.has("a");
    assert_eq!(f.controller.image().topic("a").unwrap().partitions, 3);
    assert_eq!(f.refusal(&partitions("a", 3)), "Topic already has 3 partition(s).");
    for count in [2, 0, -1] {
        let expected = format!("The topic a currently has 3 partition(s); {count} would not be an increase.");
        assert_eq!(f.refusal(&partitions("a", count)), expected);
    }
    assert_eq!(f.refusal(&partitions("a", 7)), too_many);
    assert_eq!(f.refusal(&partitions("b", 7)), "The topic 'b' does not exist.");
    f.run(&partitions("a", 6)).unwrap();
    let text = f.refused_creation("b", |_| {});
    assert!(text.starts_with("9 partitions are more than tailrace.partitions.max allows: 8"), "{text}");
    let image = f.controller.image();
    let topic = image.topic("a").unwrap();
    assert!(topic.has_partition(PartitionId(5)) && !topic.has_partition(PartitionId(6)));
    assert!(!topic.has_partition(PartitionId(-1)));
    assert_eq!(topic.topic_partitions().count(), 6);
}

#[test]
fn numbers_of_replicas() {
    let mut f = Fixture::new(&[]);
    for found in [0, -2] {
        let text = f.refused_creation("a", |create| create.replication_factor = found);
        assert_eq!(
            text,
            format!(
                "Replication factor must be larger than 0, or -1 to use the default value; found {found}."
            )
        );
    }
    let text = f.refused_creation("a", |create| create.replication_factor = 3);
    assert!(text.starts_with("Unable to replicate the partition 3 time(s)"), "{text}");
    let mut f = Fixture::new(&[("default.replication.factor", "2")]);
    let text = f.refused_creation("a", |_| {});
    assert!(text.contains("only 1 broker(s) are registered"), "{text}");
}

#[test]
fn settings_of_a_new_topic() {
    let mut f = Fixture::new(&[]);
    let mut with = |key: &str, value: Option<&str>| {
        let pair = (key.to_owned(), value.map(str::to_owned));
        f.refused_creation("a", |create| create.configs.push(pair))
    };
    assert_eq!(with("no.such.config", Some("1")), "Unknown topic config name: no.such.config");
    assert_eq!(
        with(" retention.ms", Some("1")),
        "Unknown topic config name:  retention.ms (did you mean retention.ms?)"
    );
    assert_eq!(with("retention.ms", None), "Null value not supported for topic configs: retention.ms");
    assert!(with("retention.ms", Some("")).contains("Not a number of type LONG"));
    assert!(with("remote.storage.enable", Some("true")).contains("not supported yet"));
    // If a key appears twice, the last value counts. Values are trimmed.
    let mut create = f.create("a");
    for value in ["x", " 5 "] {
        create.configs.push(("retention.ms".to_owned(), Some(value.to_owned())));
    }
    create.configs.remove(0);
    create.configs.insert(0, ("retention.ms".to_owned(), Some("9".to_owned())));
    f.run(&Command::CreateTopic(create)).unwrap();
    let image = f.controller.image();
    let topic = image.topic("a").unwrap();
    assert_eq!(topic.overrides["retention.ms"], "5");
    assert_eq!(topic.config.retention_ms, Some(5));
}

#[test]
fn changes_of_a_topics_settings() {
    let mut f = Fixture::new(&[]);
    f.has("a");
    assert_eq!(f.refusal(&alter("b", &[])), "The topic 'b' does not exist.");
    assert_eq!(f.refusal(&alter("a", &[set("nope", "1")])), "Unknown topic config name: nope");
    assert_eq!(
        f.refusal(&alter("a", &[op("retention.ms", ConfigAction::Append, Some("1"))])),
        "Can't APPEND to key retention.ms because its type is not LIST."
    );
    assert_eq!(
        f.refusal(&alter("a", &[op("retention.ms", ConfigAction::Subtract, Some("1"))])),
        "Can't SUBTRACT to key retention.ms because its type is not LIST."
    );
    assert_eq!(
        f.refusal(&alter("a", &[op("retention.ms", ConfigAction::Set, None)])),
        "Null value not supported for : retention.ms"
    );
    assert_eq!(
        f.refusal(&alter("a", &[set("flush.ms", "1"), op("flush.ms", ConfigAction::Delete, None)])),
        "Error due to duplicate config keys: flush.ms"
    );
    assert_eq!(
        f.refusal(&alter("a", &[set("flush.ms", "1"), set("retention.ms", "x")])),
        "Invalid value x for configuration retention.ms: Not a number of type LONG"
    );
    assert!(
        f.refusal(&alter("a", &[op("cleanup.policy", ConfigAction::Append, Some("shrink"))]))
            .contains("Invalid value delete,shrink for configuration cleanup.policy: String must be one of")
    );
    assert_eq!(f.refusal(&replace("a", &[("flush.ms", None)])), "Null value not supported for : flush.ms");
    assert_eq!(
        f.refusal(&alter("a", &[set("min.compaction.lag.ms", "2"), set("max.compaction.lag.ms", "1")])),
        "min.compaction.lag.ms=2 does not fit max.compaction.lag.ms=1: the shortest lag must not exceed the longest"
    );
}

#[test]
fn settings_are_set_removed_extended_and_replaced() {
    let mut f = Fixture::new(&[]);
    f.has("a");
    let throttled = "leader.replication.throttled.replicas";
    let overrides = |f: &Fixture| f.controller.image().topic("a").unwrap().overrides.clone();
    f.run(&alter("a", &[set("flush.ms", "7"), op(throttled, ConfigAction::Append, Some("0:1, 1:1"))]))
        .unwrap();
    f.run(&alter("a", &[op(throttled, ConfigAction::Append, Some("1:1,2:1"))])).unwrap();
    assert_eq!(overrides(&f)[throttled], "0:1,1:1,2:1");
    f.run(&alter("a", &[op(throttled, ConfigAction::Subtract, Some("0:1,9:9"))])).unwrap();
    assert_eq!(overrides(&f)[throttled], "1:1,2:1");
    // A list that is not set is edited from its default.
    f.run(&alter("a", &[op("cleanup.policy", ConfigAction::Append, Some("delete"))])).unwrap();
    assert_eq!(overrides(&f)["cleanup.policy"], "delete");
    f.run(&alter("a", &[op("cleanup.policy", ConfigAction::Subtract, Some("delete"))])).unwrap();
    assert_eq!(overrides(&f)["cleanup.policy"], "");
    assert!(!f.controller.image().topic("a").unwrap().config.cleanup_policy.delete);
    // Deleting a key that is not set, or does not exist, succeeds and writes nothing.
    let gone =
        alter("a", &[op("retention.ms", ConfigAction::Delete, None), op("nope", ConfigAction::Delete, None)]);
    assert_eq!(f.controller.plan(&gone).unwrap(), []);
    f.run(&replace("a", &[("retention.ms", Some("1"))])).unwrap();
    assert_eq!(overrides(&f), BTreeMap::from([("retention.ms".to_owned(), "1".to_owned())]));
    f.run(&replace("a", &[])).unwrap();
    assert!(overrides(&f).is_empty());
}

#[test]
fn changes_of_the_brokers_settings() {
    let mut f = Fixture::new(&[]);
    f.has("a");
    let cluster = BrokerScope::Cluster;
    assert_eq!(
        f.refusal(&alter_broker(BrokerScope::Node(NodeId(9)), &[])),
        "Unexpected broker id, expected 1, but received 9"
    );
    assert_eq!(
        f.refusal(&alter_broker(cluster, &[set("broker.id", "3")])),
        "Cannot update these configs dynamically: broker.id; set it at the start and restart."
    );
    assert_eq!(f.refusal(&alter_broker(cluster, &[set("nope", "3")])), "Unknown broker config name: nope");
    assert_eq!(
        f.refusal(&alter_broker(cluster, &[set("flush.ms", "1"), set("log.flush.interval.ms", "2")])),
        "Error due to duplicate config keys: log.flush.interval.ms"
    );
    assert!(f.refusal(&alter_broker(cluster, &[set("max.connections", "0")])).contains("at least 1"));
    f.run(&alter("a", &[set("min.compaction.lag.ms", "50")])).unwrap();
    assert_eq!(
        f.refusal(&alter_broker(cluster, &[set("log.cleaner.max.compaction.lag.ms", "10")])),
        "topic 'a': min.compaction.lag.ms=50 does not fit max.compaction.lag.ms=10: \
         the shortest lag must not exceed the longest"
    );
    f.run(&alter_broker(cluster, &[set("log.retention.ms", "5"), set("max.connections", "7")])).unwrap();
    f.run(&alter_broker(BrokerScope::Node(NodeId(1)), &[set("retention.ms", "6")])).unwrap();
    let image = f.controller.image();
    assert_eq!(image.broker().max_connections, 7);
    assert_eq!(image.topic("a").unwrap().config.retention_ms, Some(6));
    let described = image.describe_topic("a").unwrap();
    let entry = described.iter().find(|entry| entry.name == "retention.ms").unwrap();
    assert_eq!(entry.source, tailrace_config::ConfigSource::DynamicBroker);
    let removal = op("log.retention.ms", ConfigAction::Delete, None);
    f.run(&alter_broker(BrokerScope::Node(NodeId(1)), &[removal])).unwrap();
    assert_eq!(f.controller.image().topic("a").unwrap().config.retention_ms, Some(5));
    assert_eq!(image.topic("a").unwrap().config.retention_ms, Some(6), "a published image never changes");
}

#[test]
fn deletion_can_be_switched_off() {
    let mut f = Fixture::new(&[("delete.topic.enable", "false")]);
    f.has("a");
    assert_eq!(f.refusal(&delete("a")), "Topic deletion is disabled: delete.topic.enable is false.");
}

#[test]
fn producer_ids_come_in_blocks_until_none_is_left() {
    let mut f = Fixture::new(&[]);
    let first = |f: &Fixture| f.controller.image().next_producer_id();
    f.run(&Command::AllocateProducerIds).unwrap();
    assert_eq!(first(&f), ProducerId(1000));
    let (first_id, last_block) = (ProducerId(1000), ProducerId(i64::MAX - 1000));
    f.controller.apply(&MetadataRecord::ProducerIds { first: first_id, next: last_block }).unwrap();
    f.run(&Command::AllocateProducerIds).unwrap();
    assert_eq!(first(&f), ProducerId(i64::MAX));
    for _ in 0..2 {
        assert_eq!(f.refusal(&Command::AllocateProducerIds), "All producer ids have been handed out.");
    }
}

/// If fewer ids than a block are left, none are handed out, and nothing overflows.
#[test]
fn the_producer_ids_of_less_than_a_block_are_not_handed_out() {
    for left in [1, 999] {
        let mut f = Fixture::new(&[]);
        let next = ProducerId(i64::MAX - left);
        f.controller.apply(&MetadataRecord::ProducerIds { first: ProducerId(0), next }).unwrap();
        assert_eq!(f.refusal(&Command::AllocateProducerIds), "All producer ids have been handed out.");
        assert_eq!(f.controller.image().next_producer_id(), next);
    }
}

#[test]
fn records_that_contradict_the_image_are_refused() {
    let mut f = Fixture::new(&[]);
    let id = f.has("a");
    let other = TopicId([99; 16]);
    let created = |name: &str, id, partitions| MetadataRecord::TopicCreated {
        name: TopicName::new(name).unwrap(),
        id,
        partitions,
        replication_factor: 1,
        created_at: TimestampMs(1),
        configs: BTreeMap::new(),
        replicas: Vec::new(),
    };
    let bad_configs = BTreeMap::from([("nope".to_owned(), "1".to_owned())]);
    let cases = [
        (created("a", other, 1), "creates topic 'a'"),
        (created("b", id, 1), "the name or the id is taken"),
        (created("b", other, 0), "has 0 partitions"),
        (MetadataRecord::TopicDeleted { id: other }, "which no topic has"),
        (MetadataRecord::PartitionsAdded { id, partitions: 1, replicas: Vec::new() }, "has 1 partitions"),
        (
            MetadataRecord::PartitionsAdded { id: other, partitions: 2, replicas: Vec::new() },
            "which no topic has",
        ),
        (MetadataRecord::TopicConfigs { id, configs: bad_configs.clone() }, "settings of topic 'a': Unknown"),
        (
            MetadataRecord::BrokerConfigs { cluster: bad_configs, nodes: BTreeMap::new() },
            "broker settings changed at run time: Unknown",
        ),
        (
            MetadataRecord::ProducerIds { first: ProducerId(5), next: ProducerId(6) },
            "those below 0 were already handed out",
        ),
        (
            MetadataRecord::ProducerIds { first: ProducerId(0), next: ProducerId(0) },
            "hands out producer ids 0 to 0",
        ),
    ];
    for (record, words) in cases {
        let before = f.controller.image();
        let error = f.controller.apply(&record).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(before, f.controller.image());
    }
}

#[test]
fn a_start_configuration_that_is_illegal_is_refused() {
    let fixed = BTreeMap::from([("nope".to_owned(), "1".to_owned())]);
    assert_eq!(Controller::new(fixed).unwrap_err().to_string(), "Unknown broker config name: nope");
}

#[test]
fn settings_that_are_legal_only_together_survive_a_snapshot() {
    let mut f = Fixture::new(&[]);
    let (shortest, longest) = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms");
    f.run(&alter_broker(BrokerScope::Node(NodeId(1)), &[set(shortest, "1")])).unwrap();
    f.run(&alter_broker(BrokerScope::Cluster, &[set(shortest, "8"), set(longest, "7")])).unwrap();
    let mut replayed = Controller::new(BTreeMap::new()).unwrap();
    for record in f.controller.snapshot_records() {
        replayed.apply(&record).unwrap();
    }
    assert_eq!(replayed.image(), f.controller.image());
}
