//! Topics that are streams of JetStream: which settings belong to the stream, and who may change them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;

use tailrace_metadata::*;
use tailrace_types::{NodeId, TimestampMs, TopicId};

const STREAM: &str = "tailrace.jetstream.stream";

struct Fixture {
    controller: Controller,
    ids: u8,
}

impl Fixture {
    /// With a stream `S` and a topic `t`.
    fn new() -> Self {
        let mut fixture = Self { controller: Controller::new(BTreeMap::new()).unwrap(), ids: 0 };
        let settings = [(STREAM, "{}"), ("retention.ms", "1000"), ("tailrace.subjects", "s.>")];
        fixture.create("S", Requester::Stream, &settings).unwrap();
        fixture.create("t", Requester::Client, &[("retention.ms", "7")]).unwrap();
        fixture
    }

    fn run(&mut self, command: &Command) -> Result<(), String> {
        let before = self.controller.image();
        let records = self.controller.plan(command).map_err(|error| {
            assert_eq!(before, self.controller.image(), "a refusal changes nothing");
            error.to_string()
        })?;
        for record in records {
            let record = MetadataRecord::decode(&record.encode()).unwrap();
            self.controller.apply(&record).unwrap();
        }
        Ok(())
    }

    fn create(&mut self, name: &str, by: Requester, settings: &[(&str, &str)]) -> Result<(), String> {
        self.ids += 1;
        let create = CreateTopic::with_defaults(name, TopicId([self.ids; 16]), TimestampMs(1), by);
        let configs = settings.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
        self.run(&Command::CreateTopic(CreateTopic { configs: configs.collect(), ..create }))
    }

    fn alter(&mut self, topic: &str, change: ConfigChange) -> Result<(), String> {
        self.run(&Command::AlterTopicConfigs { topic: topic.to_owned(), change })
    }

    fn settings(&self, topic: &str) -> BTreeMap<String, String> {
        self.controller.image().topic(topic).unwrap().overrides.clone()
    }
}

fn one(action: ConfigAction, key: &str, value: &str) -> ConfigChange {
    ConfigChange::Incremental(vec![ConfigOp { key: key.to_owned(), action, value: Some(value.to_owned()) }])
}

fn all(pairs: &[(&str, &str)]) -> ConfigChange {
    ConfigChange::Replace(
        pairs.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned()))).collect(),
    )
}

fn of_stream(pairs: &[(&str, &str)]) -> ConfigChange {
    ConfigChange::Stream(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn refused(outcome: Result<(), String>, key: &str) {
    let text = outcome.unwrap_err();
    assert!(text.contains("only JetStream's API changes it") && text.contains(key), "{text}");
}

#[test]
fn a_kafka_client_makes_no_stream() {
    let mut f = Fixture::new();
    refused(f.create("u", Requester::Client, &[(STREAM, "{}")]), STREAM);
    refused(f.create("u", Requester::Stream, &[]), STREAM);
    refused(f.alter("t", one(ConfigAction::Set, STREAM, "{}")), STREAM);
    refused(f.alter("t", all(&[(STREAM, "{}")])), STREAM);
    refused(f.alter("t", of_stream(&[(STREAM, "{}")])), STREAM);
}

#[test]
fn the_settings_of_a_stream_are_read_only_for_kafka_clients() {
    let mut f = Fixture::new();
    let before = f.settings("S");
    for key in [STREAM, "retention.ms", "tailrace.subjects"] {
        refused(f.alter("S", one(ConfigAction::Delete, key, "")), key);
    }
    refused(f.alter("S", one(ConfigAction::Set, STREAM, "{\"a\":1}")), STREAM);
    refused(f.alter("S", one(ConfigAction::Append, "tailrace.subjects", "t.>")), "tailrace.subjects");
    refused(f.alter("S", one(ConfigAction::Set, "cleanup.policy", "compact")), "cleanup.policy");
    refused(f.alter("S", all(&[("retention.ms", "5")])), "retention.ms");
    assert_eq!(f.settings("S"), before);
}

#[test]
fn the_other_settings_of_a_stream_stay_those_of_kafka_clients() {
    let mut f = Fixture::new();
    f.alter("S", one(ConfigAction::Set, "segment.bytes", "2097152")).unwrap();
    f.alter("S", of_stream(&[(STREAM, "{\"a\":1}"), ("tailrace.subjects", "u.>")])).unwrap();
    let settings = f.settings("S");
    assert_eq!(settings.get("segment.bytes").map(String::as_str), Some("2097152"));
    assert_eq!(settings.get("tailrace.subjects").map(String::as_str), Some("u.>"));
    assert_eq!(settings.get("retention.ms"), None, "it belongs to the stream, which no longer sets it");
    // To replace all settings does not reset those of the stream.
    f.alter("S", all(&[("min.insync.replicas", "2")])).unwrap();
    let settings = f.settings("S");
    assert_eq!(settings.get(STREAM).map(String::as_str), Some("{\"a\":1}"));
    assert_eq!(settings.get("segment.bytes"), None);
}

#[test]
fn a_stream_has_one_partition_and_can_be_deleted() {
    let mut f = Fixture::new();
    let more = Command::CreatePartitions {
        topic: "S".to_owned(),
        count: 2,
        assignment: None,
        by: Requester::Client,
    };
    assert_eq!(f.run(&more).unwrap_err(), "Topic 'S' is a stream of JetStream, which has one partition.");
    let delete = |by| Command::DeleteTopic { topic: TopicRef::Name("S".to_owned()), by };
    f.run(&delete(Requester::Stream)).unwrap();
    assert!(f.controller.image().topic("S").is_none());
}

#[test]
fn internal_topics_and_forbidden_deletions_are_the_same_for_streams() {
    let mut f = Fixture::new();
    let internal = f.create("__consumer_offsets", Requester::Stream, &[(STREAM, "{}")]).unwrap_err();
    assert!(internal.contains("is internal"), "{internal}");
    let settings = [("delete.topic.enable".to_owned(), "false".to_owned())];
    let mut closed = Fixture { controller: Controller::new(settings.into()).unwrap(), ids: 0 };
    closed.create("S", Requester::Stream, &[(STREAM, "{}")]).unwrap();
    let delete = Command::DeleteTopic { topic: TopicRef::Name("S".to_owned()), by: Requester::Stream };
    assert_eq!(closed.run(&delete).unwrap_err(), "Topic deletion is disabled: delete.topic.enable is false.");
}

#[test]
fn a_cluster_with_older_nodes_makes_no_streams() {
    let mut f = Fixture::new();
    let node = RegisterNode {
        node: NodeId(1),
        directory: [1; 16],
        cluster: "a:1".to_owned(),
        kafka: "a:2".to_owned(),
        listeners: Vec::new(),
        nats: None,
        http: None,
        rack: None,
        levels: (1, 1),
        replica: None,
        renews: false,
    };
    f.run(&Command::FoundCluster { cluster_id: "c".to_owned(), node }).unwrap();
    let text = f.create("U", Requester::Stream, &[(STREAM, "{}")]).unwrap_err();
    assert!(text.contains("streams need level 2"), "{text}");
    let text = f.alter("S", of_stream(&[(STREAM, "{}")])).unwrap_err();
    assert!(text.contains("streams need level 2"), "{text}");
}
