//! Settings are shown and changed as in Kafka, and illegal changes get the error that Kafka gives.

use crate::common;
use crate::common::{Client, OK, TestServer, error};
use tailrace_kafka_wire::ErrorCode::{
    self, InvalidConfig, InvalidRequest, InvalidTopicException, MessageTooLarge, MismatchedEndpointType,
    UnknownTopicOrPartition, UnsupportedEndpointType, UnsupportedVersion,
};
use tailrace_kafka_wire::messages::alter_configs_request::{self, AlterConfigsRequest};
use tailrace_kafka_wire::messages::describe_cluster_request::DescribeClusterRequest;
use tailrace_kafka_wire::messages::describe_configs_request::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use tailrace_kafka_wire::messages::describe_configs_response::DescribeConfigsResult;
use tailrace_kafka_wire::messages::describe_log_dirs_request::{
    DescribableLogDirTopic, DescribeLogDirsRequest,
};
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use tailrace_kafka_wire::messages::list_config_resources_request::ListConfigResourcesRequest;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;

type Op<'a> = (&'a str, i8, Option<&'a str>);

fn resource(resource_type: i8, name: &str, ops: &[Op<'_>]) -> AlterConfigsResource {
    let op = |&(key, config_operation, value): &Op<'_>| AlterableConfig {
        name: key.to_owned(),
        config_operation,
        value: value.map(str::to_owned),
        ..Default::default()
    };
    AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: ops.iter().map(op).collect(),
        ..Default::default()
    }
}

async fn alter_all(
    client: &mut Client,
    resources: Vec<AlterConfigsResource>,
    validate_only: bool,
) -> Vec<ErrorCode> {
    let request = IncrementalAlterConfigsRequest { resources, validate_only, ..Default::default() };
    client.call(1, &request).await.responses.iter().map(|r| error(r.error_code)).collect()
}

async fn alter(client: &mut Client, resource_type: i8, name: &str, ops: &[Op<'_>]) -> ErrorCode {
    alter_all(client, vec![resource(resource_type, name, ops)], false).await[0]
}

async fn replace(
    client: &mut Client,
    resource_type: i8,
    name: &str,
    configs: &[(&str, Option<&str>)],
) -> ErrorCode {
    let config = |&(key, value): &(&str, Option<&str>)| alter_configs_request::AlterableConfig {
        name: key.to_owned(),
        value: value.map(str::to_owned),
        ..Default::default()
    };
    let resource = alter_configs_request::AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    };
    let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    error(client.call(2, &request).await.responses[0].error_code)
}

async fn describe(
    client: &mut Client,
    resource_type: i8,
    name: &str,
    keys: Option<&[&str]>,
) -> DescribeConfigsResult {
    let wanted = DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
        ..Default::default()
    };
    let request =
        DescribeConfigsRequest { resources: vec![wanted], include_synonyms: true, ..Default::default() };
    client.call(4, &request).await.results.remove(0)
}

/// Returns the value and the source of one key.
async fn value(client: &mut Client, resource_type: i8, name: &str, key: &str) -> Option<(String, i8)> {
    let found = describe(client, resource_type, name, Some(&[key])).await.configs.pop()?;
    Some((found.value?, found.config_source))
}

fn is(text: &str, source: i8) -> Option<(String, i8)> {
    Some((text.to_owned(), source))
}

async fn prepared() -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[("retention.ms", "1000")]).await;
    client.create_topic("plain", 1, &[]).await;
    (server, client)
}

#[tokio::test]
async fn what_is_shown() {
    let (_server, mut client) = prepared().await;
    let all = describe(&mut client, TOPIC, "t", None).await;
    assert_eq!((all.error_code, all.error_message.as_deref()), (0, Some("")));
    assert!(all.configs.len() >= 33, "{}", all.configs.len());
    assert!(
        all.configs.iter().all(|config| config.documentation.is_none()),
        "documentation was not requested"
    );
    assert_eq!(describe(&mut client, TOPIC, "t", Some(&[])).await.configs.len(), all.configs.len());
    let some = describe(&mut client, TOPIC, "t", Some(&["retention.ms", "nope"])).await;
    assert_eq!(some.configs.len(), 1, "unknown keys are left out");
    let synonyms: Vec<_> =
        some.configs[0].synonyms.iter().map(|s| (s.name.as_str(), s.value.as_deref(), s.source)).collect();
    assert_eq!(synonyms, [("retention.ms", Some("1000"), 1)]);
    assert_eq!(value(&mut client, TOPIC, "plain", "flush.messages").await, is("1", 5), "strict by default");

    assert_eq!(value(&mut client, BROKER, "1", "num.partitions").await, is("1", 5));
    assert_eq!(value(&mut client, BROKER, "1", "kafka").await, is("127.0.0.1:0", 4));
    assert_eq!(describe(&mut client, BROKER, "", None).await.configs, []);
}

