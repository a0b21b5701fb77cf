//! Topics are created, grow and are deleted as in Kafka. Impossible requests get the error that Kafka gives.

use crate::common::{Client, OK, TestServer, config, error, topic};
use tailrace_kafka_wire::ErrorCode::{
    self, InvalidConfig, InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor,
    InvalidRequest, InvalidTopicException, PolicyViolation, TopicAlreadyExists, TopicAuthorizationFailed,
    TopicDeletionDisabled, UnknownTopicId, UnknownTopicOrPartition,
};
use tailrace_kafka_wire::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use tailrace_kafka_wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest,
};
use tailrace_kafka_wire::messages::create_topics_response::CreatableTopicResult;
use tailrace_kafka_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use tailrace_kafka_wire::messages::describe_topic_partitions_request::{
    Cursor, DescribeTopicPartitionsRequest, TopicRequest,
};
use tailrace_kafka_wire::messages::describe_topic_partitions_response::DescribeTopicPartitionsResponse;
use tailrace_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use tailrace_kafka_wire::messages::metadata_response::MetadataResponseTopic;

const UNKNOWN_ID: [u8; 16] = [0x11; 16];

async fn create(
    client: &mut Client,
    topics: Vec<CreatableTopic>,
    validate_only: bool,
) -> Vec<CreatableTopicResult> {
    client.call(7, &CreateTopicsRequest { topics, validate_only, ..Default::default() }).await.topics
}

async fn created(client: &mut Client, topic: CreatableTopic) -> ErrorCode {
    error(create(client, vec![topic], false).await[0].error_code)
}

async fn delete(
    client: &mut Client,
    topics: Vec<DeleteTopicState>,
) -> Vec<(Option<String>, [u8; 16], ErrorCode)> {
    let request = DeleteTopicsRequest { topics, timeout_ms: 5000, ..Default::default() };
    let responses = client.call(6, &request).await.responses;
    responses.into_iter().map(|r| (r.name, r.topic_id, error(r.error_code))).collect()
}

fn by_name(name: &str) -> DeleteTopicState {
    DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }
}

fn by_id(topic_id: [u8; 16]) -> DeleteTopicState {
    DeleteTopicState { topic_id, ..Default::default() }
}

async fn metadata(
    client: &mut Client,
    version: i16,
    topics: Vec<MetadataRequestTopic>,
) -> Vec<MetadataResponseTopic> {
    client.call(version, &MetadataRequest { topics: Some(topics), ..Default::default() }).await.topics
}

fn named(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() }
}

#[tokio::test]
async fn illegal_names() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("o_plain", 1, &[]).await;
    let long = "x".repeat(250);
    for name in ["a/b", "..", ".", "", &long, "ü", "a b", "a\0b", "c:d", "a\\b", "../../etc", "o.plain"] {
        assert_eq!(created(&mut client, topic(name, 1, &[])).await, InvalidTopicException, "{name:?}");
        let shown = metadata(&mut client, 12, vec![named(name)]).await;
        assert_eq!(
            (error(shown[0].error_code), shown[0].partitions.len()),
            (InvalidTopicException, 0),
            "{name:?}"
        );
    }
    for name in [&"x".repeat(249), "__x", "-", "_", "c.q"] {
        assert_eq!(created(&mut client, topic(name, 1, &[])).await, OK, "{name:?}");
    }
    assert_eq!(created(&mut client, topic("c_q", 1, &[])).await, InvalidTopicException);
    assert_eq!(created(&mut client, topic("o_plain", 1, &[])).await, TopicAlreadyExists);
    assert_eq!(created(&mut client, topic("__cluster_metadata", 1, &[])).await, TopicAuthorizationFailed);
}

