//! DeleteTopics (20): deletes topics by name, and from version 6 on by id, so that a topic recreated under
//! the old name is spared.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use tailrace_kafka_wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use tailrace_metadata::{Command, MetadataImage, MetadataRecord, Requester, TopicRef};
use tailrace_types::TopicId;

use crate::commands::{Refusal, in_time};
use crate::context::Context;
use crate::rights::ApiRights;
use tailrace_node::Caller;

/// First version whose clients know TOPIC_DELETION_DISABLED.
const DELETION_DISABLED_FROM: i16 = 3;

/// First version whose clients know THROTTLING_QUOTA_EXCEEDED.
const QUOTA_EXCEEDED_FROM: i16 = 5;

/// First version in which topics are structures with a name or an id.
const IDS_FROM: i16 = 6;

/// The target of one entry of the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Topic {
        id: TopicId,
        name: String,
    },
    UnknownName(String),
    UnknownId(TopicId),
    /// A name or id of a topic that the client may not see. It does not tell which names and ids belong
    /// together, nor whether the topic exists if only its name is given.
    Hidden {
        name: Option<String>,
        id: TopicId,
    },
    Both,
    Neither,
}

pub(crate) async fn handle(context: Arc<Context>, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let caller = context.caller_within_ms(request.timeout_ms);
    let wanted = if context.version() >= IDS_FROM { request.topics } else { by_name(request.topic_names) };
    let image = context.node().image();
    let targets: Vec<Target> = {
        let rights = context.rights();
        wanted.iter().map(|topic| seen(&rights, target(&image, topic), topic)).collect()
    };
    let mut times: HashMap<Target, usize> = HashMap::new();
    for target in &targets {
        *times.entry(target.clone()).or_default() += 1;
    }
    let mut responses = Vec::with_capacity(times.len());
    for (topic, target) in wanted.into_iter().zip(targets) {
        let is_named = topic.name.is_some();
        // A repeated target gets one answer, and the topic is not deleted.
        let outcome = match times.remove(&target) {
            None => continue,
            Some(count) => delete(&context, target, is_named, count, &caller).await,
        };
        responses.push(match outcome {
            Ok((name, id)) => DeletableTopicResult { name, topic_id: id.0, ..Default::default() },
            Err((name, refusal)) => refused(DeleteTopicState { name: name.or(topic.name), ..topic }, refusal),
        });
    }
    DeleteTopicsResponse { responses, throttle_time_ms: context.throttle_time_ms(), ..Default::default() }
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

/// Hides a target that the client may not DESCRIBE.
fn seen(rights: &ApiRights<'_>, target: Target, entry: &DeleteTopicState) -> Target {
    let name = match &target {
        Target::Topic { name, .. } | Target::UnknownName(name) => name,
        Target::UnknownId(_) | Target::Hidden { .. } | Target::Both | Target::Neither => return target,
    };
    if rights.sees_cluster(Operation::Delete) || rights.topic(Operation::Describe, name).is_ok() {
        return target;
    }
    Target::Hidden { name: entry.name.clone(), id: TopicId(entry.topic_id) }
}

/// Deletes a topic. A refusal comes with the topic's name if the client may delete or see it.
async fn delete(
    context: &Context,
    target: Target,
    is_named: bool,
    count: usize,
    caller: &Caller,
) -> Result<(Option<String>, TopicId), (Option<String>, Refusal)> {
    let nameless = |refusal| (None, refusal);
    let is_unknown = matches!(target, Target::UnknownName(_));
    let (name, topic) = match target {
        Target::Both => {
            return Err(nameless(Refusal::invalid_request(
                "You may not specify both topic name and topic id.",
            )));
        }
        Target::Neither => {
            return Err(nameless(Refusal::invalid_request("Neither topic name nor id were specified.")));
        }
        Target::Hidden { .. } => {
            return Err(nameless(Refusal::unauthorized(ErrorCode::TopicAuthorizationFailed)));
        }
        _ if count > 1 => return Err(nameless(Refusal::invalid_request("Duplicate topic name."))),
        Target::Topic { id, name } if !is_named => (Some(name), TopicRef::Id(id)),
        Target::Topic { name, .. } | Target::UnknownName(name) => (Some(name.clone()), TopicRef::Name(name)),
        Target::UnknownId(id) => (None, TopicRef::Id(id)),
    };
    let may_delete = name.as_deref().map_or(Ok(()), |name| check_rights(context, name));
    if let Err(code) = may_delete {
        // The client may see that there is no such topic, as in Kafka.
        if is_unknown {
            let message = "This server does not host this topic-partition.";
            return Err((name, Refusal::new(ErrorCode::UnknownTopicOrPartition, message)));
        }
        return Err((name, Refusal::unauthorized(code)));
    }
    // The metadata of this node do not have the id, so no right can be asked.
    if name.is_none() && !context.rights().is_unlimited() {
        return Err(nameless(Refusal::new(
            ErrorCode::UnknownTopicId,
            "This server does not host this topic ID.",
        )));
    }
    let deleted = carry_out(context, topic, caller).await.map_err(nameless)?;
    Ok((name, deleted))
}

fn check_rights(context: &Context, name: &str) -> Result<(), ErrorCode> {
    let rights = context.rights();
    if rights.sees_cluster(Operation::Delete) { Ok(()) } else { rights.topic(Operation::Delete, name) }
}

/// Returns the id of the deleted topic. The controller decides whether the topic exists, because this node's
/// metadata may be old.
async fn carry_out(context: &Context, topic: TopicRef, caller: &Caller) -> Result<TopicId, Refusal> {
    in_time(caller)?;
    if context.limits_mutations() {
        let image = context.node().image();
        let known = match &topic {
            TopicRef::Name(name) => image.topic(name),
            TopicRef::Id(id) => image.topic_by_id(*id),
        };
        // The controller refuses a topic that does not exist.
        if let Some(known) = known {
            context.mutate(known.partitions, QUOTA_EXCEEDED_FROM)?;
        }
    }
    let command = Command::DeleteTopic { topic, by: Requester::Client };
    let executed = context.carried_out(caller, command).await;
    let executed = executed.map_err(|refusal| for_version(refusal, context.version()))?;
    let deleted = executed.records.iter().find_map(|record| match record {
        MetadataRecord::TopicDeleted { id } => Some(*id),
        _ => None,
    });
    deleted.ok_or_else(|| {
        Refusal::new(ErrorCode::UnknownServerError, "The controller did not report what was deleted.")
    })
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
