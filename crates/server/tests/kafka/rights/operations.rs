//! The masks of authorized operations, and whose rights count.

use tailrace_identity::acl::Operation::{All, Alter, AlterConfigs, Describe, Read, Write};
use tailrace_identity::acl::ResourceKind::{Group, Topic};
use tailrace_kafka_wire::ErrorCode::{
    self, ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed,
};
use tailrace_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use tailrace_kafka_wire::messages::{
    AlterConfigsRequest, ConsumerGroupDescribeRequest, DescribeClusterRequest, DescribeGroupsRequest,
    DescribeTopicPartitionsRequest, IncrementalAlterConfigsRequest, JoinGroupRequest,
    ShareGroupDescribeRequest, alter_configs_request, incremental_alter_configs_request,
};

use super::{Rig, of_cluster};
use crate::common::rig::fetch_request;
use crate::common::{Client, OK, error};

const NOT_ASKED: i32 = i32::MIN;

async fn masks(client: &mut Client, asked: bool) -> (i32, i32) {
    let topic = MetadataRequestTopic { name: Some("t".to_owned()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        include_topic_authorized_operations: asked,
        include_cluster_authorized_operations: asked,
        ..Default::default()
    };
    let answer = client.call(8, &request).await;
    (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations)
}

#[tokio::test]
async fn masks_tell_what_a_client_may_do_if_it_asks() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    let mut client = rig.anonymous().await;
    assert_eq!(masks(&mut client, true).await, (NOT_ASKED, 0));
    rig.allow(&[(Read, Topic, "t"), of_cluster(Describe)]).await;
    let mask = |operations: &[tailrace_identity::acl::Operation]| {
        operations.iter().fold(0, |mask, operation| mask | 1 << operation.code())
    };
    assert_eq!(masks(&mut client, true).await, (mask(&[Read, Describe]), mask(&[Describe])));
    assert_eq!(masks(&mut client, false).await, (NOT_ASKED, NOT_ASKED));
    let page = client.call(0, &DescribeTopicPartitionsRequest::default()).await;
    assert_eq!(page.topics[0].topic_authorized_operations, mask(&[Read, Describe]));
    assert_eq!(masks(&mut rig.admin, true).await, (3576, 8096));
}

#[tokio::test]
async fn the_cluster_and_groups_have_masks_too() {
    let rig = Rig::new().await;
    rig.allow(&[(Read, Group, "g")]).await;
    let mut client = rig.anonymous().await;
    let cluster =
        |asked| DescribeClusterRequest { include_cluster_authorized_operations: asked, ..Default::default() };
    assert_eq!(client.call(1, &cluster(true)).await.cluster_authorized_operations, 0);
    assert_eq!(client.call(1, &cluster(false)).await.cluster_authorized_operations, NOT_ASKED);
    let joins = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 6_000,
        rebalance_timeout_ms: 6_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![Default::default()],
        ..Default::default()
    };
    client.call(3, &joins).await;
    let described = |asked| DescribeGroupsRequest {
        groups: vec!["g".to_owned()],
        include_authorized_operations: asked,
        ..Default::default()
    };
    let group = client.call(5, &described(true)).await.groups.remove(0);
    let expected = 1 << Read.code() | 1 << Describe.code();
    assert_eq!((error(group.error_code), group.authorized_operations), (OK, expected));
    assert_eq!(client.call(5, &described(false)).await.groups[0].authorized_operations, NOT_ASKED);
}