#[tokio::test]
async fn illegal_counts() {
    let server =
        TestServer::with(&[("tailrace.topic.partitions.max", "20"), ("tailrace.partitions.max", "30")]).await;
    let mut client = server.connect().await;
    for (partitions, code) in [
        (0, InvalidPartitions),
        (-2, InvalidPartitions),
        (-5, InvalidPartitions),
        (21, PolicyViolation),
        (i32::MAX, PolicyViolation),
    ] {
        assert_eq!(created(&mut client, topic("p", partitions, &[])).await, code, "{partitions}");
    }
    for factor in [0, -2, 2, 3, i16::MAX] {
        let wanted = CreatableTopic { replication_factor: factor, ..topic("p", 1, &[]) };
        assert_eq!(created(&mut client, wanted).await, InvalidReplicationFactor, "{factor}");
    }
    let default = CreatableTopic { replication_factor: -1, ..topic("p", -1, &[]) };
    let answer = create(&mut client, vec![default], false).await;
    assert_eq!((answer[0].error_code, answer[0].num_partitions, answer[0].replication_factor), (0, 1, 1));
    assert_eq!(created(&mut client, topic("q", 20, &[])).await, OK);
    assert_eq!(created(&mut client, topic("r", 10, &[])).await, PolicyViolation, "all topics together");
    assert_eq!(created(&mut client, topic("r", 9, &[])).await, OK);
}

#[tokio::test]
async fn illegal_configs_at_creation() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for (key, value) in [
        ("no.such.config", Some("1")),
        ("retention.ms", Some("abc")),
        ("retention.ms", Some("-2")),
        ("retention.ms", Some("")),
        ("retention.ms", None),
        ("cleanup.policy", Some("foo")),
        ("compression.type", Some("bar")),
        ("max.message.bytes", Some("2147483648")),
        ("segment.bytes", Some("13")),
        ("flush.messages", Some("0")),
        ("unclean.leader.election.enable", Some("maybe")),
        ("message.format.version", Some("3.0")),
        (" retention.ms", Some("1")),
        ("", Some("1")),
    ] {
        let wanted = CreatableTopic { configs: vec![config(key, value)], ..topic("c", 1, &[]) };
        assert_eq!(created(&mut client, wanted).await, InvalidConfig, "{key:?}={value:?}");
    }
    assert_eq!(error(client.topic("c").await.error_code), UnknownTopicOrPartition);
    // If a key occurs twice, the last one counts. Values are trimmed.
    let twice = topic("c", 1, &[("retention.ms", "7"), ("retention.ms", " 5 ")]);
    let answer = create(&mut client, vec![twice], false).await.remove(0);
    let configs = answer.configs.expect("the response lists the settings");
    let retention = configs.iter().find(|c| c.name == "retention.ms").expect("the setting is listed");
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("5"), 1));
}

#[tokio::test]
async fn duplicates_and_rehearsals() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let wanted = vec![topic("dup", 1, &[]), topic("good", 1, &[]), topic("dup", 2, &[])];
    let answer = create(&mut client, wanted, false).await;
    let found: Vec<_> = answer.iter().map(|t| (t.name.as_str(), error(t.error_code))).collect();
    assert_eq!(found, [("dup", InvalidRequest), ("good", OK)]);
    assert_eq!(create(&mut client, Vec::new(), false).await, []);

    let rehearsed = create(&mut client, vec![topic("later", 3, &[]), topic("good", 1, &[])], true).await;
    assert_eq!((rehearsed[0].error_code, rehearsed[0].num_partitions), (0, 3));
    assert_eq!(error(rehearsed[1].error_code), TopicAlreadyExists);
    assert_eq!(error(client.topic("later").await.error_code), UnknownTopicOrPartition);
}

#[tokio::test]
async fn manual_assignments() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let assigned = |name: &str, assignment: &[(i32, &[i32])]| CreatableTopic {
        replication_factor: -1,
        assignments: assignment
            .iter()
            .map(|(partition_index, nodes)| CreatableReplicaAssignment {
                partition_index: *partition_index,
                broker_ids: nodes.to_vec(),
                ..Default::default()
            })
            .collect(),
        ..topic(name, -1, &[])
    };
    let wrong: [&[(i32, &[i32])]; 5] =
        [&[(0, &[9])], &[(0, &[1, 1])], &[(1, &[1])], &[(0, &[])], &[(0, &[1]), (0, &[1])]];
    for assignment in wrong {
        let code = created(&mut client, assigned("a", assignment)).await;
        assert_eq!(code, InvalidReplicaAssignment, "{assignment:?}");
    }
    let with_count = CreatableTopic { num_partitions: 1, ..assigned("a", &[(0, &[1])]) };
    assert_eq!(created(&mut client, with_count).await, InvalidRequest);
    let with_factor = CreatableTopic { replication_factor: 1, ..assigned("a", &[(0, &[1])]) };
    assert_eq!(created(&mut client, with_factor).await, InvalidRequest);
    let answer = create(&mut client, vec![assigned("a", &[(0, &[1]), (1, &[1])])], false).await;
    assert_eq!((answer[0].error_code, answer[0].num_partitions, answer[0].replication_factor), (0, 2, 1));
}

