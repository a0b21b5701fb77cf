//! One partition of a produce request: finds it, checks its batch, and appends it.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::produce_request::PartitionProduceData;
use tailrace_kafka_wire::messages::produce_response::PartitionProduceResponse;
use tailrace_replication::Appended;
use tailrace_types::{PartitionId, TimestampMs};

use super::check::{check, is_zstd};
use super::refusal::PartitionRefusal;
use super::transaction::{Transaction, header};
use crate::context::Context;
use crate::errors::absent_code;
use tailrace_node::Node;
use tailrace_node::partitions::{NotHere, PartitionHandle, Topic, append};

/// `acks` of a producer that waits for a majority.
const ALL: i16 = -1;

/// First version in which a batch may be compressed with zstd (KIP-110).
const ZSTD_FROM: i16 = 7;

/// Records that are in the log, but perhaps not committed.
pub(super) struct Written {
    pub(super) handle: Arc<PartitionHandle>,
    pub(super) appended: Appended,
    /// The answer to the producer, valid once the records are committed.
    pub(super) answer: PartitionProduceResponse,
    /// Number of replicas that must have the records before they are acknowledged, if more than a majority.
    pub(super) replicas: Option<usize>,
}

/// Appends the batch of one partition. `transaction` is the request's. Only transactional batches belong to
/// it.
pub(super) async fn append_to_partition(
    context: &Context,
    topic: &Topic,
    transaction: Option<&Transaction>,
    data: PartitionProduceData,
    acks: i16,
) -> Result<Written, PartitionRefusal> {
    let node = context.node();
    let handle = writable(topic, data.index)?;
    let replicas = if acks == ALL { replicas_needed(node, topic, data.index)? } else { None };
    let now = node.now();
    if context.version() < ZSTD_FROM && is_zstd(&data.records) {
        return Err(ErrorCode::UnsupportedCompressionType.into());
    }
    let batch_of = header(&data).filter(|header| header.attributes.is_transactional());
    let guard = match (batch_of, transaction) {
        (Some(header), Some(transaction)) => {
            transaction.enter_partition(context, handle, &header, now).await?
        }
        (Some(_), None) => return Err(without_transaction()),
        (None, _) => None,
    };
    let rules = topic.append_rules(now, context.server.limits.decompressed_bytes_max);
    let batch = check(data.records, rules, node.workers(), &context.session.work).await.map_err(|error| {
        tracing::error!(partition = %handle.id, %error, "checking a batch panicked");
        PartitionRefusal::from(error)
    })?;
    let batch = batch.map_err(|error| PartitionRefusal::of_batch(&error, handle.reader.log_start()))?;
    let (bytes, records) = (batch.bytes.len() as u64, batch.header.record_count.max(0).unsigned_abs());
    // Taps of the topic read the records from the log later. This only checks whether there may be any.
    let wanted = node.wanted(topic);
    let appended = match (batch.header.attributes.is_transactional(), transaction) {
        (false, _) => {
            let appended = append(node, context.caller(), handle, batch, now, wanted).await;
            appended.map_err(|failure| PartitionRefusal::of_append(failure, handle.reader.log_start()))?
        }
        (true, Some(transaction)) => transaction.append(context, handle, batch, guard, now, wanted).await?,
        (true, None) => return Err(without_transaction()),
    };
    if appended.duplicate.is_none() {
        context.server.metrics.records_produced.inc_by(records.into());
        context.server.metrics.bytes_produced.inc_by(bytes);
    }
    let append_time = if topic.log_append_time { now } else { TimestampMs::NONE };
    let append_time = appended.duplicate.map_or(append_time, |original| original.timestamp);
    let answer = PartitionProduceResponse {
        index: data.index,
        base_offset: appended.base_offset.get(),
        log_append_time_ms: append_time.0,
        log_start_offset: handle.reader.log_start().get(),
        ..Default::default()
    };
    Ok(Written { handle: Arc::clone(handle), appended, answer, replicas })
}

fn without_transaction() -> PartitionRefusal {
    let message = "a transactional batch needs a transactional id";
    PartitionRefusal::new(ErrorCode::TransactionalIdAuthorizationFailed, message)
}

/// Returns how many replicas must have acknowledged records (`min.insync.replicas`), or `None` if a majority
/// is enough.
///
/// # Errors
/// If fewer replicas are live, because waiting would be useless.
fn replicas_needed(node: &Node, topic: &Topic, index: i32) -> Result<Option<usize>, PartitionRefusal> {
    let wanted = topic.config.min_insync_replicas.unsigned_abs() as usize;
    // A standalone server has one replica, whatever the setting says.
    if wanted <= 1 || node.is_alone() {
        return Ok(None);
    }
    let Some(partition) = topic.image.partition(PartitionId(index)) else { return Ok(None) };
    let image = node.image();
    let live = partition.replicas.iter().filter(|replica| image.is_live(replica.node())).count();
    if live < wanted {
        let message = format!("{live} replicas are live, but min.insync.replicas is {wanted}");
        return Err(PartitionRefusal::new(ErrorCode::NotEnoughReplicas, message));
    }
    let majority = partition.replicas.len() / 2 + 1;
    Ok((wanted > majority).then_some(wanted))
}

/// Returns the partition if clients may write to it.
fn writable(topic: &Topic, index: i32) -> Result<&Arc<PartitionHandle>, PartitionRefusal> {
    if topic.internal {
        let message = format!("topic {} is internal", topic.name);
        return Err(PartitionRefusal::new(ErrorCode::InvalidTopicException, message));
    }
    topic.led(index).map_err(|absent| match absent {
        NotHere::Offline(offline) => PartitionRefusal::new(absent_code(absent), offline.reason.to_string()),
        NotHere::NoSuchPartition | NotHere::Elsewhere => absent_code(absent).into(),
    })
}
