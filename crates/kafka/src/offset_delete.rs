//! OffsetDelete (47): deletes offsets of topics that a group no longer reads.

use tailrace_coordination::groups::{GroupError, OffsetsEvent, OffsetsReply, TopicPartitions};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestTopic};
use tailrace_kafka_wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::audited::Audited;
use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: OffsetDeleteRequest = decode(&context, reader)?;
    let rights = context.rights();
    if let Err(code) = rights.group(Operation::Delete, &request.group_id) {
        drop(rights);
        return Ok(Decided::Reply(context.reply(refused(code))?));
    }
    let may_read = |topic: &OffsetDeleteRequestTopic| rights.topic(Operation::Read, &topic.name).is_ok();
    let (topics, hidden): (Vec<_>, Vec<_>) = request.topics.into_iter().partition(may_read);
    drop(rights);
    let hidden = hidden.into_iter().map(|topic| {
        let codes = vec![ErrorCode::TopicAuthorizationFailed; topic.partitions.len()];
        answer(topic, codes)
    });
    let hidden: Vec<_> = hidden.collect();
    let wanted = topics.iter().map(|topic| TopicPartitions {
        topic: topic.name.clone(),
        partitions: topic.partitions.iter().map(|partition| partition.partition_index).collect(),
    });
    let wanted: Vec<_> = wanted.collect();
    let mut change = context.audited(&format_args!("DeleteOffsets of {}", request.group_id.escape_debug()));
    let pending = context.submit_offsets(request.group_id, OffsetsEvent::Delete(wanted)).await;
    Ok(answer_later(context, async move {
        let fates = match pending.offsets().await {
            Ok(OffsetsReply::Delete(Ok(fates))) => Ok(fates),
            Ok(OffsetsReply::Delete(Err(error))) => Err(group_code(&error)),
            Ok(_) => Err(ErrorCode::UnknownServerError),
            Err(code) => Err(code),
        };
        let topics: Vec<_> = match fates {
            Ok(fates) => topics.into_iter().zip(fates).map(decided).collect(),
            Err(code) => {
                change.end_with(code);
                return refused(code);
            }
        };
        record(&mut change, &topics);
        change.end();
        OffsetDeleteResponse { topics: hidden.into_iter().chain(topics).collect(), ..Default::default() }
    }))
}

fn record(change: &mut Audited, topics: &[OffsetDeleteResponseTopic]) {
    for topic in topics {
        for partition in &topic.partitions {
            let code = ErrorCode::from_code(partition.error_code).unwrap_or(ErrorCode::UnknownServerError);
            let (name, index) = (topic.name.escape_debug(), partition.partition_index);
            change.part(&format_args!("{name}-{index}"), code);
        }
    }
}

/// A topic, and the fates of its partitions.
type Fates = (OffsetDeleteRequestTopic, Vec<Result<(), GroupError>>);

fn decided((topic, fates): Fates) -> OffsetDeleteResponseTopic {
    let code =
        |fate: Result<(), GroupError>| fate.map_or_else(|error| group_code(&error), |()| ErrorCode::None);
    answer(topic, fates.into_iter().map(code).collect())
}

fn answer(topic: OffsetDeleteRequestTopic, codes: Vec<ErrorCode>) -> OffsetDeleteResponseTopic {
    let partitions = topic.partitions.iter().zip(codes).map(|(partition, code)| {
        OffsetDeleteResponsePartition { partition_index: partition.partition_index, error_code: code.code() }
    });
    OffsetDeleteResponseTopic { name: topic.name, partitions: partitions.collect() }
}

fn refused(code: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code: code.code(), ..Default::default() }
}
