//! Markers for partitions that other nodes lead: each of these nodes is asked once for all of its partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use tailrace_kafka_wire::messages::write_txn_markers_response::WriteTxnMarkersResponse;
use tailrace_replication::TransactionMarker;
use tailrace_types::{NodeId, PartitionId, TopicName, TopicPartition};

use crate::broker::Broker;
use crate::cluster;

/// How long another node may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Version of the request: the newest, which tells the version of transactions (KIP-1228).
const VERSION: i16 = 2;

/// What `transaction_version` says of producers whose epoch is raised with each transaction.
const EPOCH_PER_TRANSACTION: i8 = 2;

/// Has `node` append the marker to partitions that it leads, and waits until they are committed. Returns those where it has
/// to be done again.
pub(super) async fn write(
    broker: &Arc<Broker>,
    node: NodeId,
    marker: TransactionMarker,
    partitions: BTreeSet<TopicPartition>,
) -> BTreeSet<TopicPartition> {
    let mut topics: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
    for partition in &partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition.0);
    }
    let topics = topics.into_iter().map(|(name, partition_indexes)| WritableTxnMarkerTopic {
        name: name.to_string(),
        partition_indexes,
        ..Default::default()
    });
    let request = WriteTxnMarkersRequest {
        markers: vec![WritableTxnMarker {
            producer_id: marker.producer_id.get(),
            producer_epoch: marker.producer_epoch.get(),
            transaction_result: marker.committed,
            topics: topics.collect(),
            coordinator_epoch: marker.coordinator_epoch,
            transaction_version: if marker.epochs_are_bumped { EPOCH_PER_TRANSACTION } else { 1 },
            ..Default::default()
        }],
        ..Default::default()
    };
    match cluster::ask(broker, node, (&request, VERSION), PATIENCE).await {
        Ok(response) => left(partitions, &response),
        Err(error) => {
            tracing::warn!(%node, %error, "a node could not be asked to write a transaction's markers");
            partitions
        }
    }
}

fn left(
    partitions: BTreeSet<TopicPartition>,
    response: &WriteTxnMarkersResponse,
) -> BTreeSet<TopicPartition> {
    let mut left = partitions;
    for topic in response.markers.iter().flat_map(|marker| &marker.topics) {
        let Ok(name) = TopicName::new(&topic.name) else { continue };
        for answer in &topic.partitions {
            if is_over(answer.error_code) {
                left.remove(&TopicPartition::new(name.clone(), PartitionId(answer.partition_index)));
            }
        }
    }
    left
}

/// Written, or not needed any more: the partition has seen a later generation of the producer. That it does not know the topic says
/// nothing: its metadata may be old. Whether the topic was deleted this node knows by its own. Nor does it help that a later generation
/// of the coordinator was there: that one writes all of its markers, or another one after it.
fn is_over(code: i16) -> bool {
    const OVER: [ErrorCode; 2] = [ErrorCode::None, ErrorCode::InvalidProducerEpoch];
    OVER.iter().any(|over| over.code() == code)
}

#[cfg(test)]
mod tests {
    use tailrace_kafka_wire::messages::write_txn_markers_response::{
        WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    };

    use super::*;

    /// A node that was started just now may not know a topic yet, and lead a partition of it a moment later.
    #[test]
    fn only_what_is_written_or_of_an_earlier_producer_is_over() {
        let codes = [
            ErrorCode::None,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::KafkaStorageError,
            ErrorCode::TransactionCoordinatorFenced,
        ];
        let name = TopicName::new("orders").unwrap();
        let partition = |number| TopicPartition::new(name.clone(), PartitionId(number));
        let partitions = (0..).zip(codes).map(|(partition_index, code)| WritableTxnMarkerPartitionResult {
            partition_index,
            error_code: code.code(),
            ..Default::default()
        });
        let topic = WritableTxnMarkerTopicResult {
            name: name.to_string(),
            partitions: partitions.collect(),
            ..Default::default()
        };
        let marker = WritableTxnMarkerResult { topics: vec![topic], ..Default::default() };
        let response = WriteTxnMarkersResponse { markers: vec![marker], ..Default::default() };
        let asked = (0..7).map(partition).collect();
        // One was not answered at all.
        assert_eq!(left(asked, &response), [1, 2, 4, 5, 6].map(partition).into());
    }
}
