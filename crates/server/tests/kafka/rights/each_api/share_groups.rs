//! Share groups.

use super::*;

#[tokio::test]
async fn share_groups() {
    check_all(&cases()).await;
}

/// Sets the offset of a partition of [`T`]. That makes the group.
pub(super) fn offsets_of(group: &str) -> AlterShareGroupOffsetsRequest {
    AlterShareGroupOffsetsRequest {
        group_id: group.to_owned(),
        topics: vec![alter_share_group_offsets_request::AlterShareGroupOffsetsRequestTopic {
            topic_name: T.to_owned(),
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            "ShareGroupHeartbeat",
            [(Read, Group, G), (Describe, Topic, T)],
            1,
            |_id| ShareGroupHeartbeatRequest {
                group_id: G.to_owned(),
                member_id: MEMBER.to_owned(),
                subscribed_topic_names: Some(names(T)),
                ..Default::default()
            },
            |a| a.error_code
        ),
        case!(
            "ShareGroupDescribe",
            [(Describe, Group, G), (Describe, Topic, T)],
            1,
            |_id| ShareGroupDescribeRequest { group_ids: names(G), ..Default::default() },
            |a| a.groups[0].error_code
        ),
        case!(
            "ShareFetch",
            [(Read, Group, G), (Read, Topic, T)],
            1,
            |id| ShareFetchRequest {
                group_id: Some(G.to_owned()),
                // A session for each attempt.
                member_id: Some(TopicId(tailrace_env::random::bytes16()).to_string()),
                max_bytes: 1 << 20,
                max_records: 10,
                batch_size: 10,
                topics: vec![share_fetch_request::FetchTopic {
                    topic_id: id,
                    partitions: vec![Default::default()],
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| first(
                [a.error_code]
                    .into_iter()
                    .chain(a.responses.iter().map(|topic| topic.partitions[0].error_code))
            )
        ),
        case!(
            "ShareAcknowledge",
            [(Read, Group, G)],
            1,
            |_id| ShareAcknowledgeRequest {
                group_id: Some(G.to_owned()),
                member_id: Some("nobody".to_owned()),
                share_session_epoch: 1,
                ..Default::default()
            },
            |a| a.error_code
        ),
        Case {
            name: "ShareAcknowledge of a record",
            rights: vec![(Read, Group, G), (Read, Topic, T)],
            call: |client, id| Box::pin(acknowledged(client, id)),
        },
        case!(
            "DescribeShareGroupOffsets",
            [(Describe, Group, G), (Describe, Topic, T)],
            0,
            |_id| DescribeShareGroupOffsetsRequest {
                groups: vec![describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup {
                    group_id: G.to_owned(),
                    topics: Some(vec![
                        describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestTopic {
                            topic_name: T.to_owned(),
                            partitions: ON_T.to_vec(),
                            ..Default::default()
                        },
                    ]),
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
            "AlterShareGroupOffsets",
            [(Read, Group, "h"), (Read, Topic, T)],
            0,
            |_id| offsets_of("h"),
            |a| first(
                [a.error_code]
                    .into_iter()
                    .chain(a.responses.iter().map(|topic| topic.partitions[0].error_code))
            )
        ),
        case!(
            "DeleteShareGroupOffsets",
            [(Delete, Group, "h"), (Read, Topic, T)],
            0,
            |_id| DeleteShareGroupOffsetsRequest {
                group_id: "h".to_owned(),
                topics: vec![delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic {
                    topic_name: T.to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| first([a.error_code].into_iter().chain(a.responses.iter().map(|topic| topic.error_code)))
        ),
    ]
}

/// Opens a session, and acknowledges a record in it, which need not have been acquired.
async fn acknowledged(client: &mut Client, topic_id: [u8; 16]) -> ErrorCode {
    let (group_id, member_id) =
        (Some(G.to_owned()), Some(TopicId(tailrace_env::random::bytes16()).to_string()));
    let begun = ShareFetchRequest {
        group_id: group_id.clone(),
        member_id: member_id.clone(),
        max_bytes: 1 << 20,
        topics: vec![share_fetch_request::FetchTopic {
            topic_id,
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    client.call(1, &begun).await;
    let batch =
        share_acknowledge_request::AcknowledgementBatch { acknowledge_types: vec![1], ..Default::default() };
    let partition = share_acknowledge_request::AcknowledgePartition {
        acknowledgement_batches: vec![batch],
        ..Default::default()
    };
    let topic = share_acknowledge_request::AcknowledgeTopic {
        topic_id,
        partitions: vec![partition],
        ..Default::default()
    };
    let request = ShareAcknowledgeRequest {
        group_id,
        member_id,
        share_session_epoch: 1,
        topics: vec![topic],
        ..Default::default()
    };
    let answer = client.call(1, &request).await;
    let partitions = answer.responses.iter().map(|topic| topic.partitions[0].error_code);
    error(first([answer.error_code].into_iter().chain(partitions)))
}
