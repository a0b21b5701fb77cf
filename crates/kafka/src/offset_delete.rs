//! OffsetDelete (47): deletes offsets of topics that a group no longer reads.

use tailrace_coordination::groups::{GroupError, OffsetsEvent, OffsetsReply, TopicPartitions};
use tailrace_kafka_wire::messages::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestTopic};
use tailrace_kafka_wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: OffsetDeleteRequest = decode(&context, reader)?;
    let wanted = request.topics.iter().map(|topic| TopicPartitions {
        topic: topic.name.clone(),
        partitions: topic.partitions.iter().map(|partition| partition.partition_index).collect(),
    });
    let wanted: Vec<_> = wanted.collect();
    let pending = context.submit_offsets(request.group_id, OffsetsEvent::Delete(wanted)).await;
    let topics = request.topics;
    Ok(answer_later(context, async move {
        match pending.offsets().await {
            Ok(OffsetsReply::Delete(Ok(fates))) => OffsetDeleteResponse {
                topics: topics.into_iter().zip(fates).map(|(topic, fates)| answer(topic, fates)).collect(),
                ..Default::default()
            },
            Ok(OffsetsReply::Delete(Err(error))) => refused(group_code(&error)),
            Ok(_) => refused(ErrorCode::UnknownServerError),
            Err(code) => refused(code),
        }
    }))
}

fn answer(topic: OffsetDeleteRequestTopic, fates: Vec<Result<(), GroupError>>) -> OffsetDeleteResponseTopic {
    let partitions = topic.partitions.iter().zip(fates).map(|(partition, fate)| {
        let code = fate.map_or_else(|error| group_code(&error), |()| ErrorCode::None);
        OffsetDeleteResponsePartition { partition_index: partition.partition_index, error_code: code.code() }
    });
    OffsetDeleteResponseTopic { name: topic.name, partitions: partitions.collect() }
}

fn refused(code: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code: code.code(), ..Default::default() }
}
