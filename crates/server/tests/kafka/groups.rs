//! Classic groups and offsets over the wire: every version of every API, restarts, and refusals.

use std::time::{Duration, Instant};

use crate::common::rig::eventually;
use crate::common::{Client, PATIENCE, TestServer};
use bytes::Bytes;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use tailrace_kafka_wire::messages::join_group_response::JoinGroupResponse;
use tailrace_kafka_wire::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use tailrace_kafka_wire::messages::list_groups_request::ListGroupsRequest;
use tailrace_kafka_wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::offset_delete_request::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use tailrace_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use tailrace_kafka_wire::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use tailrace_kafka_wire::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, HeartbeatRequest, TxnOffsetCommitRequest,
};

const TOPIC: &str = "t";
const AT_ONCE: (&str, &str) = ("group.initial.rebalance.delay.ms", "0");

async fn started(settings: &[(&str, &str)]) -> (TestServer, Client, [u8; 16]) {
    let server = TestServer::with(settings).await;
    let mut client = server.connect().await;
    let id = client.create_topic(TOPIC, 2, &[]).await;
    (server, client, id)
}

fn join(group: &str, member: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group.to_owned(),
        member_id: member.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Joins as clients of that version do.
async fn joined(client: &mut Client, version: i16, group: &str) -> JoinGroupResponse {
    let answer = client.call(version, &join(group, "")).await;
    if version < 4 {
        assert_eq!(answer.error_code, 0, "version {version}");
        return answer;
    }
    assert_eq!(answer.error_code, ErrorCode::MemberIdRequired.code(), "version {version}");
    assert!(answer.member_id.starts_with("test-"), "{}", answer.member_id);
    let answer = client.call(version, &join(group, &answer.member_id)).await;
    assert_eq!(answer.error_code, 0, "version {version}");
    answer
}

fn sync(group: &str, joined: &JoinGroupResponse, assignment: &'static [u8]) -> SyncGroupRequest {
    SyncGroupRequest {
        group_id: group.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: joined.member_id.clone(),
            assignment: Bytes::from_static(assignment),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn heartbeat(group: &str, joined: &JoinGroupResponse) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: group.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    }
}

fn leave(version: i16, group: &str, member: &str) -> LeaveGroupRequest {
    let request = LeaveGroupRequest { group_id: group.to_owned(), ..Default::default() };
    if version < 3 {
        return LeaveGroupRequest { member_id: member.to_owned(), ..request };
    }
    let identity = MemberIdentity { member_id: member.to_owned(), ..Default::default() };
    LeaveGroupRequest { members: vec![identity], ..request }
}

fn commit(group: &str, topic: (&str, [u8; 16]), offsets: &[(i32, i64)]) -> OffsetCommitRequest {
    let partition = |&(partition_index, committed_offset): &(i32, i64)| OffsetCommitRequestPartition {
        partition_index,
        committed_offset,
        committed_leader_epoch: 0,
        committed_metadata: Some("note".to_owned()),
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: group.to_owned(),
        topics: vec![OffsetCommitRequestTopic {
            name: topic.0.to_owned(),
            topic_id: topic.1,
            partitions: offsets.iter().map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn committed(client: &mut Client, version: i16, request: &OffsetCommitRequest) -> Vec<i16> {
    let answer = client.call(version, request).await;
    answer.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
}

/// Returns what OffsetFetch finds at version 8: partition, offset, error code.
async fn fetched(client: &mut Client, group: &str) -> Vec<(i32, i64, i16)> {
    let request = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.to_owned(),
            topics: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = client.call(8, &request).await;
    assert_eq!(answer.groups[0].error_code, 0);
    let partitions = answer.groups[0].topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|p| (p.partition_index, p.committed_offset, p.error_code)).collect()
}

#[tokio::test]
async fn a_member_of_every_version_joins_syncs_and_leaves() {
    let (_server, mut client, _) = started(&[AT_ONCE]).await;
    for version in 0..=9_i16 {
        let group = format!("group-{version}");
        let joined = joined(&mut client, version, &group).await;
        assert_eq!((joined.generation_id, &joined.leader), (1, &joined.member_id), "version {version}");
        assert_eq!(joined.protocol_name.as_deref(), Some("range"));
        assert_eq!(
            joined.protocol_type.as_deref(),
            (version >= 7).then_some("consumer"),
            "version {version}"
        );
        assert_eq!(joined.members.len(), 1);
        let synced = client.call(version.min(5), &sync(&group, &joined, b"assignment")).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"assignment"[..]), "version {version}");
        let alive = client.call(version.min(4), &heartbeat(&group, &joined)).await;
        assert_eq!(alive.error_code, 0, "version {version}");
        let left = client.call(version.min(5), &leave(version, &group, &joined.member_id)).await;
        assert_eq!(left.error_code, 0, "version {version}");
        assert!(left.members.iter().all(|member| member.error_code == 0));
        let again = client.call(version.min(5), &leave(version, &group, &joined.member_id)).await;
        // From version 3 on, the error is given for the member and not for the request, even if the group
        // does not exist.
        let nowhere = client.call(version.min(5), &leave(version, "nobody", &joined.member_id)).await;
        let unknown = ErrorCode::UnknownMemberId.code();
        let expected = if version < 3 { (unknown, vec![]) } else { (0, vec![unknown]) };
        for answer in [again, nowhere] {
            let of_members: Vec<i16> = answer.members.iter().map(|member| member.error_code).collect();
            assert_eq!((answer.error_code, of_members), expected, "version {version}");
        }
    }
}

#[tokio::test]
async fn offsets_of_every_version_are_stored_and_found() {
    let (_server, mut client, id) = started(&[]).await;
    for version in 2..=10_i16 {
        let group = format!("group-{version}");
        let offsets = [(0, i64::from(version)), (1, 100), (2, 7)];
        let codes = committed(&mut client, version, &commit(&group, (TOPIC, id), &offsets)).await;
        assert_eq!(codes, [0, 0, ErrorCode::UnknownTopicOrPartition.code()], "version {version}");
        let expected = [(0, i64::from(version), 0), (1, 100, 0)];
        assert_eq!(fetched(&mut client, &group).await, expected, "version {version}");
    }
    let unknown = committed(&mut client, 9, &commit("g", ("u", [0; 16]), &[(0, 1)])).await;
    assert_eq!(unknown, [ErrorCode::UnknownTopicOrPartition.code()]);
    let unknown = committed(&mut client, 10, &commit("g", ("", [9; 16]), &[(0, 1)])).await;
    assert_eq!(unknown, [ErrorCode::UnknownTopicId.code()]);
    let with_topics = |partition_indexes: Vec<i32>| {
        Some(vec![OffsetFetchRequestTopic {
            name: TOPIC.to_owned(),
            partition_indexes,
            ..Default::default()
        }])
    };
    for version in 1..=7_i16 {
        let request = OffsetFetchRequest {
            group_id: "group-6".to_owned(),
            topics: with_topics(vec![0, 5]),
            ..Default::default()
        };
        let answer = client.call(version, &request).await;
        let partitions = &answer.topics[0].partitions;
        assert_eq!((partitions[0].committed_offset, partitions[0].error_code), (6, 0), "version {version}");
        assert_eq!(partitions[0].metadata.as_deref(), Some("note"));
        assert_eq!(partitions[0].committed_leader_epoch, if version >= 5 { 0 } else { -1 });
        assert_eq!((partitions[1].committed_offset, partitions[1].error_code), (-1, 0), "version {version}");
        if version >= 2 {
            let all = OffsetFetchRequest { topics: None, ..request };
            assert_eq!(client.call(version, &all).await.topics[0].partitions.len(), 2, "version {version}");
        }
    }
    for version in 8..=10_i16 {
        let topics = Some(vec![OffsetFetchRequestTopics {
            name: TOPIC.to_owned(),
            topic_id: id,
            partition_indexes: vec![1, 0],
            ..Default::default()
        }]);
        let group = |group: &str, topics| OffsetFetchRequestGroup {
            group_id: group.to_owned(),
            topics,
            ..Default::default()
        };
        let groups = vec![group("group-3", topics), group("group-4", None), group("nobody", None)];
        let answer = client.call(version, &OffsetFetchRequest { groups, ..Default::default() }).await;
        let found: Vec<_> = answer.groups.iter().map(|group| group.topics.first()).collect();
        let first = found[0].expect("a topic");
        assert_eq!(first.topic_id, if version >= 10 { id } else { [0; 16] });
        let offsets: Vec<_> =
            first.partitions.iter().map(|p| (p.partition_index, p.committed_offset)).collect();
        assert_eq!(offsets, [(1, 100), (0, 3)], "version {version}");
        assert_eq!(found[1].expect("a topic").partitions.len(), 2);
        assert!(found[2].is_none() && answer.groups.iter().all(|group| group.error_code == 0));
    }
    // More groups than the server reads at once. The answer keeps the order of the request.
    let group = |number: usize| OffsetFetchRequestGroup {
        group_id: if number.is_multiple_of(2) { "group-4".to_owned() } else { format!("nobody-{number}") },
        topics: None,
        ..Default::default()
    };
    let groups: Vec<_> = (0..50).map(group).collect();
    let answer = client.call(8, &OffsetFetchRequest { groups, ..Default::default() }).await;
    assert_eq!(answer.groups.len(), 50);
    for (number, found) in answer.groups.iter().enumerate() {
        assert_eq!(found.group_id, group(number).group_id);
        assert_eq!(found.topics.len(), usize::from(number.is_multiple_of(2)), "{number}");
    }
}

#[tokio::test]
async fn administrators_list_describe_and_delete() {
    let (_server, mut client, id) = started(&[AT_ONCE]).await;
    assert_eq!(committed(&mut client, 9, &commit("simple", (TOPIC, id), &[(0, 1), (1, 2)])).await, [0, 0]);
    let member = joined(&mut client, 9, "busy").await;
    client.call(5, &sync("busy", &member, b"a")).await;
    for version in 0..=5_i16 {
        let mut groups = client.call(version, &ListGroupsRequest::default()).await.groups;
        groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        let ids: Vec<_> = groups.iter().map(|group| group.group_id.as_str()).collect();
        assert_eq!(ids, ["busy", "simple"], "version {version}");
        let states: Vec<_> = groups.iter().map(|group| group.group_state.as_str()).collect();
        assert_eq!(states, if version >= 4 { ["Stable", "Empty"] } else { [""; 2] }, "version {version}");
    }
    let stable = ListGroupsRequest { states_filter: vec!["stable".to_owned()], ..Default::default() };
    assert_eq!(client.call(4, &stable).await.groups.len(), 1);
    let consumers = ListGroupsRequest { types_filter: vec!["consumer".to_owned()], ..Default::default() };
    assert_eq!(client.call(5, &consumers).await.groups.len(), 0);
    for version in 0..=6_i16 {
        let request = DescribeGroupsRequest {
            groups: vec!["busy".to_owned(), "nobody".to_owned()],
            include_authorized_operations: version >= 3,
            ..Default::default()
        };
        let groups = client.call(version, &request).await.groups;
        assert_eq!((groups[0].error_code, groups[0].group_state.as_str()), (0, "Stable"));
        assert_eq!(groups[0].protocol_data, "range");
        assert_eq!(groups[0].authorized_operations, if version >= 3 { 3400 } else { i32::MIN });
        let described = &groups[0].members[0];
        assert_eq!((&described.member_id, described.client_id.as_str()), (&member.member_id, "test"));
        assert_eq!(
            (described.client_host.as_str(), &described.member_assignment[..]),
            ("/127.0.0.1", &b"a"[..])
        );
        let expected = if version >= 6 { ErrorCode::GroupIdNotFound.code() } else { 0 };
        assert_eq!((groups[1].error_code, groups[1].group_state.as_str()), (expected, "Dead"));
    }
    let delete = |partition_index| OffsetDeleteRequest {
        group_id: "simple".to_owned(),
        topics: vec![OffsetDeleteRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![OffsetDeleteRequestPartition { partition_index }],
        }],
    };
    assert_eq!(client.call(0, &delete(0)).await.topics[0].partitions[0].error_code, 0);
    assert_eq!(fetched(&mut client, "simple").await, [(1, 2, 0)]);
    let busy = OffsetDeleteRequest { group_id: "busy".to_owned(), ..delete(0) };
    let code = client.call(0, &busy).await.topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::GroupSubscribedToTopic.code());
    for (version, expected) in [(0, 0), (1, ErrorCode::GroupIdNotFound.code()), (2, 69)] {
        let groups_names = vec!["simple".to_owned(), "busy".to_owned()];
        let answer = client.call(version, &DeleteGroupsRequest { groups_names, ..Default::default() }).await;
        let codes: Vec<_> = answer.results.iter().map(|result| result.error_code).collect();
        assert_eq!(codes, [expected, ErrorCode::NonEmptyGroup.code()], "version {version}");
    }
}

