//! Groups of the classic and the consumer protocol, and committed offsets.

use super::*;

#[tokio::test]
async fn groups() {
    check_all(&cases()).await;
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            "OffsetCommit",
            [(Read, Group, G), (Read, Topic, T)],
            9,
            |_id| OffsetCommitRequest {
                group_id: G.to_owned(),
                generation_id_or_member_epoch: -1,
                topics: vec![offset_commit_request::OffsetCommitRequestTopic {
                    name: T.to_owned(),
                    partitions: vec![Default::default()],
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.topics[0].partitions[0].error_code
        ),
        case!(
            "OffsetFetch",
            [(Describe, Group, G), (Describe, Topic, T)],
            8,
            |_id| OffsetFetchRequest {
                groups: vec![offset_fetch_request::OffsetFetchRequestGroup {
                    group_id: G.to_owned(),
                    topics: Some(vec![offset_fetch_request::OffsetFetchRequestTopics {
                        name: T.to_owned(),
                        partition_indexes: ON_T.to_vec(),
                        ..Default::default()
                    }]),
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| first(
                [a.groups[0].error_code]
                    .into_iter()
                    .chain(a.groups[0].topics.iter().map(|topic| topic.partitions[0].error_code))
            )
        ),
        case!(
            "OffsetFetch, old",
            [(Describe, Group, G), (Describe, Topic, T)],
            5,
            |_id| OffsetFetchRequest {
                group_id: G.to_owned(),
                topics: Some(vec![offset_fetch_request::OffsetFetchRequestTopic {
                    name: T.to_owned(),
                    partition_indexes: ON_T.to_vec(),
                    ..Default::default()
                }]),
                ..Default::default()
            },
            |a| first(
                [a.error_code].into_iter().chain(a.topics.iter().map(|topic| topic.partitions[0].error_code))
            )
        ),
        case!(
            "OffsetDelete",
            [(Delete, Group, G), (Read, Topic, T)],
            0,
            |_id| OffsetDeleteRequest {
                group_id: G.to_owned(),
                topics: vec![offset_delete_request::OffsetDeleteRequestTopic {
                    name: T.to_owned(),
                    partitions: vec![Default::default()],
                }],
            },
            |a| first(
                [a.error_code].into_iter().chain(a.topics.iter().map(|topic| topic.partitions[0].error_code))
            )
        ),
        case!("FindCoordinator of a group", [(Describe, Group, G)], 4, |_id| coordinator(0, G), |a| a
            .coordinators[0]
            .error_code),
        case!(
            "FindCoordinator of a transactional id",
            [(Describe, TransactionalId, X)],
            4,
            |_id| coordinator(1, X),
            |a| a.coordinators[0].error_code
        ),
        case!(
            "FindCoordinator of a share-partition",
            [(ClusterAction, Cluster, CLUSTER_NAME)],
            6,
            |id| coordinator(2, &format!("{G}:{}:0", TopicId(id))),
            |a| a.coordinators[0].error_code
        ),
        case!(
            "JoinGroup",
            [(Read, Group, G)],
            4,
            |_id| JoinGroupRequest {
                group_id: G.to_owned(),
                session_timeout_ms: 6_000,
                ..Default::default()
            },
            |a| a.error_code
        ),
        case!(
            "SyncGroup",
            [(Read, Group, G)],
            5,
            |_id| SyncGroupRequest { group_id: G.to_owned(), ..Default::default() },
            |a| a.error_code
        ),
        case!(
            "Heartbeat",
            [(Read, Group, G)],
            4,
            |_id| HeartbeatRequest { group_id: G.to_owned(), ..Default::default() },
            |a| a.error_code
        ),
        case!(
            "LeaveGroup",
            [(Read, Group, G)],
            4,
            |_id| LeaveGroupRequest { group_id: G.to_owned(), ..Default::default() },
            |a| a.error_code
        ),
        case!(
            "DescribeGroups",
            [(Describe, Group, G)],
            5,
            |_id| DescribeGroupsRequest { groups: names(G), ..Default::default() },
            |a| a.groups[0].error_code
        ),
        case!(
            "ConsumerGroupHeartbeat",
            [(Read, Group, "c"), (Describe, Topic, T)],
            1,
            |_id| ConsumerGroupHeartbeatRequest {
                group_id: "c".to_owned(),
                member_id: MEMBER.to_owned(),
                rebalance_timeout_ms: 60_000,
                subscribed_topic_names: Some(names(T)),
                topic_partitions: Some(Vec::new()),
                ..Default::default()
            },
            |a| a.error_code
        ),
        case!(
            "ConsumerGroupDescribe",
            [(Describe, Group, "c"), (Describe, Topic, T)],
            1,
            |_id| ConsumerGroupDescribeRequest { group_ids: names("c"), ..Default::default() },
            |a| a.groups[0].error_code
        ),
        case!(
            "DeleteGroups",
            [(Delete, Group, G)],
            2,
            |_id| DeleteGroupsRequest { groups_names: names(G), ..Default::default() },
            |a| a.results[0].error_code
        ),
    ]
}

fn coordinator(key_type: i8, key: &str) -> FindCoordinatorRequest {
    FindCoordinatorRequest { key_type, coordinator_keys: names(key), ..Default::default() }
}
