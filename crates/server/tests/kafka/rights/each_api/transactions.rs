//! Transactional producers.

use super::*;

#[tokio::test]
async fn transactions() {
    check_all(&cases()).await;
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            "InitProducerId",
            [(Write, TransactionalId, X)],
            4,
            |_id| InitProducerIdRequest {
                transactional_id: Some(X.to_owned()),
                transaction_timeout_ms: 60_000,
                ..Default::default()
            },
            |a| a.error_code
        ),
        case!(
            "InitProducerId without an id",
            [(IdempotentWrite, Cluster, CLUSTER_NAME)],
            4,
            |_id| InitProducerIdRequest { transactional_id: None, ..Default::default() },
            |a| a.error_code
        ),
        case!(
            "InitProducerId of a client that may write",
            [(Write, Topic, T)],
            4,
            |_id| InitProducerIdRequest { transactional_id: None, ..Default::default() },
            |a| match a.error_code {
                31 => 29,
                code => code,
            }
        ),
        case!(
            "AddPartitionsToTxn",
            [(Write, TransactionalId, X), (Write, Topic, T)],
            3,
            |_id| AddPartitionsToTxnRequest {
                v3_and_below_transactional_id: X.to_owned(),
                v3_and_below_topics: vec![add_partitions_to_txn_request::AddPartitionsToTxnTopic {
                    name: T.to_owned(),
                    partitions: ON_T.to_vec(),
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        ),
        case!(
            "AddPartitionsToTxn of a broker",
            [(ClusterAction, Cluster, CLUSTER_NAME)],
            5,
            |_id| AddPartitionsToTxnRequest::default(),
            |a| a.error_code
        ),
        case!(
            "AddOffsetsToTxn",
            [(Write, TransactionalId, X), (Read, Group, G)],
            3,
            |_id| AddOffsetsToTxnRequest {
                transactional_id: X.to_owned(),
                group_id: G.to_owned(),
                ..Default::default()
            },
            |a| a.error_code
        ),
        case!(
            "EndTxn",
            [(Write, TransactionalId, X)],
            3,
            |_id| EndTxnRequest { transactional_id: X.to_owned(), ..Default::default() },
            |a| a.error_code
        ),
        case!(
            "TxnOffsetCommit",
            [(Write, TransactionalId, X), (Read, Group, G), (Read, Topic, T)],
            3,
            |_id| TxnOffsetCommitRequest {
                transactional_id: X.to_owned(),
                group_id: G.to_owned(),
                topics: vec![txn_offset_commit_request::TxnOffsetCommitRequestTopic {
                    name: T.to_owned(),
                    partitions: vec![Default::default()],
                    ..Default::default()
                }],
                ..Default::default()
            },
            |a| a.topics[0].partitions[0].error_code
        ),
        case!(
            "WriteTxnMarkers of a broker",
            [(ClusterAction, Cluster, CLUSTER_NAME)],
            1,
            |_id| markers(),
            |a| a.markers[0].topics[0].partitions[0].error_code
        ),
        case!("WriteTxnMarkers", [(Alter, Cluster, CLUSTER_NAME)], 1, |_id| markers(), |a| a.markers[0]
            .topics[0]
            .partitions[0]
            .error_code),
        case!(
            "DescribeTransactions",
            [(Describe, TransactionalId, X)],
            0,
            |_id| DescribeTransactionsRequest { transactional_ids: names(X), ..Default::default() },
            |a| a.transaction_states[0].error_code
        ),
    ]
}

fn markers() -> WriteTxnMarkersRequest {
    WriteTxnMarkersRequest {
        markers: vec![write_txn_markers_request::WritableTxnMarker {
            topics: vec![write_txn_markers_request::WritableTxnMarkerTopic {
                name: T.to_owned(),
                partition_indexes: ON_T.to_vec(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}