/// The coordinator cannot tell what such members read, so it does not delete offsets of their group. Unknown
/// partitions are reported as unknown first.
#[tokio::test]
async fn offsets_of_members_that_are_not_understood_are_kept() {
    let (_server, mut client, _) = started(&[AT_ONCE]).await;
    let strange = |member: &str| {
        let mut request = join("strange", member);
        request.protocols[0].metadata = Bytes::from_static(b"?");
        request
    };
    let named = client.call(9, &strange("")).await.member_id;
    let member = client.call(9, &strange(&named)).await;
    assert_eq!(client.call(5, &sync("strange", &member, b"a")).await.error_code, 0);
    let topic = |name: &str, partitions: &[i32]| OffsetDeleteRequestTopic {
        name: name.to_owned(),
        partitions: partitions
            .iter()
            .map(|&partition_index| OffsetDeleteRequestPartition { partition_index })
            .collect(),
    };
    let topics = vec![topic(TOPIC, &[0, 2, -1]), topic("nothing", &[0])];
    let delete = OffsetDeleteRequest { group_id: "strange".to_owned(), topics };
    let answer = client.call(0, &delete).await;
    let codes: Vec<_> =
        answer.topics.iter().flat_map(|topic| &topic.partitions).map(|one| one.error_code).collect();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(codes, [ErrorCode::GroupSubscribedToTopic.code(), unknown, unknown, unknown]);
}