async fn extend(client: &mut Client, name: &str, count: i32, assignments: Option<&[&[i32]]>) -> ErrorCode {
    let assignment =
        |nodes: &&[i32]| CreatePartitionsAssignment { broker_ids: nodes.to_vec(), ..Default::default() };
    let wanted = CreatePartitionsTopic {
        name: name.to_owned(),
        count,
        assignments: assignments.map(|list| list.iter().map(assignment).collect()),
        ..Default::default()
    };
    let request = CreatePartitionsRequest { topics: vec![wanted], timeout_ms: 5000, ..Default::default() };
    error(client.call(3, &request).await.results[0].error_code)
}

#[tokio::test]
async fn partitions_are_added() {
    let server = TestServer::with(&[("tailrace.topic.partitions.max", "20")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 2, &[]).await;
    for (count, code) in [
        (2, InvalidPartitions),
        (1, InvalidPartitions),
        (0, InvalidPartitions),
        (-1, InvalidPartitions),
        (21, PolicyViolation),
    ] {
        assert_eq!(extend(&mut client, "t", count, None).await, code, "{count}");
    }
    for name in ["nope", "a/b"] {
        assert_eq!(extend(&mut client, name, 3, None).await, UnknownTopicOrPartition);
    }
    let wrong: [&[&[i32]]; 4] = [&[&[1]], &[&[1], &[7]], &[&[1], &[]], &[&[1], &[1], &[1]]];
    for assignments in wrong {
        let code = extend(&mut client, "t", 4, Some(assignments)).await;
        assert_eq!(code, InvalidReplicaAssignment, "{assignments:?}");
    }
    assert_eq!(client.topic("t").await.partitions.len(), 2);
    assert_eq!(extend(&mut client, "t", 4, Some(&[&[1], &[1]])).await, OK);
    assert_eq!(extend(&mut client, "t", 5, Some(&[])).await, OK, "an empty assignment counts as none");
    assert_eq!(client.produce("t", 4, &[1]).await, 0);

    let same =
        CreatePartitionsTopic { name: "t".to_owned(), count: 9, assignments: None, ..Default::default() };
    let mut request =
        CreatePartitionsRequest { topics: vec![same.clone(), same], timeout_ms: 5000, ..Default::default() };
    let results = client.call(3, &request).await.results;
    assert_eq!((results.len(), error(results[0].error_code)), (1, InvalidRequest));
    request.topics.pop();
    request.validate_only = true;
    assert_eq!(client.call(3, &request).await.results[0].error_code, 0);
    assert_eq!(client.topic("t").await.partitions.len(), 5);
}

#[tokio::test]
async fn a_topic_created_again_is_another_topic() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    let first = client.create_topic("d", 1, &[]).await;
    client.produce("d", 0, &[1, 2]).await;
    assert_eq!(delete(&mut client, vec![by_name("d")]).await, [(Some("d".to_owned()), first, OK)]);
    let again = delete(&mut client, vec![by_name("d")]).await;
    assert_eq!(again, [(Some("d".to_owned()), [0; 16], UnknownTopicOrPartition)]);
    let second = client.create_topic("d", 1, &[]).await;
    assert_ne!(first, second);
    assert_eq!(client.produce("d", 0, &[3]).await, 0, "nothing is left of the old topic");

    let stale = MetadataRequestTopic { topic_id: first, name: None, ..Default::default() };
    let shown = metadata(&mut client, 12, vec![stale]).await;
    assert_eq!((error(shown[0].error_code), &shown[0].name), (UnknownTopicId, &None));
    assert_eq!(delete(&mut client, vec![by_id(first)]).await, [(None, first, UnknownTopicId)]);

    server.restart().await;
    let mut client = server.connect().await;
    assert_eq!(client.topic("d").await.topic_id, second, "ids outlive a restart");
    assert_eq!(delete(&mut client, vec![by_id(second)]).await, [(Some("d".to_owned()), second, OK)]);
}

