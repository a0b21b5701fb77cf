//! DeleteRecords (21): moves log start offsets forward, durably, up to the high watermark at most.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_records_request::{DeleteRecordsRequest, DeleteRecordsTopic};
use tailrace_kafka_wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use tailrace_types::Offset;

use crate::commands::in_time;
use crate::context::Context;
use crate::errors::failure_code;
use crate::lookup::online;
use tailrace_node::Caller;
use tailrace_node::partitions::{Bounds, advance_log_start};

/// The offset that means "up to the high watermark".
const TO_HIGH_WATERMARK: i64 = -1;

pub(crate) async fn handle(context: Arc<Context>, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let caller = context.caller_within_ms(request.timeout_ms);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        topics.push(delete_in_topic(&context, topic, &caller).await);
    }
    DeleteRecordsResponse { topics, ..Default::default() }
}

async fn delete_in_topic(
    context: &Context,
    topic: DeleteRecordsTopic,
    caller: &Caller,
) -> DeleteRecordsTopicResult {
    let mut partitions = Vec::with_capacity(topic.partitions.len());
    let may_delete = context.rights().topic(Operation::Delete, &topic.name);
    for wanted in topic.partitions {
        let index = wanted.partition_index;
        let deleted = match may_delete {
            Ok(()) => delete(context, &topic.name, index, wanted.offset, caller).await,
            Err(code) => Err(code),
        };
        let (low_watermark, code) = match deleted {
            Ok(log_start) => (log_start.get(), ErrorCode::None),
            Err(code) => (-1, code),
        };
        partitions.push(DeleteRecordsPartitionResult {
            partition_index: index,
            low_watermark,
            error_code: code.code(),
            ..Default::default()
        });
    }
    DeleteRecordsTopicResult { name: topic.name, partitions, ..Default::default() }
}

/// Returns the resulting log start offset.
async fn delete(
    context: &Context,
    name: &str,
    index: i32,
    offset: i64,
    caller: &Caller,
) -> Result<Offset, ErrorCode> {
    let topic = context.node().topics().by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if topic.internal {
        return Err(ErrorCode::InvalidTopicException);
    }
    let handle = online(&topic, index)?;
    let policy = &topic.config.cleanup_policy;
    if policy.compact && !policy.delete {
        // In a compacted topic, deleting a prefix would resurrect deleted keys for consumers that read from
        // the start.
        return Err(ErrorCode::PolicyViolation);
    }
    let Bounds { log_start, high_watermark, .. } = handle.bounds();
    let to = if offset == TO_HIGH_WATERMARK { high_watermark } else { Offset(offset) };
    if to.get() < 0 || to > high_watermark {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    if to <= log_start {
        return Ok(log_start);
    }
    in_time(caller).map_err(|refusal| refusal.code)?;
    let change = context.audited(&format_args!("DeleteRecords {} before {to}", handle.id));
    let outcome = advance_log_start(context.node(), caller, &handle, to).await;
    if let Err(failure) = &outcome {
        tracing::warn!(%caller, partition = %handle.id, %to, ?failure, "records were not deleted");
    }
    let outcome = outcome.map_err(|failure| failure_code(&failure));
    change.end_with(outcome.as_ref().err().copied().unwrap_or(ErrorCode::None));
    outcome
}
