//! A topic that a client may not DESCRIBE looks the same whether it exists or not. Ids are no secrets.

use tailrace_identity::acl::Operation::{
    Alter, AlterConfigs, Create, Delete, Describe, DescribeConfigs, Read, Write,
};
use tailrace_identity::acl::ResourceKind::{Group, Topic};
use tailrace_kafka_wire::ErrorCode::{
    ClusterAuthorizationFailed, GroupIdNotFound, InvalidRequest, NonEmptyGroup, TopicAuthorizationFailed,
    UnknownTopicId, UnknownTopicOrPartition,
};
use tailrace_kafka_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use tailrace_kafka_wire::messages::delete_topics_response::DeletableTopicResult;
use tailrace_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use tailrace_kafka_wire::messages::metadata_response::MetadataResponseTopic;
use tailrace_kafka_wire::messages::{
    AlterShareGroupOffsetsRequest, CreateTopicsRequest, DeleteShareGroupOffsetsRequest,
    DescribeTopicPartitionsRequest, FindCoordinatorRequest, ShareGroupHeartbeatRequest,
    alter_share_group_offsets_request, delete_share_group_offsets_request, describe_topic_partitions_request,
};

use super::{Rig, of_cluster};
use crate::common::rig::{fetch_request, produce_request};
use crate::common::{Client, OK, batch, error, topic};

const UNKNOWN_ID: [u8; 16] = [0x11; 16];

fn by_name(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() }
}

fn by_id(topic_id: [u8; 16]) -> MetadataRequestTopic {
    MetadataRequestTopic { topic_id, name: None, ..Default::default() }
}

async fn metadata(client: &mut Client, topic: MetadataRequestTopic, create: bool) -> MetadataResponseTopic {
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: create,
        ..Default::default()
    };
    client.call(12, &request).await.topics.remove(0)
}

#[tokio::test]
async fn metadata_by_name_does_not_tell_whether_a_hidden_topic_exists() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("secret", 3, &[]).await;
    let mut client = rig.anonymous().await;
    let secret = metadata(&mut client, by_name("secret"), true).await;
    assert_eq!(error(secret.error_code), TopicAuthorizationFailed);
    assert_eq!(secret.topic_id, [0; 16]);
    for name in ["nothing", "no such: name", "__consumer_offsets"] {
        let nothing = metadata(&mut client, by_name(name), true).await;
        assert_eq!(nothing, MetadataResponseTopic { name: Some(name.to_owned()), ..secret.clone() });
    }
    assert!(rig.server.node().image().topic("nothing").is_none());
}

#[tokio::test]
async fn metadata_by_id_tells_no_name_of_a_hidden_topic() {
    let mut rig = Rig::new().await;
    let id = rig.admin.create_topic("secret", 3, &[]).await;
    let mut client = rig.anonymous().await;
    let secret = metadata(&mut client, by_id(id), false).await;
    assert_eq!(
        (error(secret.error_code), secret.name, secret.topic_id),
        (TopicAuthorizationFailed, None, id)
    );
    assert!(secret.partitions.is_empty());
    let unknown = metadata(&mut client, by_id(UNKNOWN_ID), false).await;
    assert_eq!((error(unknown.error_code), unknown.name), (UnknownTopicId, None));
}

#[tokio::test]
async fn lists_of_all_topics_leave_hidden_ones_out() {
    let mut rig = Rig::new().await;
    for name in ["a", "b", "c"] {
        rig.admin.create_topic(name, 1, &[]).await;
    }
    rig.allow(&[(Describe, Topic, "a"), (Read, Topic, "c")]).await;
    let mut client = rig.anonymous().await;
    let all = client.call(12, &MetadataRequest { topics: None, ..Default::default() }).await.topics;
    let names: Vec<_> = all.iter().map(|topic| topic.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["a", "c"]);
    let pages = client.call(0, &DescribeTopicPartitionsRequest::default()).await;
    let names: Vec<_> = pages.topics.iter().map(|topic| topic.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["a", "c"]);
    let first_page = DescribeTopicPartitionsRequest { response_partition_limit: 1, ..Default::default() };
    let page = client.call(0, &first_page).await;
    assert_eq!(page.next_cursor.map(|cursor| cursor.topic_name).as_deref(), Some("c"), "not the hidden one");
    let named =
        describe_topic_partitions_request::TopicRequest { name: "b".to_owned(), ..Default::default() };
    let request = DescribeTopicPartitionsRequest { topics: vec![named], ..Default::default() };
    let hidden = client.call(0, &request).await.topics.remove(0);
    assert_eq!((error(hidden.error_code), hidden.topic_id), (TopicAuthorizationFailed, [0; 16]));
    assert!(hidden.partitions.is_empty());
}