#[tokio::test]
async fn deletions_that_are_refused() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let id = client.create_topic("t", 1, &[]).await;
    let both = DeleteTopicState { topic_id: id, ..by_name("t") };
    let codes = |answers: Vec<(Option<String>, [u8; 16], ErrorCode)>| {
        answers.into_iter().map(|(_, _, code)| code).collect::<Vec<_>>()
    };
    assert_eq!(codes(delete(&mut client, vec![both]).await), [InvalidRequest]);
    assert_eq!(codes(delete(&mut client, vec![by_id([0; 16])]).await), [InvalidRequest]);
    assert_eq!(codes(delete(&mut client, vec![by_name("t"), by_name("t")]).await), [InvalidRequest]);
    assert_eq!(codes(delete(&mut client, vec![by_name("t"), by_id(id)]).await), [InvalidRequest]);
    let unknown = vec![by_name("a/b"), by_name(""), by_id(UNKNOWN_ID), by_name("__cluster_metadata")];
    assert_eq!(
        codes(delete(&mut client, unknown).await),
        [UnknownTopicOrPartition, UnknownTopicOrPartition, UnknownTopicId, UnknownTopicOrPartition]
    );
    assert_eq!(client.topic("t").await.error_code, 0);

    let server = TestServer::with(&[("delete.topic.enable", "false")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    assert_eq!(codes(delete(&mut client, vec![by_name("t")]).await), [TopicDeletionDisabled]);
    let old = DeleteTopicsRequest { topic_names: vec!["t".to_owned()], timeout_ms: 1, ..Default::default() };
    assert_eq!(error(client.call(2, &old).await.responses[0].error_code), InvalidRequest);
}

#[tokio::test]
async fn metadata_creates_what_is_asked_for() {
    let server = TestServer::with(&[("num.partitions", "3")]).await;
    let mut client = server.connect().await;
    let first = metadata(&mut client, 12, vec![named("auto"), named("auto")]).await;
    assert_eq!(first.len(), 1, "named twice, answered once");
    assert_eq!((error(first[0].error_code), first[0].partitions.len()), (OK, 3));
    assert_eq!(client.produce("auto", 2, &[1]).await, 0, "usable at once");
    assert_eq!(
        error(client.topic("other").await.error_code),
        UnknownTopicOrPartition,
        "not allowed by the request"
    );
    let internal = metadata(&mut client, 12, vec![named("__consumer_offsets")]).await;
    assert_eq!((error(internal[0].error_code), internal[0].is_internal), (UnknownTopicOrPartition, true));
    // Versions below 4 have no field for it and always allow creation.
    assert_eq!(metadata(&mut client, 1, vec![named("old")]).await[0].error_code, 0);
    assert!(
        metadata(&mut client, 1, Vec::new()).await.is_empty(),
        "an empty list means no topics from version 1 on"
    );

    let server = TestServer::with(&[("auto.create.topics.enable", "false")]).await;
    let mut client = server.connect().await;
    let refused = metadata(&mut client, 12, vec![named("auto")]).await;
    assert_eq!(error(refused[0].error_code), UnknownTopicOrPartition);
}

#[tokio::test]
async fn many_clients_ask_for_the_same_new_topic() {
    let server = TestServer::start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut client = server.connect().await;
        tasks.spawn(async move { metadata(&mut client, 12, vec![named("shared")]).await.remove(0) });
    }
    let answers = tasks.join_all().await;
    for answer in &answers {
        assert_eq!((answer.error_code, answer.topic_id), (0, answers[0].topic_id));
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_no_half_topic() {
    let server = TestServer::start().await;
    let mut already_there = 0;
    for round in 0..3 {
        let names: Vec<_> = (0..5).map(|number| format!("r{round}-{number}")).collect();
        let topics = names.iter().map(|name| topic(name, 4, &[])).collect();
        let client = server.connect().await;
        client.abandon(7, &CreateTopicsRequest { topics, ..Default::default() }).await;
        let mut client = server.connect().await;
        for name in &names {
            let code = created(&mut client, topic(name, 4, &[])).await;
            assert!(matches!(code, OK | TopicAlreadyExists), "{code:?}");
            already_there += u32::from(code == TopicAlreadyExists);
            assert_eq!(client.produce(name, 3, &[1]).await, 0);
        }
    }
    assert!(already_there > 0, "requests of disconnected clients were executed");
}

#[tokio::test]
async fn metadata_with_ids_and_without_names() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let id = client.create_topic("t", 1, &[]).await;
    let wanted = |name: Option<&str>, topic_id| MetadataRequestTopic {
        name: name.map(str::to_owned),
        topic_id,
        ..Default::default()
    };
    let cases = [
        (12, None, id, OK),
        (12, Some("t"), id, OK),
        (12, Some("t"), UNKNOWN_ID, UnknownTopicId),
        (12, None, [0; 16], InvalidRequest),
        (10, None, [0; 16], InvalidRequest),
        (11, Some("t"), id, InvalidRequest),
    ];
    for (version, name, topic_id, code) in cases {
        let answer = metadata(&mut client, version, vec![wanted(name, topic_id)]).await;
        assert_eq!(error(answer[0].error_code), code, "version {version}, {name:?}, {topic_id:?}");
    }
}

async fn page(
    client: &mut Client,
    names: &[&str],
    limit: i32,
    cursor: Option<(&str, i32)>,
) -> DescribeTopicPartitionsResponse {
    let request = DescribeTopicPartitionsRequest {
        topics: names
            .iter()
            .map(|name| TopicRequest { name: (*name).to_owned(), ..Default::default() })
            .collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(name, partition_index)| Cursor {
            topic_name: name.to_owned(),
            partition_index,
            ..Default::default()
        }),
        ..Default::default()
    };
    client.call(0, &request).await
}

