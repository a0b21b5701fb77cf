//! DeleteTopics (20): by name, and from version 6 by id, so that a topic made anew under the old name is not hit.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use tailrace_kafka_wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use tailrace_metadata::{Command, MetadataImage, Requester, TopicRef};
use tailrace_types::TopicId;

use crate::commands::{Mode, Refusal, in_time};
use crate::context::Context;
use tailrace_node::Caller;

/// First version whose clients know TOPIC_DELETION_DISABLED.
const DELETION_DISABLED_FROM: i16 = 3;

/// First version in which topics are structures, with a name or an id.
const IDS_FROM: i16 = 6;

/// What one entry of the request means.
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
    let targets = match targets(&context, &wanted).await {
        Ok(targets) => targets,
        Err(refusal) => {
            let responses = wanted.into_iter().map(|topic| refused(topic, refusal.clone())).collect();
            return DeleteTopicsResponse { responses, ..Default::default() };
        }
    };
    let mut times: HashMap<Target, usize> = HashMap::new();
    for target in &targets {
        *times.entry(target.clone()).or_default() += 1;
    }
    let mut responses = Vec::with_capacity(times.len());
    for (topic, target) in wanted.into_iter().zip(targets) {
        // What comes several times is answered once, and not deleted at all.
        let outcome = match times.remove(&target) {
            None => continue,
            Some(count) => delete(&context, target, topic.name.is_some(), count, &caller).await,
        };
        responses.push(match outcome {
            Ok((name, id)) => DeletableTopicResult { name: Some(name), topic_id: id.0, ..Default::default() },
            Err(refusal) => refused(topic, refusal),
        });
    }
    DeleteTopicsResponse { responses, ..Default::default() }
}

fn by_name(names: Vec<String>) -> Vec<DeleteTopicState> {
    names.into_iter().map(|name| DeleteTopicState { name: Some(name), ..Default::default() }).collect()
}

/// What the topics are that are wanted. This node may know old metadata: it is sure that there is no such topic before it says so.
async fn targets(context: &Context, wanted: &[DeleteTopicState]) -> Result<Vec<Target>, Refusal> {
    let node = context.node();
    let by_image = |image: &MetadataImage| wanted.iter().map(|topic| target(image, topic)).collect();
    let targets: Vec<Target> = by_image(&node.image());
    if !targets.iter().any(|target| matches!(target, Target::UnknownName(_) | Target::UnknownId(_))) {
        return Ok(targets);
    }
    node.catch_up().await?;
    Ok(by_image(&node.image()))
}

/// A topic's name and its id are the same target.
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

async fn delete(
    context: &Context,
    target: Target,
    is_named: bool,
    count: usize,
    caller: &Caller,
) -> Result<(String, TopicId), Refusal> {
    match target {
        Target::Both => Err(Refusal::invalid_request("You may not specify both topic name and topic id.")),
        Target::Neither => Err(Refusal::invalid_request("Neither topic name nor id were specified.")),
        _ if count > 1 => Err(Refusal::invalid_request("Duplicate topic name.")),
        Target::UnknownName(name) => Err(unknown(&name)),
        Target::UnknownId(id) => {
            Err(Refusal::new(ErrorCode::UnknownTopicId, format!("There is no topic with the id {id}.")))
        }
        Target::Topic { id, name } if is_named => delete_named(context, id, name, caller).await,
        Target::Topic { id, name } => delete_by_id(context, id, caller).await.map(|()| (name, id)),
    }
}

/// `id` is what the topic is known by here, and may be that of an earlier one.
async fn delete_named(
    context: &Context,
    mut id: TopicId,
    name: String,
    caller: &Caller,
) -> Result<(String, TopicId), Refusal> {
    loop {
        match delete_by_id(context, id, caller).await {
            Ok(()) => return Ok((name, id)),
            Err(refusal) if refusal.code == ErrorCode::UnknownTopicId => {}
            Err(refusal) => return Err(refusal),
        }
        context.node().catch_up().await?;
        id = context.node().image().topic(&name).map(|topic| topic.id).ok_or_else(|| unknown(&name))?;
    }
}

async fn delete_by_id(context: &Context, id: TopicId, caller: &Caller) -> Result<(), Refusal> {
    in_time(caller)?;
    let command = Command::DeleteTopic { topic: TopicRef::Id(id), by: Requester::Client };
    match context.command(caller, command, Mode::CarryOut).await {
        Ok(_) => Ok(()),
        Err(refusal) => Err(for_version(refusal, context.version())),
    }
}

fn unknown(name: &str) -> Refusal {
    Refusal::new(ErrorCode::UnknownTopicOrPartition, format!("The topic '{name}' does not exist."))
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
