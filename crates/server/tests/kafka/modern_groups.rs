//! Consumer groups (KIP-848) and the membership of share groups (KIP-932) over the wire.

use std::time::Duration;

use crate::common::{Client, TestServer};
use bytes::Bytes;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::consumer_group_heartbeat_request::{
    ConsumerGroupHeartbeatRequest, TopicPartitions,
};
use tailrace_kafka_wire::messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use tailrace_kafka_wire::messages::create_partitions_request::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use tailrace_kafka_wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use tailrace_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::sync_group_request::SyncGroupRequest;
use tailrace_kafka_wire::messages::{
    ConsumerGroupDescribeRequest, HeartbeatRequest, ListGroupsRequest, ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
};

const AT_ONCE: &[(&str, &str)] = &[
    ("group.consumer.assignment.interval.ms", "0"),
    ("group.share.assignment.interval.ms", "0"),
    ("group.initial.rebalance.delay.ms", "0"),
];

async fn started() -> (TestServer, Client, [u8; 16]) {
    let server = TestServer::with(AT_ONCE).await;
    let mut client = server.connect().await;
    let id = client.create_topic("t", 4, &[]).await;
    (server, client, id)
}

fn join(group: &str, member: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: group.to_owned(),
        member_id: member.to_owned(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn alive(group: &str, member: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: group.to_owned(),
        member_id: member.to_owned(),
        member_epoch: epoch,
        ..Default::default()
    }
}

fn owning(
    mut request: ConsumerGroupHeartbeatRequest,
    topic: [u8; 16],
    partitions: &[i32],
) -> ConsumerGroupHeartbeatRequest {
    let owned = TopicPartitions { topic_id: topic, partitions: partitions.to_vec(), ..Default::default() };
    request.topic_partitions = Some(vec![owned]);
    request
}

/// Returns the partitions of the only topic in the answer. `None` if the answer has no assignment.
fn assigned(answer: &ConsumerGroupHeartbeatResponse) -> Option<Vec<i32>> {
    let topics = &answer.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().flat_map(|topic| topic.partitions.clone()).collect())
}