/// Topics with their error and number of partitions, and where the next page starts.
type Shown<'a> = (Vec<(&'a str, ErrorCode, usize)>, Option<(&'a str, i32)>);

fn shown(page: &DescribeTopicPartitionsResponse) -> Shown<'_> {
    let topics = page.topics.iter();
    let topics = topics.map(|t| (t.name.as_deref().unwrap_or(""), error(t.error_code), t.partitions.len()));
    let next = page.next_cursor.as_ref().map(|cursor| (cursor.topic_name.as_str(), cursor.partition_index));
    (topics.collect(), next)
}

#[tokio::test]
async fn topics_in_pages() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for (name, partitions) in [("a", 2), ("b", 3), ("c", 1)] {
        client.create_topic(name, partitions, &[]).await;
    }
    let all = page(&mut client, &[], 2000, None).await;
    assert_eq!(shown(&all), (vec![("a", OK, 2), ("b", OK, 3), ("c", OK, 1)], None));
    assert_eq!(all.topics[0].topic_authorized_operations, 3576);
    let first = page(&mut client, &[], 2, None).await;
    assert_eq!(shown(&first), (vec![("a", OK, 2)], Some(("b", 0))));
    let second = page(&mut client, &[], 2, Some(("b", 0))).await;
    assert_eq!(shown(&second), (vec![("b", OK, 2)], Some(("b", 2))));
    let third = page(&mut client, &[], 2, Some(("b", 2))).await;
    assert_eq!(shown(&third), (vec![("b", OK, 1), ("c", OK, 1)], None));
    let one = page(&mut client, &["b"], 0, None).await;
    assert_eq!(shown(&one), (vec![("b", OK, 1)], Some(("b", 1))), "at least one partition");
    let named = page(&mut client, &["c", "nope", "a/b"], 10, None).await;
    let expected =
        vec![("a/b", InvalidTopicException, 0), ("c", OK, 1), ("nope", UnknownTopicOrPartition, 0)];
    assert_eq!(shown(&named), (expected, None));
    let beyond = page(&mut client, &["b"], 10, Some(("b", 9))).await;
    assert_eq!(shown(&beyond), (vec![("b", OK, 0)], None));
    let negative = page(&mut client, &["b"], 10, Some(("b", -1))).await;
    assert_eq!(shown(&negative), (vec![("b", InvalidRequest, 0)], None));
    assert_eq!(shown(&page(&mut client, &[], 10, Some(("bb", 5))).await).0, vec![("c", OK, 1)]);
}