#[tokio::test]
async fn resources_that_are_not_there() {
    let (_server, mut client) = prepared().await;
    for (resource_type, name, code) in [
        (TOPIC, "nope", UnknownTopicOrPartition),
        (TOPIC, "a/b", InvalidTopicException),
        (TOPIC, "", InvalidTopicException),
        (BROKER, "9", InvalidRequest),
        (BROKER, "x", InvalidRequest),
        (LOGGER, "1", InvalidRequest),
        (16, "m", InvalidRequest),
        (32, "", InvalidRequest),
        (0, "x", InvalidRequest),
        (99, "x", InvalidRequest),
    ] {
        let shown = describe(&mut client, resource_type, name, None).await;
        assert_eq!(error(shown.error_code), code, "type {resource_type}, {name:?}");
        assert!(shown.error_message.is_some_and(|message| !message.is_empty()));
        if resource_type != TOPIC || name == "nope" {
            let set = [("flush.ms", SET, Some("1"))];
            assert_eq!(
                alter(&mut client, resource_type, name, &set).await,
                code,
                "type {resource_type}, {name:?}"
            );
            assert_eq!(
                replace(&mut client, resource_type, name, &[]).await,
                code,
                "type {resource_type}, {name:?}"
            );
        }
    }
}

#[tokio::test]
async fn replacing_replaces_all() {
    let (_server, mut client) = prepared().await;
    assert_eq!(replace(&mut client, TOPIC, "t", &[("flush.ms", Some("7"))]).await, OK);
    assert_eq!(value(&mut client, TOPIC, "t", "flush.ms").await, is("7", 1));
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms").await, is("604800000", 5));
    assert_eq!(replace(&mut client, TOPIC, "t", &[("nope", Some("1"))]).await, InvalidConfig);
    assert_eq!(replace(&mut client, TOPIC, "t", &[("flush.ms", Some("x"))]).await, InvalidConfig);
    assert_eq!(replace(&mut client, TOPIC, "t", &[("flush.ms", None)]).await, InvalidRequest);
    assert_eq!(value(&mut client, TOPIC, "t", "flush.ms").await, is("7", 1));
    assert_eq!(replace(&mut client, TOPIC, "t", &[]).await, OK);
    assert_eq!(value(&mut client, TOPIC, "t", "flush.ms").await, is("9223372036854775807", 5));
}

#[tokio::test]
async fn single_changes() {
    let (_server, mut client) = prepared().await;
    let policy = "cleanup.policy";
    assert_eq!(alter(&mut client, TOPIC, "t", &[("flush.ms", SET, Some("9"))]).await, OK);
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms").await, is("1000", 1), "other settings stay");
    assert_eq!(alter(&mut client, TOPIC, "t", &[("flush.ms", DELETE, None)]).await, OK);
    assert_eq!(value(&mut client, TOPIC, "t", "flush.ms").await, is("9223372036854775807", 5));
    assert_eq!(alter(&mut client, TOPIC, "t", &[("nope", DELETE, None)]).await, OK);
    assert_eq!(alter(&mut client, TOPIC, "t", &[(policy, SUBTRACT, Some("absent"))]).await, OK);
    for (op, code) in [
        (("retention.ms", APPEND, Some("1")), InvalidConfig),
        (("retention.ms", SET, None), InvalidRequest),
        (("retention.ms", 9, Some("1")), InvalidRequest),
        (("nope", SET, Some("1")), InvalidConfig),
        (("retention.ms", SET, Some("x")), InvalidConfig),
        (("segment.bytes", SET, Some("13")), InvalidConfig),
    ] {
        assert_eq!(alter(&mut client, TOPIC, "t", &[op]).await, code, "{op:?}");
    }
    let twice = [("flush.ms", SET, Some("1")), ("flush.ms", SET, Some("2"))];
    assert_eq!(alter(&mut client, TOPIC, "t", &twice).await, InvalidRequest);
    let half_good = [("flush.ms", SET, Some("3")), ("retention.ms", SET, Some("x"))];
    assert_eq!(alter(&mut client, TOPIC, "t", &half_good).await, InvalidConfig);
    assert_eq!(
        value(&mut client, TOPIC, "t", "flush.ms").await,
        is("9223372036854775807", 5),
        "all or nothing"
    );

    let set = [("flush.ms", SET, Some("5"))];
    assert_eq!(alter_all(&mut client, vec![resource(TOPIC, "t", &set)], true).await, [OK]);
    assert_eq!(
        value(&mut client, TOPIC, "t", "flush.ms").await,
        is("9223372036854775807", 5),
        "validated only"
    );
    let mixed = vec![resource(TOPIC, "t", &set), resource(TOPIC, "nope", &set)];
    assert_eq!(alter_all(&mut client, mixed, false).await, [OK, UnknownTopicOrPartition]);
    let same = vec![resource(TOPIC, "t", &set), resource(TOPIC, "t", &[])];
    assert_eq!(alter_all(&mut client, same, false).await, [InvalidRequest, InvalidRequest]);
}

