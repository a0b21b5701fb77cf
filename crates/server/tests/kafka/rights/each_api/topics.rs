//! Topics.

use super::*;

#[tokio::test]
async fn topics() {
    check_all(&cases()).await;
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("Metadata", [(Describe, Topic, T)], 12, |_id| metadata(T, false), |a| a.topics[0].error_code),
        case!(
            "Metadata that creates",
            [(Describe, Topic, "auto"), (Create, Topic, "auto")],
            12,
            |_id| metadata("auto", true),
            |a| a.topics[0].error_code
        ),
        case!(
            "DescribeTopicPartitions",
            [(Describe, Topic, T)],
            0,
            |_id| DescribeTopicPartitionsRequest {
                topics: vec![describe_topic_partitions_request::TopicRequest {
                    name: T.to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.topics[0].error_code
        ),
        case!("CreateTopics", [(Create, Topic, "made")], 7, |_id| creation("made"), |a| a.topics[0]
            .error_code),
        case!(
            "CreateTopics by the cluster's right",
            [(Create, Cluster, CLUSTER_NAME)],
            7,
            |_id| creation("other"),
            |a| match a.topics[0].error_code {
                29 => 31,
                code => code,
            }
        ),
        case!(
            "CreatePartitions",
            [(Alter, Topic, T)],
            3,
            |_id| CreatePartitionsRequest {
                topics: vec![create_partitions_request::CreatePartitionsTopic {
                    name: T.to_owned(),
                    count: 3,
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.results[0].error_code
        ),
        case!(
            "DeleteTopics",
            [(Delete, Topic, "gone")],
            6,
            |_id| DeleteTopicsRequest {
                topics: vec![delete_topics_request::DeleteTopicState {
                    name: Some("gone".to_owned()),
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.responses[0].error_code
        ),
    ]
}

fn metadata(name: &str, allow_auto_topic_creation: bool) -> MetadataRequest {
    let name = Some(name.to_owned());
    MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic { name, ..Default::default() }]),
        allow_auto_topic_creation,
        ..Default::default()
    }
}

fn creation(name: &str) -> CreateTopicsRequest {
    CreateTopicsRequest { topics: vec![topic(name, 1, &[])], ..Default::default() }
}
