//! DeleteShareGroupOffsets (92): share groups without members forget where they were in topics.

use std::sync::Arc;

use tailrace_coordination::share::SharePartitionKey;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequest;
use tailrace_kafka_wire::messages::delete_share_group_offsets_response::{
    DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponseTopic,
};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::errors::share_admin_code;
use crate::share_group_states::{check_unused, tell_deleted};
use tailrace_node::partitions::Topic;
use tailrace_node::share::state;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DeleteShareGroupOffsetsRequest,
) -> DeleteShareGroupOffsetsResponse {
    let group: Arc<str> = request.group_id.as_str().into();
    if let Err(Refusal { code, message }) = check_unused(&context, &group).await {
        let error_message = Some(message);
        return DeleteShareGroupOffsetsResponse {
            error_code: code.code(),
            error_message,
            ..Default::default()
        };
    }
    let kept = match state::partitions_of(context.node(), &group).await {
        Ok(keys) => keys,
        Err(failure) => {
            return DeleteShareGroupOffsetsResponse {
                error_code: share_admin_code(&failure).code(),
                error_message: Some(failure.to_string()),
                ..Default::default()
            };
        }
    };
    let mut responses = Vec::new();
    for (number, wanted) in request.topics.into_iter().enumerate() {
        let topic = context.node().topics().by_name(&wanted.topic_name);
        let outcome = match &topic {
            _ if number >= ITEMS_MAX => Err(Refusal::too_many("topics")),
            // In these words, and with this code, by Kafka.
            Some(topic) if kept.iter().all(|key| key.topic != topic.id) => Err(Refusal::new(
                ErrorCode::UnknownTopicOrPartition,
                "There is no offset information to delete.",
            )),
            Some(topic) => delete(&context, &group, topic).await,
            None => Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, "There is no such topic.")),
        };
        let (code, message) = match outcome {
            Ok(()) => (ErrorCode::None, None),
            Err(Refusal { code, message }) => (code, Some(message)),
        };
        responses.push(DeleteShareGroupOffsetsResponseTopic {
            topic_name: wanted.topic_name,
            topic_id: topic.map_or([0; 16], |topic| topic.id.0),
            error_code: code.code(),
            error_message: message,
            ..Default::default()
        });
    }
    DeleteShareGroupOffsetsResponse { responses, ..Default::default() }
}

async fn delete(context: &Context, group: &Arc<str>, topic: &Topic) -> Result<(), Refusal> {
    tell_deleted(context, group, vec![topic.id]).await?;
    for partition in topic.image.topic_partitions() {
        let key =
            SharePartitionKey { group: Arc::clone(group), topic: topic.id, partition: partition.partition.0 };
        let deleted = state::delete(context.node(), &key).await;
        deleted.map_err(|failure| Refusal::new(share_admin_code(&failure), failure.to_string()))?;
    }
    Ok(())
}