async fn beat(
    client: &mut Client,
    request: &ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    let answer = client.call(1, request).await;
    assert_eq!(answer.error_code, 0, "{answer:?}");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn two_members_share_a_topic_and_outlive_a_restart() {
    let (mut server, mut client, topic) = started().await;
    let first = beat(&mut client, &join("g", "a")).await;
    assert_eq!((first.member_epoch, assigned(&first)), (1, Some(vec![0, 1, 2, 3])));
    assert_eq!(first.heartbeat_interval_ms, 5_000);

    // The second member waits until the first has given up its partitions.
    let second = beat(&mut client, &join("g", "b")).await;
    assert_eq!((second.member_epoch, assigned(&second)), (2, Some(vec![])));
    let first = beat(&mut client, &alive("g", "a", 1)).await;
    assert_eq!((first.member_epoch, assigned(&first)), (1, Some(vec![0, 1])));
    let second = beat(&mut client, &alive("g", "b", 2)).await;
    assert_eq!(assigned(&second), None, "not before the first member has confirmed");
    let first = beat(&mut client, &owning(alive("g", "a", 1), topic, &[0, 1])).await;
    assert_eq!((first.member_epoch, assigned(&first)), (2, None));

    server.restart().await;
    let mut client = server.connect().await;
    let second = beat(&mut client, &alive("g", "b", 2)).await;
    assert_eq!((second.member_epoch, assigned(&second)), (2, Some(vec![2, 3])));

    let described = ConsumerGroupDescribeRequest {
        group_ids: vec!["g".to_owned(), "x".to_owned()],
        ..Default::default()
    };
    for version in 0..=1 {
        let described = client.call(version, &described).await;
        let group = &described.groups[0];
        assert_eq!((group.error_code, group.group_state.as_str()), (0, "Stable"));
        assert_eq!(
            (group.group_epoch, group.assignment_epoch, group.assignor_name.as_str()),
            (2, 2, "uniform")
        );
        let members: Vec<_> = group
            .members
            .iter()
            .map(|member| {
                (member.member_id.as_str(), member.assignment.topic_partitions[0].partitions.clone())
            })
            .collect();
        assert_eq!(members, [("a", vec![0, 1]), ("b", vec![2, 3])]);
        assert_eq!(group.members[0].target_assignment, group.members[0].assignment);
        assert_eq!(described.groups[1].error_code, ErrorCode::GroupIdNotFound.code());
    }

    // A member may commit offsets in its current epoch, or in an earlier epoch in which it already had the
    // partition.
    for (member, epoch, partition, expected) in [
        ("a", 2, 0, ErrorCode::None),
        ("a", 1, 0, ErrorCode::None),
        ("b", 1, 2, ErrorCode::StaleMemberEpoch),
        ("b", 3, 2, ErrorCode::StaleMemberEpoch),
        ("c", 2, 2, ErrorCode::UnknownMemberId),
    ] {
        let partition = OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: 7,
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        let commit = OffsetCommitRequest {
            group_id: "g".to_owned(),
            member_id: member.to_owned(),
            generation_id_or_member_epoch: epoch,
            topics: vec![topic],
            ..Default::default()
        };
        let answer = client.call(9, &commit).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, expected.code(), "{member} in {epoch}");
    }

    // One member leaves, and the other gets everything.
    let goodbye = beat(&mut client, &alive("g", "a", -1)).await;
    assert_eq!(goodbye.member_epoch, -1);
    let second = beat(&mut client, &alive("g", "b", 2)).await;
    assert_eq!((second.member_epoch, assigned(&second)), (3, Some(vec![0, 1, 2, 3])));
    let listed = client
        .call(5, &ListGroupsRequest { types_filter: vec!["consumer".to_owned()], ..Default::default() })
        .await;
    assert_eq!((listed.groups[0].group_id.as_str(), listed.groups[0].group_state.as_str()), ("g", "Stable"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused() {
    let (mut server, mut client, _) = started().await;
    beat(&mut client, &join("g", "a")).await;
    beat(&mut client, &ConsumerGroupHeartbeatRequest { instance_id: Some("i".to_owned()), ..join("g", "s") })
        .await;
    let cases = [
        (
            ConsumerGroupHeartbeatRequest { member_id: String::new(), ..join("g", "") },
            ErrorCode::InvalidRequest,
        ),
        (
            ConsumerGroupHeartbeatRequest { rebalance_timeout_ms: -1, ..join("g", "b") },
            ErrorCode::InvalidRequest,
        ),
        (
            ConsumerGroupHeartbeatRequest { topic_partitions: None, ..join("g", "b") },
            ErrorCode::InvalidRequest,
        ),
        (
            ConsumerGroupHeartbeatRequest { subscribed_topic_names: None, ..join("g", "b") },
            ErrorCode::InvalidRequest,
        ),
        (
            ConsumerGroupHeartbeatRequest { rack_id: Some(String::new()), ..join("g", "b") },
            ErrorCode::InvalidRequest,
        ),
        (join("", "b"), ErrorCode::InvalidRequest),
        (alive("g", "a", -3), ErrorCode::InvalidRequest),
        (alive("g", "a", -2), ErrorCode::InvalidRequest),
        (alive("g", "a", 9), ErrorCode::FencedMemberEpoch),
        (alive("g", "b", 1), ErrorCode::UnknownMemberId),
        (alive("x", "a", 1), ErrorCode::GroupIdNotFound),
        (
            ConsumerGroupHeartbeatRequest { server_assignor: Some("sticky".to_owned()), ..join("g", "b") },
            ErrorCode::UnsupportedAssignor,
        ),
        (
            ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some("(".to_owned()), ..join("g", "b") },
            ErrorCode::InvalidRegularExpression,
        ),
        (
            ConsumerGroupHeartbeatRequest { instance_id: Some("i".to_owned()), ..join("g", "b") },
            ErrorCode::UnreleasedInstanceId,
        ),
        (
            ConsumerGroupHeartbeatRequest { instance_id: Some("i".to_owned()), ..alive("g", "b", 2) },
            ErrorCode::FencedInstanceId,
        ),
    ];
    for (request, expected) in cases {
        let answer = client.call(1, &request).await;
        assert_eq!(answer.error_code, expected.code(), "{request:?} {answer:?}");
        assert!(answer.error_message.is_some_and(|text| !text.is_empty()), "{request:?}");
    }
    // None of these requests left a trace.
    let request = ConsumerGroupDescribeRequest { group_ids: vec!["g".to_owned()], ..Default::default() };
    let described = client.call(1, &request).await;
    assert_eq!(described.groups[0].members.len(), 2);
    // Clients of version 0 are given an id.
    let answer = client.call(0, &join("g", "")).await;
    assert_eq!((answer.error_code, answer.member_id.map(|id| id.len())), (0, Some(22)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_comes_back_to_its_partitions() {
    let (mut server, mut client, _) = started().await;
    let fixed = |request| ConsumerGroupHeartbeatRequest { instance_id: Some("i".to_owned()), ..request };
    let first = beat(&mut client, &fixed(join("g", "a"))).await;
    beat(&mut client, &fixed(alive("g", "a", -2))).await;
    let again = beat(&mut client, &fixed(join("g", "b"))).await;
    assert_eq!((again.member_epoch, assigned(&again)), (first.member_epoch, assigned(&first)));
    let fenced = client.call(1, &fixed(alive("g", "a", first.member_epoch))).await;
    assert_eq!(fenced.error_code, ErrorCode::FencedInstanceId.code());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_come_and_grow_are_noticed() {
    let (mut server, mut client, _) = started().await;
    let regex = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some("n.w".to_owned()),
        ..join("g", "a")
    };
    let first = beat(&mut client, &regex).await;
    assert_eq!(assigned(&first), Some(vec![]));
    let topic = client.create_topic("new", 2, &[]).await;
    client.create_topic("newer", 2, &[]).await;
    let (epoch, found) = next_assignment(&mut client, alive("g", "a", first.member_epoch)).await;
    assert_eq!(found, [0, 1]);

    let topics = vec![CreatePartitionsTopic { name: "new".to_owned(), count: 4, ..Default::default() }];
    let grow = CreatePartitionsRequest { topics, timeout_ms: 5_000, ..Default::default() };
    assert_eq!(client.call(3, &grow).await.results[0].error_code, 0);
    let (_, found) = next_assignment(&mut client, owning(alive("g", "a", epoch), topic, &[0, 1])).await;
    assert_eq!(found, [0, 1, 2, 3]);
    server.stop().await;
}

/// Sends heartbeats until the member gets an assignment. Returns its epoch and the partitions of the only
/// topic.
async fn next_assignment(client: &mut Client, mut request: ConsumerGroupHeartbeatRequest) -> (i32, Vec<i32>) {
    for _ in 0..100 {
        let answer = beat(client, &request).await;
        request.member_epoch = answer.member_epoch;
        if let Some(found) = assigned(&answer) {
            return (answer.member_epoch, found);
        }
        // The pause between heartbeats. The number of heartbeats is bounded.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the member got no assignment");
}

fn subscription(owned: &[i32]) -> Bytes {
    let mut bytes = b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff\0\0\0\x01\0\x01t".to_vec();
    bytes.extend(i32::try_from(owned.len()).expect("few partitions").to_be_bytes());
    owned.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
    bytes.into()
}

fn classic_join(member: &str, owned: &[i32]) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".to_owned(),
        member_id: member.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "cooperative-sticky".to_owned(),
            metadata: subscription(owned),
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn synced(client: &mut Client, member: &str, generation: i32) -> Vec<u8> {
    let sync = SyncGroupRequest {
        group_id: "g".to_owned(),
        member_id: member.to_owned(),
        generation_id: generation,
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("cooperative-sticky".to_owned()),
        ..Default::default()
    };
    let answer = client.call(5, &sync).await;
    assert_eq!(answer.error_code, 0);
    answer.assignment.to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classic_group_is_upgraded_and_downgraded_while_it_works() {
    let (mut server, mut client, topic) = started().await;
    // A classic group with one member, which is its own leader.
    let asked = client.call(9, &classic_join("", &[])).await;
    assert_eq!(asked.error_code, ErrorCode::MemberIdRequired.code());
    let classic = asked.member_id;
    let joined = client.call(9, &classic_join(&classic, &[])).await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
    let everything =
        b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\xff\xff\xff\xff";
    let sync = SyncGroupRequest {
        group_id: "g".to_owned(),
        member_id: classic.clone(),
        generation_id: 1,
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("cooperative-sticky".to_owned()),
        assignments: vec![tailrace_kafka_wire::messages::sync_group_request::SyncGroupRequestAssignment {
            member_id: classic.clone(),
            assignment: Bytes::from_static(everything),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(5, &sync).await.error_code, 0);

    // A member of the new protocol joins. From now on the group is a consumer group.
    let modern = beat(&mut client, &join("g", "m")).await;
    assert_eq!((modern.member_epoch, assigned(&modern)), (2, Some(vec![])));
    let heartbeat = |generation| HeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: classic.clone(),
        generation_id: generation,
        ..Default::default()
    };
    let told = client.call(4, &heartbeat(1)).await;
    assert_eq!(told.error_code, ErrorCode::RebalanceInProgress.code());
    let joined = client.call(9, &classic_join(&classic, &[0, 1, 2, 3])).await;
    assert_eq!((joined.error_code, joined.generation_id, joined.leader.as_str()), (0, 1, ""));
    assert_eq!(
        synced(&mut client, &classic, 1).await,
        b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\xff\xff\xff\xff"
    );
    let joined = client.call(9, &classic_join(&classic, &[0, 1])).await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 2));
    synced(&mut client, &classic, 2).await;
    assert_eq!(client.call(4, &heartbeat(2)).await.error_code, 0);
    let modern = beat(&mut client, &alive("g", "m", 2)).await;
    assert_eq!(assigned(&modern), Some(vec![2, 3]));
    let request = ConsumerGroupDescribeRequest { group_ids: vec!["g".to_owned()], ..Default::default() };
    let described = client.call(1, &request).await;
    let mut types: Vec<i8> = described.groups[0].members.iter().map(|member| member.member_type).collect();
    types.sort_unstable();
    assert_eq!(types, [0, 1]);

    // It leaves again. The group is classic again and rebalances.
    beat(&mut client, &owning(alive("g", "m", -1), topic, &[2, 3])).await;
    let told = client.call(4, &heartbeat(2)).await;
    assert_eq!(told.error_code, ErrorCode::RebalanceInProgress.code());
    let joined = client.call(9, &classic_join(&classic, &[0, 1])).await;
    assert_eq!((joined.error_code, joined.leader.as_str()), (0, classic.as_str()));
    let listed = client.call(5, &ListGroupsRequest::default()).await;
    assert_eq!(listed.groups[0].group_type, "classic");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_share_group_get_partitions_once_there_is_state() {
    let (mut server, mut client, topic) = started().await;
    let join = |member: &str| ShareGroupHeartbeatRequest {
        group_id: "s".to_owned(),
        member_id: member.to_owned(),
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        ..Default::default()
    };
    let alive = |member: &str, member_epoch| ShareGroupHeartbeatRequest {
        group_id: "s".to_owned(),
        member_id: member.to_owned(),
        member_epoch,
        ..Default::default()
    };
    let mut epoch = client.call(1, &join("a")).await.member_epoch;
    assert_eq!(epoch, 1);
    let mut found = None;
    for _ in 0..200 {
        let answer = client.call(1, &alive("a", epoch)).await;
        assert_eq!(answer.error_code, 0);
        epoch = answer.member_epoch;
        if let Some(assignment) = answer.assignment {
            found = Some(assignment);
            break;
        }
        // The pause between heartbeats. The number of heartbeats is bounded.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let found = found.expect("an assignment");
    assert_eq!(
        (found.topic_partitions[0].topic_id, &found.topic_partitions[0].partitions[..]),
        (topic, &[0, 1, 2, 3][..])
    );

    // With two members, each gets half. Nothing has to be revoked first.
    let second = client.call(1, &join("b")).await;
    let mut halves = second.assignment.expect("an assignment").topic_partitions.remove(0).partitions;
    assert_eq!(halves.len(), 2);
    let first = client.call(1, &alive("a", epoch)).await;
    halves.extend(first.assignment.expect("an assignment").topic_partitions.remove(0).partitions);
    halves.sort_unstable();
    assert_eq!(halves, [0, 1, 2, 3]);

    server.restart().await;
    let mut client = server.connect().await;
    let request =
        ShareGroupDescribeRequest { group_ids: vec!["s".to_owned(), "x".to_owned()], ..Default::default() };
    let described = client.call(1, &request).await;
    let group = &described.groups[0];
    assert_eq!(
        (group.error_code, group.group_state.as_str(), group.assignor_name.as_str()),
        (0, "Stable", "simple")
    );
    assert_eq!(group.members.len(), 2);
    assert_eq!(described.groups[1].error_code, ErrorCode::GroupIdNotFound.code());
    let refused = client.call(1, &alive("a", 99)).await;
    assert_eq!(refused.error_code, ErrorCode::FencedMemberEpoch.code());
    let refused = client.call(1, &alive("c", 1)).await;
    assert_eq!(refused.error_code, ErrorCode::UnknownMemberId.code());
    for member in ["a", "b"] {
        assert_eq!(client.call(1, &alive(member, -1)).await.member_epoch, -1);
    }
    let listed = client.call(5, &ListGroupsRequest::default()).await;
    assert_eq!(
        (listed.groups[0].group_type.as_str(), listed.groups[0].group_state.as_str()),
        ("share", "Empty")
    );
    server.stop().await;
}
