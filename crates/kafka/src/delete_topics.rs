//! DeleteTopics (20): deletes topics by name, and from version 6 on by id, so that a topic recreated under
//! the old name is spared.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use tailrace_kafka_wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use tailrace_metadata::{Command, MetadataImage, MetadataRecord, Requester, TopicRef};
use tailrace_types::TopicId;

use crate::commands::{Refusal, in_time};
use crate::context::Context;
use tailrace_node::Caller;

/// First version whose clients know TOPIC_DELETION_DISABLED.
const DELETION_DISABLED_FROM: i16 = 3;

/// First version in which topics are structures with a name or an id.
const IDS_FROM: i16 = 6;

/// The target of one entry of the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Topic { id: TopicId, name: String },
    UnknownName(String),
    UnknownId(TopicId),
    Both,
    Neither,
}

pub(crate) async fn handle(context: Arc<Context>, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let caller = context.caller_within_ms(request.timeout_ms);
    let wanted = if context.version() >= IDS_FROM { request.topics } else { by_name(request.topic_names) };
    let image = context.node().image();
    let targets: Vec<Target> = wanted.iter().map(|topic| target(&image, topic)).collect();
    let mut times: HashMap<Target, usize> = HashMap::new();
    for target in &targets {
        *times.entry(target.clone()).or_default() += 1;
    }
    let mut responses = Vec::with_capacity(times.len());
    for (topic, target) in wanted.into_iter().zip(targets) {
        // A repeated target gets one answer, and the topic is not deleted.
        let outcome = match times.remove(&target) {
            None => continue,
            Some(count) => delete(&context, target, topic.name.is_some(), count, &caller).await,
        };
        responses.push(match outcome {
            Ok((name, id)) => DeletableTopicResult { name, topic_id: id.0, ..Default::default() },
            Err(refusal) => refused(topic, refusal),
        });
    }
    DeleteTopicsResponse { responses, ..Default::default() }
}

fn by_name(names: Vec<String>) -> Vec<DeleteTopicState> {
    names.into_iter().map(|name| DeleteTopicState { name: Some(name), ..Default::default() }).collect()
}

/// Resolves an entry of the request. A topic's name and its id are the same target.
fn target(image: &MetadataImage, topic: &DeleteTopicState) -> Target {
    let id = TopicId(topic.topic_id);
    let found = |topic: &tailrace_metadata::TopicImage| Target::Topic {
        id: topic.id,
        name: topic.name.as_str().to_owned(),
    };
    match &topic.name {
        Some(_) if !id.is_zero() => Target::Both,
        None if id.is_zero() => Target::Neither,
        Some(name) => image.topic(name).map_or_else(|| Target::UnknownName(name.clone()), |t| found(t)),
        None => image.topic_by_id(id).map_or(Target::UnknownId(id), |t| found(t)),
    }
}

/// Deletes a topic. The controller decides whether it exists, because this node's metadata may be old.
async fn delete(
    context: &Context,
    target: Target,
    is_named: bool,
    count: usize,
    caller: &Caller,
) -> Result<(Option<String>, TopicId), Refusal> {
    let (name, topic) = match target {
        Target::Both => {
            return Err(Refusal::invalid_request("You may not specify both topic name and topic id."));
        }
        Target::Neither => {
            return Err(Refusal::invalid_request("Neither topic name nor id were specified."));
        }
        _ if count > 1 => return Err(Refusal::invalid_request("Duplicate topic name.")),
        Target::Topic { id, name } if !is_named => (Some(name), TopicRef::Id(id)),
        Target::Topic { name, .. } | Target::UnknownName(name) => (Some(name.clone()), TopicRef::Name(name)),
        Target::UnknownId(id) => (None, TopicRef::Id(id)),
    };
    in_time(caller)?;
    let command = Command::DeleteTopic { topic, by: Requester::Client };
    let executed = context.carried_out(caller, command).await;
    let executed = executed.map_err(|refusal| for_version(refusal, context.version()))?;
    let deleted = executed.records.iter().find_map(|record| match record {
        MetadataRecord::TopicDeleted { id } => Some(*id),
        _ => None,
    });
    let deleted = deleted.ok_or_else(|| {
        Refusal::new(ErrorCode::UnknownServerError, "The controller did not report what was deleted.")
    })?;
    Ok((name, deleted))
}

fn for_version(refusal: Refusal, version: i16) -> Refusal {
    if refusal.code == ErrorCode::TopicDeletionDisabled && version < DELETION_DISABLED_FROM {
        return Refusal { code: ErrorCode::InvalidRequest, ..refusal };
    }
    refusal
}

fn refused(topic: DeleteTopicState, refusal: Refusal) -> DeletableTopicResult {
    DeletableTopicResult {
        name: topic.name,
        topic_id: topic.topic_id,
        error_code: refusal.code.code(),
        error_message: Some(refusal.message),
        ..Default::default()
    }
}