#[tokio::test]
async fn a_topic_is_created_automatically_only_by_a_client_that_may_create_it() {
    let rig = Rig::new().await;
    rig.allow(&[(Write, Topic, "new"), (Write, Topic, "newer")]).await;
    let mut client = rig.anonymous().await;
    let refused = metadata(&mut client, by_name("new"), true).await;
    assert_eq!((error(refused.error_code), refused.topic_id), (TopicAuthorizationFailed, [0; 16]));
    assert!(rig.server.node().image().topic("new").is_none());
    let unknown = metadata(&mut client, by_name("new"), false).await;
    assert_eq!(error(unknown.error_code), UnknownTopicOrPartition, "it may be described");
    rig.allow(&[(Create, Topic, "new")]).await;
    assert_eq!(error(metadata(&mut client, by_name("new"), true).await.error_code), OK);
    rig.allow(&[of_cluster(Create)]).await;
    assert_eq!(error(metadata(&mut client, by_name("newer"), true).await.error_code), OK);
}

async fn delete(client: &mut Client, topics: &[DeleteTopicState]) -> Vec<DeletableTopicResult> {
    let request = DeleteTopicsRequest { topics: topics.to_vec(), timeout_ms: 5_000, ..Default::default() };
    client.call(6, &request).await.responses
}

fn named(name: &str) -> DeleteTopicState {
    DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }
}

fn with_id(topic_id: [u8; 16]) -> DeleteTopicState {
    DeleteTopicState { topic_id, ..Default::default() }
}

#[tokio::test]
async fn deletion_tells_no_name_and_no_existence_of_a_hidden_topic() {
    let mut rig = Rig::new().await;
    let id = rig.admin.create_topic("secret", 1, &[]).await;
    let mut client = rig.anonymous().await;
    // The name and the id of one topic are two targets for a client that may not know that.
    let both =
        delete(&mut client, &[named("secret"), with_id(id), named("nothing"), with_id(UNKNOWN_ID)]).await;
    let told: Vec<_> = both
        .iter()
        .map(|result| (result.name.as_deref(), result.topic_id, error(result.error_code)))
        .collect();
    let expected = [
        (Some("secret"), [0; 16], TopicAuthorizationFailed),
        (None, id, TopicAuthorizationFailed),
        (Some("nothing"), [0; 16], TopicAuthorizationFailed),
        (None, UNKNOWN_ID, UnknownTopicId),
    ];
    assert_eq!(told, expected);
    assert_eq!(both[0].error_message, both[2].error_message);

    rig.allow(&[(Describe, Topic, "nothing")]).await;
    let missing = delete(&mut client, &[named("nothing")]).await.remove(0);
    assert_eq!(
        error(missing.error_code),
        UnknownTopicOrPartition,
        "who may see it is told that it is missing"
    );

    rig.allow(&[(Describe, Topic, "secret")]).await;
    let seen = delete(&mut client, &[with_id(id)]).await.remove(0);
    assert_eq!((error(seen.error_code), seen.name.as_deref()), (TopicAuthorizationFailed, Some("secret")));
    let twice = delete(&mut client, &[named("secret"), with_id(id)]).await;
    assert_eq!(twice.iter().map(|result| error(result.error_code)).collect::<Vec<_>>(), [InvalidRequest]);
    assert!(rig.server.node().image().topic("secret").is_some());

    rig.allow(&[(Delete, Topic, "secret")]).await;
    let deleted = delete(&mut client, &[with_id(id)]).await.remove(0);
    assert_eq!((error(deleted.error_code), deleted.name.as_deref()), (OK, Some("secret")));
}

/// As in Kafka, the right to find share-partitions is asked before their key is read.
#[tokio::test]
async fn a_bad_key_of_a_share_partition_is_told_to_those_who_may_find_one() {
    let mut rig = Rig::new().await;
    let find = |key_type| FindCoordinatorRequest {
        key_type,
        coordinator_keys: vec!["no key".to_owned()],
        ..Default::default()
    };
    let mut client = rig.anonymous().await;
    let code = async |client: &mut Client, key_type| {
        error(client.call(6, &find(key_type)).await.coordinators[0].error_code)
    };
    assert_eq!(code(&mut client, 2).await, ClusterAuthorizationFailed);
    assert_eq!(code(&mut rig.admin, 2).await, InvalidRequest);
    assert_eq!(code(&mut client, 9).await, InvalidRequest, "a type that is none");
}

