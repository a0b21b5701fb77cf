//! DeleteShareGroupOffsets (92): deletes the offsets of share groups without members, topic by topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequest;
use tailrace_kafka_wire::messages::delete_share_group_offsets_response::{
    DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponseTopic,
};
use tailrace_types::TopicId;

use crate::audited::Audited;
use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::errors::{deletion_code, share_admin_code};
use crate::share_group_states::check_unused;
use tailrace_node::share::delete_states;
use tailrace_node::share::state::StateFailure;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DeleteShareGroupOffsetsRequest,
) -> DeleteShareGroupOffsetsResponse {
    let rights = context.rights();
    let may_delete = rights.group(Operation::Delete, &request.group_id);
    let may_read: Vec<_> = match may_delete {
        Ok(()) => {
            request.topics.iter().map(|topic| rights.topic(Operation::Read, &topic.topic_name)).collect()
        }
        Err(_) => Vec::new(),
    };
    drop(rights);
    let change = may_delete
        .is_ok()
        .then(|| context.audited(&format_args!("DeleteShareOffsets of {}", request.group_id.escape_debug())));
    let outcomes = match may_delete {
        Ok(()) => delete(&context, &request, &may_read).await,
        Err(code) => Err(Refusal::unauthorized(code)),
    };
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(Refusal { code, message }) => {
            change.into_iter().for_each(|change| change.end_with(code));
            return DeleteShareGroupOffsetsResponse {
                error_code: code.code(),
                error_message: Some(message),
                ..Default::default()
            };
        }
    };
    let mut responses = Vec::new();
    for (number, (wanted, may_read)) in request.topics.into_iter().zip(may_read).enumerate() {
        let topics = context.node().topics();
        let topic = may_read.is_ok().then(|| topics.by_name(&wanted.topic_name)).flatten();
        let outcome = match &topic {
            _ if number >= ITEMS_MAX => Err(Refusal::too_many("topics")),
            None if may_read.is_err() => Err(Refusal::unauthorized(ErrorCode::TopicAuthorizationFailed)),
            Some(topic) => match outcomes.get(&topic.id) {
                Some(Ok(())) => Ok(()),
                Some(Err(failure)) => Err(Refusal::new(share_admin_code(failure), failure.to_string())),
                // Kafka's text and error code.
                None => Err(Refusal::new(
                    ErrorCode::UnknownTopicOrPartition,
                    "There is no offset information to delete.",
                )),
            },
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
    change.into_iter().for_each(|change| record(change, &responses));
    DeleteShareGroupOffsetsResponse { responses, ..Default::default() }
}

fn record(mut change: Audited, topics: &[DeleteShareGroupOffsetsResponseTopic]) {
    for topic in topics {
        let code = ErrorCode::from_code(topic.error_code).unwrap_or(ErrorCode::UnknownServerError);
        change.part(&topic.topic_name.escape_debug(), code);
    }
    change.end();
}

/// Deletes the offsets. Returns the outcome for each topic of which the group had some.
async fn delete(
    context: &Context,
    request: &DeleteShareGroupOffsetsRequest,
    may_read: &[Result<(), ErrorCode>],
) -> Result<BTreeMap<TopicId, Result<(), StateFailure>>, Refusal> {
    let group: Arc<str> = request.group_id.as_str().into();
    check_unused(context, &group).await?;
    let topics = context.node().topics();
    // Topics beyond the limit are refused, whether the client may read them or not.
    let wanted = request.topics.iter().zip(may_read).take(ITEMS_MAX).filter(|(_, may_read)| may_read.is_ok());
    let ids =
        wanted.filter_map(|(wanted, _)| topics.by_name(&wanted.topic_name).map(|topic| topic.id)).collect();
    delete_states(context.node(), context.caller(), &group, Some(ids))
        .await
        .map_err(|failure| Refusal::new(deletion_code(&failure), failure.to_string()))
}