/// As in Kafka, groups with an error come without operations, and a topic that is missing with them. A
/// classic group that is missing is dead and without an error in old versions.
#[tokio::test]
async fn operations_are_told_of_what_is_there() {
    let mut rig = Rig::new().await;
    let topic = MetadataRequestTopic { name: Some("none".to_owned()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    let topic = rig.admin.call(8, &request).await.topics.remove(0);
    assert_eq!(error(topic.error_code), ErrorCode::UnknownTopicOrPartition);
    assert_ne!(topic.topic_authorized_operations, NOT_ASKED);
    let groups = || vec!["g".to_owned()];
    let request = ConsumerGroupDescribeRequest {
        group_ids: groups(),
        include_authorized_operations: true,
        ..Default::default()
    };
    let consumer = rig.admin.call(1, &request).await.groups.remove(0);
    let missing = (ErrorCode::GroupIdNotFound, NOT_ASKED);
    assert_eq!((error(consumer.error_code), consumer.authorized_operations), missing);
    let request = ShareGroupDescribeRequest {
        group_ids: groups(),
        include_authorized_operations: true,
        ..Default::default()
    };
    let share = rig.admin.call(1, &request).await.groups.remove(0);
    assert_eq!((error(share.error_code), share.authorized_operations), missing);
    let request =
        DescribeGroupsRequest { groups: groups(), include_authorized_operations: true, ..Default::default() };
    let classic = rig.admin.call(6, &request).await.groups.remove(0);
    assert_eq!((error(classic.error_code), classic.authorized_operations), missing);
    assert_eq!(classic.group_state, "Dead");
    let dead = rig.admin.call(5, &request).await.groups.remove(0);
    assert_eq!((error(dead.error_code), dead.group_state.as_str()), (OK, "Dead"));
    assert_ne!(dead.authorized_operations, NOT_ASKED);
    let refused = rig.anonymous().await.call(5, &request).await.groups.remove(0);
    assert_eq!((error(refused.error_code), refused.group_state.as_str()), (GroupAuthorizationFailed, ""));
    assert_eq!(refused.authorized_operations, NOT_ASKED);
}

async fn fetched(client: &mut Client) -> ErrorCode {
    let mut request = fetch_request("t", 0, 0);
    request.max_wait_ms = 0;
    error(client.call(12, &request).await.responses[0].partitions[0].error_code)
}

#[tokio::test]
async fn a_user_has_its_own_rights_and_not_those_of_strangers() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    let mut alice = rig.user("alice").await;
    let mut stranger = rig.anonymous().await;
    rig.allow(&[(Read, Topic, "t")]).await;
    assert_eq!((fetched(&mut stranger).await, fetched(&mut alice).await), (OK, TopicAuthorizationFailed));
    rig.allow_user("alice", &[(All, Topic, "t")]).await;
    rig.deny((Read, Topic, "t")).await;
    assert_eq!((fetched(&mut stranger).await, fetched(&mut alice).await), (TopicAuthorizationFailed, OK));
    assert_eq!(fetched(&mut rig.admin).await, OK, "a super user needs no rule");
}

#[tokio::test]
async fn rules_that_are_only_tried_refuse_nothing() {
    let mut rig = Rig::with(&[("tailrace.authorizer.report.only", "true")]).await;
    rig.admin.create_topic("t", 1, &[]).await;
    let mut client = rig.anonymous().await;
    assert_eq!(fetched(&mut client).await, OK);
    rig.deny((Write, Topic, "t")).await;
    assert_eq!(client.produce("t", 0, &[1]).await, 0);
    assert_eq!(masks(&mut client, true).await, (3576, 8096));
}

#[tokio::test]
async fn the_right_to_change_settings_does_not_switch_the_rules_off() {
    let rig = Rig::new().await;
    rig.allow(&[of_cluster(AlterConfigs)]).await;
    let mut client = rig.anonymous().await;
    let (key, value) = ("tailrace.authorizer.report.only".to_owned(), Some("true".to_owned()));
    let config = incremental_alter_configs_request::AlterableConfig {
        name: key.clone(),
        value: value.clone(),
        ..Default::default()
    };
    let resource = incremental_alter_configs_request::AlterConfigsResource {
        resource_type: 4,
        configs: vec![config],
        ..Default::default()
    };
    let change = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(1, &change).await;
    assert_eq!(error(answer.responses[0].error_code), ClusterAuthorizationFailed);
    let config = alter_configs_request::AlterableConfig { name: key, value, ..Default::default() };
    let resource = alter_configs_request::AlterConfigsResource {
        resource_type: 4,
        configs: vec![config],
        ..Default::default()
    };
    let replacement = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(2, &replacement).await;
    assert_eq!(error(answer.responses[0].error_code), ClusterAuthorizationFailed);
    assert!(!rig.server.node().image().broker().tailrace_authorizer_report_only);
    rig.allow(&[of_cluster(Alter)]).await;
    assert_eq!(error(client.call(1, &change).await.responses[0].error_code), OK);
    assert!(rig.server.node().image().broker().tailrace_authorizer_report_only);
}
