//! Lists have what a client may see, and groups do not tell the names of topics.

use tailrace_identity::acl::Operation::{Describe, Read, Write};
use tailrace_identity::acl::ResourceKind::{Group, Topic, TransactionalId};
use tailrace_kafka_wire::ErrorCode::{GroupAuthorizationFailed, TopicAuthorizationFailed};
use tailrace_kafka_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
};
use tailrace_kafka_wire::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use tailrace_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup};
use tailrace_kafka_wire::messages::{
    ConsumerGroupDescribeRequest, DescribeTransactionsRequest, InitProducerIdRequest, ListGroupsRequest,
    ListTransactionsRequest,
};

use super::{Rig, of_cluster};
use crate::common::{Client, OK, error};

async fn commit(client: &mut Client, group: &str, topics: &[&str]) -> Vec<i16> {
    let topic = |name: &&str| OffsetCommitRequestTopic {
        name: (*name).to_owned(),
        partitions: vec![OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() }],
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: -1,
        topics: topics.iter().map(topic).collect(),
        ..Default::default()
    };
    let mut topics = client.call(8, &request).await.topics;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    topics.iter().map(|topic| topic.partitions[0].error_code).collect()
}

async fn prepared() -> Rig {
    let mut rig = Rig::new().await;
    for name in ["t", "u"] {
        rig.admin.create_topic(name, 1, &[]).await;
    }
    rig
}

#[tokio::test]
async fn all_offsets_of_a_group_are_those_of_topics_that_may_be_described() {
    let mut rig = prepared().await;
    assert_eq!(commit(&mut rig.admin, "g", &["t", "u"]).await, [0, 0]);
    rig.allow(&[(Describe, Group, "g"), (Describe, Topic, "u")]).await;
    let mut client = rig.anonymous().await;
    let group = |group_id: &str| OffsetFetchRequestGroup {
        group_id: group_id.to_owned(),
        topics: None,
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group("g"), group("h")], ..Default::default() };
    let groups = client.call(8, &request).await.groups;
    let names: Vec<_> = groups[0].topics.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!((error(groups[0].error_code), names), (OK, vec!["u"]));
    assert_eq!(groups[0].topics[0].partitions[0].committed_offset, 7);
    assert_eq!(error(groups[1].error_code), GroupAuthorizationFailed);
}

