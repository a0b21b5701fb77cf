//! ConsumerGroupHeartbeat (68): a member of a consumer group (KIP-848) joins, stays, or leaves.

use std::sync::Arc;

use tailrace_coordination::groups::{
    ConsumerEvent, ConsumerHeartbeat, ConsumerReply, GroupError, HeartbeatAnswer, Partitions, SeenTopics,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use tailrace_kafka_wire::messages::consumer_group_heartbeat_response::{
    Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_types::TopicId;

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;
use crate::groups::group_message;

/// First version whose clients choose their own member ids (KIP-1082).
const OWN_MEMBER_ID_FROM: i16 = 1;

/// "Not changed" in a field of milliseconds.
const NOT_CHANGED: i32 = -1;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: ConsumerGroupHeartbeatRequest = decode(&context, reader)?;
    if let Err(code) = check_rights(&context, &request) {
        return Ok(Decided::Reply(context.reply(failed(code))?));
    }
    let (group, beat) = heartbeat(&context, request);
    let pending = context.submit_consumer(group, ConsumerEvent::Heartbeat(Box::new(beat))).await;
    Ok(answer_later(context, async move {
        match pending.consumer().await {
            Ok(ConsumerReply::Heartbeat(Ok(answer))) => response(answer),
            Ok(ConsumerReply::Heartbeat(Err(error))) => refused(&error),
            Ok(_) => failed(ErrorCode::UnknownServerError),
            Err(code) => failed(code),
        }
    }))
}

fn check_rights(context: &Context, request: &ConsumerGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    let rights = context.rights();
    rights.group(Operation::Read, &request.group_id)?;
    let mut names = request.subscribed_topic_names.iter().flatten();
    names.try_for_each(|topic| rights.topic(Operation::Describe, topic))
}

fn heartbeat(context: &Context, request: ConsumerGroupHeartbeatRequest) -> (String, ConsumerHeartbeat) {
    let joins_without_id = request.member_id.is_empty() && request.member_epoch == 0;
    let member = if joins_without_id && context.version() < OWN_MEMBER_ID_FROM {
        TopicId(tailrace_env::random::bytes16()).to_string()
    } else {
        request.member_id
    };
    let owned = request
        .topic_partitions
        .map(|topics| topics.into_iter().map(|topic| (TopicId(topic.topic_id), topic.partitions)).collect());
    let describable = context.rights().describable_topics();
    let seen =
        describable.map_or_else(SeenTopics::all, |topics| SeenTopics::those(move |name| topics.has(name)));
    let beat = ConsumerHeartbeat {
        client: context.client_identity(),
        member: member.into(),
        epoch: request.member_epoch,
        instance: request.instance_id.map(Arc::from),
        rack: request.rack_id,
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|ms| *ms != NOT_CHANGED),
        topics: request.subscribed_topic_names,
        expression: request.subscribed_topic_regex,
        assignor: request.server_assignor,
        owned,
        seen,
    };
    (request.group_id, beat)
}

fn response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse {
        member_id: Some(answer.member.to_string()),
        member_epoch: answer.epoch,
        heartbeat_interval_ms: answer.heartbeat_interval_ms,
        assignment: answer.assignment.map(assignment),
        ..Default::default()
    }
}

fn assignment(partitions: Partitions) -> Assignment {
    let topics = partitions.into_iter().map(|(topic, partitions)| TopicPartitions {
        topic_id: topic.0,
        partitions,
        ..Default::default()
    });
    Assignment { topic_partitions: topics.collect(), ..Default::default() }
}

fn refused(error: &GroupError) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse { error_message: Some(group_message(error)), ..failed(group_code(error)) }
}

fn failed(code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse { error_code: code.code(), ..Default::default() }
}