/// As in Kafka, the group is looked at even if no topic is left.
#[tokio::test]
async fn the_state_of_a_share_group_is_told_to_those_who_may_use_it_and_none_of_its_topics() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("secret", 1, &[]).await;
    rig.allow(&[(Read, Group, "g"), (Delete, Group, "g")]).await;
    let mut client = rig.anonymous().await;
    let alter = AlterShareGroupOffsetsRequest {
        group_id: "g".to_owned(),
        topics: vec![alter_share_group_offsets_request::AlterShareGroupOffsetsRequestTopic {
            topic_name: "secret".to_owned(),
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let delete = DeleteShareGroupOffsetsRequest {
        group_id: "g".to_owned(),
        topics: vec![delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic {
            topic_name: "secret".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(error(client.call(0, &delete).await.error_code), GroupIdNotFound);
    assert_eq!(error(client.call(0, &alter).await.error_code), OK);
    assert_eq!(error(client.call(0, &delete).await.error_code), GroupIdNotFound, "no group was made");
    assert_eq!(error(rig.admin.call(0, &alter).await.error_code), OK, "this makes the group");
    let altered = client.call(0, &alter).await;
    assert_eq!(error(altered.error_code), OK);
    assert_eq!(error(altered.responses[0].partitions[0].error_code), TopicAuthorizationFailed);
    let deleted = client.call(0, &delete).await;
    assert_eq!(error(deleted.error_code), OK);
    assert_eq!(error(deleted.responses[0].error_code), TopicAuthorizationFailed);
    let join = ShareGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: "m".to_owned(),
        subscribed_topic_names: Some(vec!["secret".to_owned()]),
        ..Default::default()
    };
    assert_eq!(error(rig.admin.call(1, &join).await.error_code), OK);
    assert_eq!(error(client.call(0, &alter).await.error_code), NonEmptyGroup);
    assert_eq!(error(client.call(0, &delete).await.error_code), NonEmptyGroup);
}

#[tokio::test]
async fn a_rule_for_everything_of_the_cluster_allows_to_delete_topics() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    rig.allow(&[of_cluster(tailrace_identity::acl::Operation::All)]).await;
    let mut client = rig.anonymous().await;
    assert_eq!(error(delete(&mut client, &[named("t")]).await[0].error_code), OK);
}

#[tokio::test]
async fn records_by_id_tell_an_unknown_id_and_hide_a_known_one() {
    let mut rig = Rig::new().await;
    let id = rig.admin.create_topic("secret", 1, &[]).await;
    let mut client = rig.anonymous().await;
    for (id, code) in [(id, TopicAuthorizationFailed), (UNKNOWN_ID, UnknownTopicId)] {
        let mut fetch = fetch_request("", 0, 0);
        fetch.topics[0].topic_id = id;
        let fetched = client.call(13, &fetch).await.responses.remove(0);
        assert_eq!((error(fetched.partitions[0].error_code), fetched.topic_id), (code, id));
        let mut produce = produce_request("", 0, -1, batch(Default::default(), &[1]));
        produce.topic_data[0].topic_id = id;
        let produced = client.call(13, &produce).await.responses.remove(0);
        assert_eq!((error(produced.partition_responses[0].error_code), produced.name.as_str()), (code, ""));
    }
}

#[tokio::test]
async fn the_settings_of_a_created_topic_are_for_clients_that_may_describe_them() {
    let rig = Rig::new().await;
    rig.allow(&[(Create, Topic, "a"), (Create, Topic, "b"), (DescribeConfigs, Topic, "b")]).await;
    let mut client = rig.anonymous().await;
    let topics = vec![topic("a", 2, &[]), topic("b", 2, &[])];
    let created = client.call(7, &CreateTopicsRequest { topics, ..Default::default() }).await.topics;
    let [a, b] = &created[..] else { panic!("two answers") };
    assert_eq!((error(a.error_code), error(a.topic_config_error_code)), (OK, TopicAuthorizationFailed));
    assert_eq!((a.num_partitions, a.replication_factor), (-1, -1));
    assert!(a.configs.as_ref().is_none_or(Vec::is_empty));
    assert_ne!(a.topic_id, [0; 16]);
    assert_eq!((error(b.topic_config_error_code), b.num_partitions, b.replication_factor), (OK, 2, 1));
    assert!(b.configs.as_ref().is_some_and(|configs| !configs.is_empty()));
}

#[tokio::test]
async fn a_right_to_change_is_no_right_to_read() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    rig.allow(&[(Alter, Topic, "t"), (AlterConfigs, Topic, "t"), (Write, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let answer = client.call(12, &fetch_request("t", 0, 0)).await;
    assert_eq!(error(answer.responses[0].partitions[0].error_code), TopicAuthorizationFailed);
}
