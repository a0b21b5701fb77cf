//! WriteTxnMarkers (27): ends transactions in partitions, regardless of their coordinator.
//!
//! Administrators use it to end transactions that hang in a partition: `kafka-transactions.sh abort`,
//! `tailrace txn abort`. Coordinators reach the leaders of a transaction's partitions in another way
//! (`tailrace_node::ask`).

use std::sync::Arc;

use tailrace_identity::acl::{AUDIT_TOPIC, Operation};
use tailrace_kafka_wire::messages::write_txn_markers_request::{WritableTxnMarker, WriteTxnMarkersRequest};
use tailrace_kafka_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_replication::TransactionMarker;
use tailrace_types::{ProducerEpoch, ProducerId};

use crate::audited::Audited;
use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::failure_code;
use crate::lookup::online_by_name;
use tailrace_node::coordinators::{append_any_marker, committed};
use tailrace_node::partitions::{Awaited, PartitionHandle};

/// Transaction version of producers that raise their epoch with each transaction.
const EPOCH_PER_TRANSACTION: i8 = 2;

/// A marker that was appended, or the reason why it was not.
type Appended = Result<(Arc<PartitionHandle>, Awaited), ErrorCode>;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: WriteTxnMarkersRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    if let Err(code) = check_rights(&context) {
        let refused = request.markers.into_iter().map(|marker| refused(marker, code)).collect();
        return Ok(Decided::Reply(
            context.reply(WriteTxnMarkersResponse { markers: refused, ..Default::default() })?,
        ));
    }
    let mut written = Vec::with_capacity(request.markers.len());
    for marker in request.markers {
        let change = audited(&context, &marker);
        let (producer_id, topics) = append_all(&context, marker).await;
        written.push((producer_id, topics, change));
    }
    Ok(answer_later(context, async move {
        let mut markers = Vec::with_capacity(written.len());
        for (producer_id, topics, change) in written {
            markers.push(result(producer_id, topics, change).await);
        }
        WriteTxnMarkersResponse { markers, ..Default::default() }
    }))
}

fn audited(context: &Context, marker: &WritableTxnMarker) -> Audited {
    let what = if marker.transaction_result { "CommitTransaction" } else { "AbortTransaction" };
    let (producer, epoch) = (marker.producer_id, marker.producer_epoch);
    context.audited(&format_args!("{what} of producer {producer}, epoch {epoch}"))
}

fn check_rights(context: &Context) -> Result<(), ErrorCode> {
    let rights = context.rights();
    if rights.sees_cluster(Operation::Alter) { Ok(()) } else { rights.cluster(Operation::ClusterAction) }
}

fn refused(marker: WritableTxnMarker, code: ErrorCode) -> WritableTxnMarkerResult {
    let partition = |partition_index| WritableTxnMarkerPartitionResult {
        partition_index,
        error_code: code.code(),
        ..Default::default()
    };
    let topics = marker.topics.into_iter().map(|topic| WritableTxnMarkerTopicResult {
        name: topic.name,
        partitions: topic.partition_indexes.into_iter().map(partition).collect(),
        ..Default::default()
    });
    WritableTxnMarkerResult {
        producer_id: marker.producer_id,
        topics: topics.collect(),
        ..Default::default()
    }
}

type Topics = Vec<(String, Vec<(i32, Appended)>)>;

async fn append_all(context: &Context, marker: WritableTxnMarker) -> (i64, Topics) {
    let ending = TransactionMarker {
        producer_id: ProducerId(marker.producer_id),
        producer_epoch: ProducerEpoch(marker.producer_epoch),
        coordinator_epoch: marker.coordinator_epoch,
        committed: marker.transaction_result,
        epochs_are_bumped: marker.transaction_version >= EPOCH_PER_TRANSACTION,
    };
    let mut topics = Vec::with_capacity(marker.topics.len());
    for topic in marker.topics {
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for index in topic.partition_indexes {
            partitions.push((index, append_one(context, &topic.name, index, ending).await));
        }
        topics.push((topic.name, partitions));
    }
    (marker.producer_id, topics)
}

async fn append_one(context: &Context, topic: &str, index: i32, marker: TransactionMarker) -> Appended {
    if marker.producer_id.get() < 0 || marker.producer_epoch.get() < 0 {
        return Err(ErrorCode::InvalidRequest);
    }
    if topic == AUDIT_TOPIC {
        return Err(ErrorCode::TopicAuthorizationFailed);
    }
    let node = context.node();
    let handle = online_by_name(&node.topics(), topic, index)?;
    match append_any_marker(node, context.caller(), &handle, marker).await {
        Ok(committed_at) => Ok((handle, committed_at)),
        Err(failure) => Err(failure_code(&failure)),
    }
}

async fn result(producer_id: i64, topics: Topics, mut change: Audited) -> WritableTxnMarkerResult {
    let mut results = Vec::with_capacity(topics.len());
    for (name, partitions) in topics {
        let mut answers = Vec::with_capacity(partitions.len());
        for (partition_index, appended) in partitions {
            let code = match appended {
                Ok((handle, committed_at)) if committed(&handle, committed_at).await => ErrorCode::None,
                Ok(_) => ErrorCode::KafkaStorageError,
                Err(code) => code,
            };
            change.part(&format_args!("{}-{partition_index}", name.escape_debug()), code);
            answers.push(WritableTxnMarkerPartitionResult {
                partition_index,
                error_code: code.code(),
                ..Default::default()
            });
        }
        results.push(WritableTxnMarkerTopicResult { name, partitions: answers, ..Default::default() });
    }
    change.end();
    WritableTxnMarkerResult { producer_id, topics: results, ..Default::default() }
}
