//! Records, and the offsets of partitions.

use super::*;

#[tokio::test]
async fn records_and_offsets() {
    check_all(&cases()).await;
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            "Produce",
            [(Write, Topic, T)],
            9,
            |_id| produce_request(T, 0, -1, batch(Default::default(), &[1])),
            |a| a.responses[0].partition_responses[0].error_code
        ),
        case!("Fetch", [(Read, Topic, T)], 12, |_id| fetch_request(T, 0, 0), |a| a.responses[0].partitions
            [0]
        .error_code),
        case!(
            "Fetch as a broker",
            [(Read, Topic, T)],
            12,
            |_id| FetchRequest { replica_id: 1, ..fetch_request(T, 0, 0) },
            |a| a.responses[0].partitions[0].error_code
        ),
        case!(
            "Fetch by id",
            [(Read, Topic, T)],
            13,
            |id| {
                let mut request = fetch_request(T, 0, 0);
                request.topics[0].topic_id = id;
                request
            },
            |a| a.responses[0].partitions[0].error_code
        ),
        case!(
            "ListOffsets",
            [(Describe, Topic, T)],
            7,
            |_id| ListOffsetsRequest {
                replica_id: 1,
                topics: vec![list_offsets_request::ListOffsetsTopic {
                    name: T.to_owned(),
                    partitions: vec![Default::default()],
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.topics[0].partitions[0].error_code
        ),
        case!("OffsetForLeaderEpoch", [(Describe, Topic, T)], 4, |_id| epochs(), |a| a.topics[0].partitions
            [0]
        .error_code),
        case!(
            "OffsetForLeaderEpoch of a broker",
            [(ClusterAction, Cluster, CLUSTER_NAME)],
            4,
            |_id| epochs(),
            // The right for the topic would do, too.
            |a| match a.topics[0].partitions[0].error_code {
                29 => 31,
                code => code,
            }
        ),
        case!(
            "DeleteRecords",
            [(Delete, Topic, T)],
            2,
            |_id| DeleteRecordsRequest {
                topics: vec![delete_records_request::DeleteRecordsTopic {
                    name: T.to_owned(),
                    partitions: vec![Default::default()],
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.topics[0].partitions[0].error_code
        ),
        case!(
            "DescribeProducers",
            [(Read, Topic, T)],
            0,
            |_id| DescribeProducersRequest {
                topics: vec![describe_producers_request::TopicRequest {
                    name: T.to_owned(),
                    partition_indexes: ON_T.to_vec(),
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.topics[0].partitions[0].error_code
        ),
    ]
}

fn epochs() -> OffsetForLeaderEpochRequest {
    OffsetForLeaderEpochRequest {
        topics: vec![offset_for_leader_epoch_request::OffsetForLeaderTopic {
            topic: T.to_owned(),
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    }
}
