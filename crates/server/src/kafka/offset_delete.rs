//! OffsetDelete (47): forgets offsets of topics that a group does not read any more.

use std::sync::Arc;

use tailrace_broker::groups::{
    GroupError, GroupEvent, GroupReply, OffsetsEvent, OffsetsReply, TopicPartitions,
};
use tailrace_kafka_wire::messages::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestTopic};
use tailrace_kafka_wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::connection::Closed;
use crate::kafka::errors::{group_code, offset_code};
use crate::kafka::groups::{ask, later, reply, unexpected};
use crate::kafka::{Context, Decided, decode};

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: OffsetDeleteRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    let group: Arc<str> = request.group_id.as_str().into();
    let wanted = request.topics.iter().map(|topic| TopicPartitions {
        topic: topic.name.clone(),
        partitions: topic.partitions.iter().map(|partition| partition.partition_index).collect(),
    });
    let wanted: Vec<_> = wanted.collect();
    let id = Arc::clone(&group);
    let event = move |token| GroupEvent::Offsets { token, group: id, event: OffsetsEvent::Delete(wanted) };
    let asked = ask(&context, &group, event).await;
    Ok(later(context, async move {
        match reply(asked).await {
            Ok(GroupReply::Offsets(OffsetsReply::Delete(Ok(fates)))) => OffsetDeleteResponse {
                topics: request
                    .topics
                    .into_iter()
                    .zip(fates)
                    .map(|(topic, fates)| answer(topic, fates))
                    .collect(),
                ..Default::default()
            },
            Ok(GroupReply::Offsets(OffsetsReply::Delete(Err(error)))) => refused(group_code(&error)),
            Ok(other) => refused(unexpected(&other)),
            Err(code) => refused(code),
        }
    }))
}

fn answer(topic: OffsetDeleteRequestTopic, fates: Vec<Result<(), GroupError>>) -> OffsetDeleteResponseTopic {
    let partitions = topic.partitions.iter().zip(fates).map(|(partition, fate)| {
        let code = fate.map_or_else(|error| offset_code(&error), |()| ErrorCode::None);
        OffsetDeleteResponsePartition {
            partition_index: partition.partition_index,
            error_code: code.code(),
            ..Default::default()
        }
    });
    OffsetDeleteResponseTopic { name: topic.name, partitions: partitions.collect(), ..Default::default() }
}

fn refused(code: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code: code.code(), ..Default::default() }
}