/// While a group waits for its members to rejoin, it shows their assignments but not their subscriptions.
#[tokio::test]
async fn a_group_that_is_rebalanced_shows_what_its_members_have() {
    let (server, mut client, _) = started(&[AT_ONCE]).await;
    let member = joined(&mut client, 9, "g").await;
    client.call(5, &sync("g", &member, b"what it has")).await;
    let mut second = server.connect().await;
    let named = second.call(9, &join("g", "")).await.member_id;
    second.send(9, &join("g", &named)).await;
    let request = DescribeGroupsRequest { groups: vec!["g".to_owned()], ..Default::default() };
    let deadline = Instant::now() + PATIENCE;
    let group = loop {
        let group = client.call(6, &request).await.groups.remove(0);
        if group.members.len() == 2 {
            break group;
        }
        assert!(Instant::now() < deadline, "{} members", group.members.len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!((group.group_state.as_str(), group.protocol_data.as_str()), ("PreparingRebalance", ""));
    let shown = group.members.iter().map(|one| (&one.member_metadata[..], &one.member_assignment[..]));
    let mut shown: Vec<_> = shown.collect();
    shown.sort_unstable();
    assert_eq!(shown, [(&b""[..], &b""[..]), (b"", b"what it has")]);
}

#[tokio::test]
async fn groups_and_offsets_survive_a_restart() {
    let (mut server, mut client, id) = started(&[AT_ONCE]).await;
    let member = joined(&mut client, 9, "g").await;
    client.call(5, &sync("g", &member, b"assignment")).await;
    let mut request = commit("g", (TOPIC, id), &[(0, 5), (1, 6)]);
    request.member_id = member.member_id.clone();
    request.generation_id_or_member_epoch = member.generation_id;
    assert_eq!(committed(&mut client, 9, &request).await, [0, 0]);
    drop(client);
    server.restart().await;
    let mut client = server.connect().await;
    assert_eq!(fetched(&mut client, "g").await, [(0, 5, 0), (1, 6, 0)]);
    assert_eq!(client.call(4, &heartbeat("g", &member)).await.error_code, 0);
    let synced = client.call(5, &sync("g", &member, b"other")).await;
    assert_eq!(&synced.assignment[..], b"assignment", "the group is stable, so the assignment stays");
    request.generation_id_or_member_epoch += 1;
    let stale = ErrorCode::IllegalGeneration.code();
    assert_eq!(committed(&mut client, 9, &request).await, [stale, stale]);
    server.restart().await;
    let mut client = server.connect().await;
    assert_eq!(fetched(&mut client, "g").await, [(0, 5, 0), (1, 6, 0)]);
}

#[tokio::test]
async fn a_join_that_waits_holds_nobody_else_up_and_ends_with_the_other_members() {
    let (server, mut leader, _) = started(&[AT_ONCE]).await;
    let first = joined(&mut leader, 9, "g").await;
    leader.call(5, &sync("g", &first, b"all")).await;
    let mut second = server.connect().await;
    let waiting = tokio::spawn(async move {
        let answer = joined(&mut second, 9, "g").await;
        (second, answer)
    });
    // The leader learns of it through its heartbeats.
    let (mut code, deadline) = (0, Instant::now() + PATIENCE);
    while code == 0 {
        assert!(Instant::now() < deadline, "the leader does not learn of it");
        tokio::time::sleep(Duration::from_millis(5)).await;
        code = leader.call(4, &heartbeat("g", &first)).await.error_code;
    }
    assert_eq!(code, ErrorCode::RebalanceInProgress.code());
    let mut other = server.connect().await;
    assert_eq!(fetched(&mut other, "other").await, []);
    let again = leader.call(9, &join("g", &first.member_id)).await;
    assert_eq!((again.error_code, again.generation_id, again.members.len()), (0, 2, 2));
    let (mut second, answer) = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
    assert_eq!((answer.generation_id, &answer.leader, answer.members.len()), (2, &first.member_id, 0));
    // The follower waits for the leader's assignment.
    let member = answer.member_id.clone();
    let follower = tokio::spawn(async move { second.call(5, &sync("g", &answer, b"")).await });
    let mut assignments = sync("g", &again, b"half");
    assignments.assignments.push(SyncGroupRequestAssignment {
        member_id: member,
        assignment: Bytes::from_static(b"other half"),
        ..Default::default()
    });
    assert_eq!(&leader.call(5, &assignments).await.assignment[..], b"half");
    let synced = tokio::time::timeout(Duration::from_secs(20), follower).await.unwrap().unwrap();
    assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"other half"[..]));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_kafkas_codes() {
    let (_server, mut client, id) = started(&[AT_ONCE, ("offset.metadata.max.bytes", "10")]).await;
    let code = |code: ErrorCode| code.code();
    let empty = client.call(9, &join("", "")).await;
    assert_eq!(empty.error_code, code(ErrorCode::InvalidGroupId));
    let endless = client.call(9, &join(&"g".repeat(5000), "")).await;
    assert_eq!(endless.error_code, code(ErrorCode::InvalidGroupId));
    let hasty = client.call(9, &JoinGroupRequest { session_timeout_ms: 1, ..join("g", "") }).await;
    assert_eq!(hasty.error_code, code(ErrorCode::InvalidSessionTimeout));
    let stranger = client.call(9, &join("g", "stranger")).await;
    assert_eq!(stranger.error_code, code(ErrorCode::UnknownMemberId));
    let silent = client.call(9, &JoinGroupRequest { protocols: Vec::new(), ..join("g", "") }).await;
    assert_eq!(silent.error_code, code(ErrorCode::InconsistentGroupProtocol));
    let member = joined(&mut client, 9, "g").await;
    let unnamed = SyncGroupRequest { protocol_name: None, ..sync("g", &member, b"") };
    assert_eq!(client.call(5, &unnamed).await.error_code, code(ErrorCode::InconsistentGroupProtocol));
    assert_eq!(client.call(4, &unnamed).await.error_code, 0);
    let stale = HeartbeatRequest { generation_id: 9, ..heartbeat("g", &member) };
    assert_eq!(client.call(4, &stale).await.error_code, code(ErrorCode::IllegalGeneration));
    // A tool must not move offsets while the group has members.
    let moved = committed(&mut client, 9, &commit("g", (TOPIC, id), &[(0, 1)])).await;
    assert_eq!(moved, [code(ErrorCode::UnknownMemberId)]);
    let mut long = commit("h", (TOPIC, id), &[(0, 1)]);
    long.topics[0].partitions[0].committed_metadata = Some("12345678901".to_owned());
    assert_eq!(committed(&mut client, 9, &long).await, [code(ErrorCode::OffsetMetadataTooLarge)]);
    // No such transaction was started, so every version answers with an error.
    let transaction = TxnOffsetCommitRequest {
        transactional_id: "tx".to_owned(),
        group_id: "g".to_owned(),
        producer_id: 77,
        topics: vec![tailrace_kafka_wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 0..=5 {
        let answer = client.call(version, &transaction).await;
        assert_ne!(answer.topics[0].partitions[0].error_code, 0, "version {version}");
    }
}

#[tokio::test]
async fn offsets_expire_unless_somebody_is_there() {
    let settings =
        [AT_ONCE, ("offsets.retention.check.interval.ms", "20"), ("offsets.topic.num.partitions", "1")];
    let (mut server, mut client, id) = started(&settings).await;
    // Longer than this test takes.
    let join = JoinGroupRequest { session_timeout_ms: 120_000, ..join("busy", "") };
    let member = client.call(3, &join).await;
    client.call(5, &sync("busy", &member, b"a")).await;
    // Up to version 4, a commit carries its own retention time.
    let brief = |group, offsets: &[(i32, i64)]| OffsetCommitRequest {
        retention_time_ms: 1,
        ..commit(group, (TOPIC, id), offsets)
    };
    let busy = OffsetCommitRequest {
        generation_id_or_member_epoch: member.generation_id,
        member_id: member.member_id.clone(),
        ..brief("busy", &[(0, 1)])
    };
    assert_eq!(committed(&mut client, 4, &busy).await, [0]);
    assert_eq!(committed(&mut client, 9, &commit("mixed", (TOPIC, id), &[(0, 2)])).await, [0]);
    assert_eq!(committed(&mut client, 4, &brief("mixed", &[(1, 3)])).await, [0]);
    assert_eq!(committed(&mut client, 4, &brief("brief", &[(0, 4), (1, 5)])).await, [0, 0]);
    // One check expires all of them.
    let have_expired = || async { server.metric("tailrace_offset_expirations_total").await >= 3.0 };
    eventually("offsets expire", have_expired).await;
    for _ in 0..2 {
        assert_eq!(fetched(&mut client, "brief").await, []);
        assert_eq!(fetched(&mut client, "mixed").await, [(0, 2, 0)], "seven days have not passed");
        let groups = client.call(0, &ListGroupsRequest::default()).await.groups;
        let mut ids: Vec<_> = groups.into_iter().map(|group| group.group_id).collect();
        ids.sort();
        assert_eq!(ids, ["busy", "mixed"], "a group is deleted with its last offset");
        assert_eq!(fetched(&mut client, "busy").await, [(0, 1, 0)], "the group has a member");
        // Expired offsets do not come back. The member is restored with its session timeout.
        server.restart().await;
        client = server.connect().await;
    }
    // Once the member has left, its offset expires by its own age.
    let answer = client.call(4, &leave(4, "busy", &member.member_id)).await;
    assert_eq!(answer.error_code, 0);
    let group_is_gone = || async {
        let mut client = server.connect().await;
        fetched(&mut client, "busy").await.is_empty()
    };
    eventually("the last offset of a group without members expires", group_is_gone).await;
    server.stop().await;
}

#[tokio::test]
async fn offsets_go_with_their_topic() {
    let (mut server, mut client, id) = started(&[]).await;
    assert_eq!(committed(&mut client, 9, &commit("g", (TOPIC, id), &[(0, 5)])).await, [0]);
    let delete = tailrace_kafka_wire::messages::DeleteTopicsRequest {
        topic_names: vec![TOPIC.to_owned()],
        timeout_ms: 10_000,
        ..Default::default()
    };
    assert_eq!(client.call(3, &delete).await.responses[0].error_code, 0);
    let id = client.create_topic(TOPIC, 2, &[]).await;
    // The coordinator may learn of the deletion later. It never shows an offset of the old topic for the new
    // one.
    assert_eq!(fetched(&mut client, "g").await, []);
    assert_eq!(committed(&mut client, 9, &commit("g", (TOPIC, id), &[(1, 6)])).await, [0]);
    server.restart().await;
    let mut client = server.connect().await;
    assert_eq!(fetched(&mut client, "g").await, [(1, 6, 0)]);
}
