//! The cluster.

use super::*;

#[tokio::test]
async fn the_cluster() {
    check_all(&cases()).await;
}

pub(super) fn cases() -> Vec<Case> {
    let alter: Right<'static> = (Alter, Cluster, CLUSTER_NAME);
    let describe: Right<'static> = (Describe, Cluster, CLUSTER_NAME);
    vec![
        case!(
            "DescribeLogDirs",
            [describe],
            4,
            |_id| DescribeLogDirsRequest { topics: None, ..Default::default() },
            |a| a.error_code
        ),
        case!(
            "ElectLeaders",
            [alter],
            2,
            |_id| ElectLeadersRequest { topic_partitions: None, ..Default::default() },
            |a| a.error_code
        ),
        case!(
            "ElectLeaders, old",
            [alter],
            0,
            |_id| ElectLeadersRequest {
                topic_partitions: Some(vec![elect_leaders_request::TopicPartitions {
                    topic: T.to_owned(),
                    partitions: ON_T.to_vec(),
                    ..Default::default()
                }]),
                ..Default::default()
            },
            |a| a.replica_election_results[0].partition_result[0].error_code
        ),
        case!(
            "AlterPartitionReassignments",
            [alter],
            0,
            |_id| AlterPartitionReassignmentsRequest::default(),
            |a| a.error_code
        ),
        case!(
            "ListPartitionReassignments",
            [describe],
            0,
            |_id| ListPartitionReassignmentsRequest::default(),
            |a| a.error_code
        ),
        case!("DescribeQuorum", [describe], 1, |_id| DescribeQuorumRequest::default(), |a| a.error_code),
        case!("UpdateFeatures", [alter], 1, |_id| UpdateFeaturesRequest::default(), |a| a.error_code),
        case!(
            "UnregisterBroker",
            [alter],
            0,
            |_id| UnregisterBrokerRequest { broker_id: 77, ..Default::default() },
            |a| a.error_code
        ),
    ]
}