#[tokio::test]
async fn offsets_are_committed_for_the_topics_that_may_be_read() {
    let mut rig = prepared().await;
    rig.allow(&[(Read, Group, "g"), (Read, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let refused = TopicAuthorizationFailed.code();
    assert_eq!(commit(&mut client, "g", &["a", "t", "u"]).await, [refused, 0, refused]);
    let all = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics: None, ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![all], ..Default::default() };
    let topics = rig.admin.call(8, &request).await.groups.remove(0).topics;
    assert_eq!(topics.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["t"]);
}

async fn groups(client: &mut Client) -> Vec<String> {
    let mut groups = client.call(4, &ListGroupsRequest::default()).await.groups;
    groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
    groups.into_iter().map(|group| group.group_id).collect()
}

#[tokio::test]
async fn groups_are_listed_that_may_be_described_or_all_to_who_may_describe_the_cluster() {
    let mut rig = prepared().await;
    for group in ["a", "b", "c"] {
        commit(&mut rig.admin, group, &["t"]).await;
    }
    let mut client = rig.anonymous().await;
    assert!(groups(&mut client).await.is_empty());
    rig.allow(&[(Describe, Group, "b"), (Read, Group, "c")]).await;
    assert_eq!(groups(&mut client).await, ["b", "c"]);
    rig.allow(&[of_cluster(Describe)]).await;
    assert_eq!(groups(&mut client).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn transactional_ids_are_listed_that_may_be_described() {
    let mut rig = prepared().await;
    for id in ["x", "y"] {
        let request = InitProducerIdRequest {
            transactional_id: Some(id.to_owned()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        assert_eq!(error(rig.admin.call(4, &request).await.error_code), OK);
    }
    rig.allow(&[(Write, TransactionalId, "y")]).await;
    let mut client = rig.anonymous().await;
    let request = ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    let states = client.call(1, &request).await.transaction_states;
    assert_eq!(states.iter().map(|state| state.transactional_id.as_str()).collect::<Vec<_>>(), ["y"]);
    assert_eq!(rig.admin.call(1, &request).await.transaction_states.len(), 2);
}

#[tokio::test]
async fn a_transaction_is_described_with_the_topics_that_may_be_described() {
    let mut rig = prepared().await;
    let id = "x".to_owned();
    let request = InitProducerIdRequest {
        transactional_id: Some(id.clone()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let producer = rig.admin.call(4, &request).await;
    assert_eq!(error(producer.error_code), OK);
    let topic = |name: &str| AddPartitionsToTxnTopic {
        name: name.to_owned(),
        partitions: vec![0],
        ..Default::default()
    };
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id.clone(),
        v3_and_below_producer_id: producer.producer_id,
        v3_and_below_producer_epoch: producer.producer_epoch,
        v3_and_below_topics: vec![topic("t"), topic("u")],
        ..Default::default()
    };
    for topic in rig.admin.call(3, &request).await.results_by_topic_v3_and_below {
        assert_eq!(error(topic.results_by_partition[0].partition_error_code), OK);
    }
    rig.allow(&[(Describe, TransactionalId, "x"), (Describe, Topic, "u")]).await;
    let request = DescribeTransactionsRequest { transactional_ids: vec![id], ..Default::default() };
    let topics = async |client: &mut Client| {
        let state = client.call(0, &request).await.transaction_states.remove(0);
        assert_eq!(error(state.error_code), OK);
        state.topics.into_iter().map(|topic| topic.topic).collect::<Vec<_>>()
    };
    let mut client = rig.anonymous().await;
    assert_eq!(topics(&mut client).await, ["u"]);
    assert_eq!(topics(&mut rig.admin).await, ["t", "u"]);
}

fn joins(group: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: group.to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 60_000,
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

#[tokio::test]
async fn an_expression_matches_only_topics_that_may_be_described() {
    let mut rig = prepared().await;
    let id = rig.admin.topic("t").await.topic_id;
    rig.allow(&[(Read, Group, "g"), (Describe, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let request =
        ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some(".*".to_owned()), ..joins("g") };
    let answer = client.call(1, &request).await;
    assert_eq!(error(answer.error_code), OK, "{:?}", answer.error_message);
    let topics = answer.assignment.expect("an assignment").topic_partitions;
    assert_eq!(topics.iter().map(|topic| topic.topic_id).collect::<Vec<_>>(), [id]);
}

#[tokio::test]
async fn a_group_is_described_without_members_if_one_of_their_topics_is_hidden() {
    let mut rig = prepared().await;
    let names = Some(vec!["t".to_owned(), "u".to_owned()]);
    let request = ConsumerGroupHeartbeatRequest { subscribed_topic_names: names, ..joins("g") };
    assert_eq!(error(rig.admin.call(1, &request).await.error_code), OK);
    rig.allow(&[(Describe, Group, "g"), (Describe, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec!["g".to_owned()],
        include_authorized_operations: true,
        ..Default::default()
    };
    let hidden = client.call(1, &request).await.groups.remove(0);
    assert_eq!(error(hidden.error_code), TopicAuthorizationFailed);
    assert!(hidden.members.is_empty());
    assert_eq!((hidden.group_state.as_str(), hidden.assignor_name.as_str()), ("", ""));
    assert_eq!((hidden.group_epoch, hidden.assignment_epoch), (0, 0));
    assert_eq!(hidden.authorized_operations, i32::MIN);
    rig.allow(&[(Describe, Topic, "u")]).await;
    let shown = client.call(1, &request).await.groups.remove(0);
    assert_eq!((error(shown.error_code), shown.members.len()), (OK, 1));
    assert_eq!(shown.authorized_operations, 1 << Describe.code());
}

#[tokio::test]
async fn a_hidden_name_in_a_subscription_refuses_the_whole_heartbeat() {
    let rig = prepared().await;
    rig.allow(&[(Read, Group, "g"), (Describe, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    for other in ["u", "none"] {
        let names = Some(vec!["t".to_owned(), other.to_owned()]);
        let request = ConsumerGroupHeartbeatRequest { subscribed_topic_names: names, ..joins("g") };
        let answer = client.call(1, &request).await;
        assert_eq!(error(answer.error_code), TopicAuthorizationFailed, "{other}");
        assert_eq!(answer.assignment, None);
    }
    assert!(groups(&mut client).await.is_empty(), "the group was not created");
}