#[tokio::test]
async fn broker_settings_outlive_a_restart() {
    let (mut server, mut client) = prepared().await;
    let retention = |value| [("log.retention.ms", SET, Some(value))];
    assert_eq!(alter(&mut client, BROKER, "", &retention("300000")).await, OK);
    assert_eq!(value(&mut client, TOPIC, "plain", "retention.ms").await, is("300000", 3));
    assert_eq!(alter(&mut client, BROKER, "1", &retention("200000")).await, OK);
    assert_eq!(value(&mut client, TOPIC, "plain", "retention.ms").await, is("200000", 2));
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms").await, is("1000", 1));
    assert_eq!(alter(&mut client, BROKER, "1", &[("node.id", SET, Some("5"))]).await, InvalidRequest);
    assert_eq!(alter(&mut client, BROKER, "1", &[("no.such.key", SET, Some("5"))]).await, InvalidConfig);
    server.restart().await;
    let mut client = server.connect().await;
    assert_eq!(value(&mut client, TOPIC, "plain", "retention.ms").await, is("200000", 2));
    assert_eq!(describe(&mut client, BROKER, "", None).await.configs.len(), 1);
    assert_eq!(alter(&mut client, BROKER, "1", &[("log.retention.ms", DELETE, None)]).await, OK);
    assert_eq!(alter(&mut client, BROKER, "", &[("log.retention.ms", DELETE, None)]).await, OK);
    assert_eq!(value(&mut client, TOPIC, "plain", "retention.ms").await, is("604800000", 5));
}

#[tokio::test]
async fn a_changed_limit_holds_at_once() {
    let (_server, mut client) = prepared().await;
    let records = common::batch(tailrace_records::BatchOptions::default(), &[1; 40]);
    assert!(records.len() > 500);
    assert_eq!(client.produce_batch("plain", 0, records.clone()).await.error_code, 0);
    assert_eq!(alter(&mut client, TOPIC, "plain", &[("max.message.bytes", SET, Some("500"))]).await, OK);
    assert_eq!(error(client.produce_batch("plain", 0, records).await.error_code), MessageTooLarge);
}

#[tokio::test]
async fn lists_of_resources_and_folders() {
    let (server, mut client) = prepared().await;
    let topics = ListConfigResourcesRequest { resource_types: vec![TOPIC], ..Default::default() };
    let found = client.call(1, &topics).await.config_resources;
    assert_eq!(found.iter().map(|r| r.resource_name.as_str()).collect::<Vec<_>>(), ["plain", "t"]);
    let unknown = ListConfigResourcesRequest { resource_types: vec![99], ..Default::default() };
    assert_eq!(error(client.call(1, &unknown).await.error_code), UnsupportedVersion);

    let folders = |topics: Option<Vec<(&str, Vec<i32>)>>| DescribeLogDirsRequest {
        topics: topics.map(|topics| {
            let topic = |(name, partitions): (&str, Vec<i32>)| DescribableLogDirTopic {
                topic: name.to_owned(),
                partitions,
                ..Default::default()
            };
            topics.into_iter().map(topic).collect()
        }),
        ..Default::default()
    };
    assert_eq!(client.call(4, &folders(None)).await.results[0].topics.len(), 2);
    assert_eq!(client.call(4, &folders(Some(Vec::new()))).await.results[0].topics.len(), 0);
    let some = vec![("t", vec![0, 0, 5, -1]), ("nope", vec![0])];
    let found = client.call(4, &folders(Some(some))).await.results.remove(0);
    assert_eq!(found.topics.len(), 1);
    assert_eq!(found.topics[0].partitions.len(), 1, "partitions that do not exist are left out");

    let wrong = DescribeClusterRequest { endpoint_type: 2, ..Default::default() };
    assert_eq!(error(client.call(2, &wrong).await.error_code), MismatchedEndpointType);
    let wrong = DescribeClusterRequest { endpoint_type: 7, ..Default::default() };
    assert_eq!(error(client.call(2, &wrong).await.error_code), UnsupportedEndpointType);
    drop(server);
}

#[tokio::test]
async fn clients_are_told_the_advertised_address() {
    let server = TestServer::with(&[("advertised.listeners", "PLAINTEXT://kafka.example:1234")]).await;
    let mut client = server.connect().await;
    let brokers = client.call(2, &DescribeClusterRequest::default()).await.brokers;
    assert_eq!((brokers[0].host.as_str(), brokers[0].port), ("kafka.example", 1234));
    let metadata = tailrace_kafka_wire::messages::MetadataRequest::default();
    let brokers = client.call(12, &metadata).await.brokers;
    assert_eq!((brokers[0].host.as_str(), brokers[0].port), ("kafka.example", 1234));
}
