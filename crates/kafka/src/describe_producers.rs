//! DescribeProducers (61): the producers that partitions remember, and their open transactions. Any replica
//! answers, as in Kafka, because administrators compare replicas and look for hanging transactions node by
//! node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_producers_request::DescribeProducersRequest;
use tailrace_kafka_wire::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use tailrace_replication::NO_COORDINATOR_EPOCH;
use tailrace_types::{Offset, ProducerId, TimestampMs};

use crate::commands::Refusal;
use crate::context::Context;
use crate::lookup::{legal_name, replica_by_name};

/// Approximate size of a partition and of a producer in the answer.
const PARTITION_BYTES: usize = 128;
const PRODUCER_BYTES: usize = 128;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    // An answer may be long, so repeated partitions are answered once.
    let mut wanted: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for topic in request.topics {
        wanted.entry(topic.name).or_default().extend(topic.partition_indexes);
    }
    let mut topics = Vec::with_capacity(wanted.len());
    let mut charges = context.charges();
    for (name, indexes) in wanted {
        let mut partitions = Vec::with_capacity(indexes.len());
        let may_read = context.rights().topic(Operation::Read, &name).map_err(Refusal::unauthorized);
        for partition_index in indexes {
            let answer = PartitionResponse { partition_index, ..Default::default() };
            let producers = if let Err(refusal) = &may_read {
                Err(refusal.clone())
            } else if charges.is_full() {
                Err(Refusal::too_long())
            } else {
                producers(&context, &name, partition_index).await
            };
            charges
                .add(PARTITION_BYTES + producers.as_ref().map_or(0, |found| found.len() * PRODUCER_BYTES))
                .await;
            partitions.push(match producers {
                Ok(active_producers) => PartitionResponse { active_producers, ..answer },
                Err(refusal) => PartitionResponse {
                    error_code: refusal.code.code(),
                    error_message: Some(refusal.message),
                    ..answer
                },
            });
        }
        topics.push(TopicResponse { name, partitions, ..Default::default() });
    }
    DescribeProducersResponse { topics, ..Default::default() }
}

async fn producers(context: &Context, name: &str, index: i32) -> Result<Vec<ProducerState>, Refusal> {
    legal_name(name)?;
    let refuse = |code: ErrorCode| Refusal::new(code, format!("{name}-{index}: {}.", code.message()));
    let handle = replica_by_name(&context.node().topics(), name, index).map_err(refuse)?;
    let states =
        handle.look(|core| core.producers().iter().map(|(id, producer)| state(id, producer)).collect());
    states.await.ok_or_else(|| refuse(ErrorCode::NotLeaderOrFollower))
}

/// Returns the time of the last append: the largest record timestamp of a batch, or the marker's own.
fn last_timestamp(producer: &tailrace_replication::ProducerState) -> TimestampMs {
    let was_ended = producer.coordinator_epoch != NO_COORDINATOR_EPOCH;
    match producer.batches.back() {
        // A later batch of a transaction would have opened a transaction, so the marker came last.
        _ if was_ended && producer.current_transaction.is_none() => producer.last_append,
        Some(batch) => batch.timestamp,
        None => producer.last_append,
    }
}

fn state(id: ProducerId, producer: &tailrace_replication::ProducerState) -> ProducerState {
    ProducerState {
        producer_id: id.get(),
        producer_epoch: producer.epoch.get().into(),
        last_sequence: producer.last_sequence(),
        last_timestamp: last_timestamp(producer).0,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.current_transaction.map_or(-1, Offset::get),
        ..Default::default()
    }
}
