//! ShareGroupHeartbeat (76): a member of a share group (KIP-932) joins, stays, or leaves.

use std::sync::Arc;

use tailrace_coordination::groups::{
    GroupError, HeartbeatAnswer, Partitions, ShareEvent, ShareHeartbeat, ShareReply,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::share_group_heartbeat_request::ShareGroupHeartbeatRequest;
use tailrace_kafka_wire::messages::share_group_heartbeat_response::{
    Assignment, ShareGroupHeartbeatResponse, TopicPartitions,
};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;
use crate::groups::group_message;

/// The epoch of a leaving member.
const LEAVE: i32 = -1;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: ShareGroupHeartbeatRequest = decode(&context, reader)?;
    if let Err(code) = check_rights(&context, &request) {
        return Ok(Decided::Reply(context.reply(failed(code))?));
    }
    let beat = ShareHeartbeat {
        client: context.client_identity(),
        member: request.member_id.into(),
        epoch: request.member_epoch,
        rack: request.rack_id,
        topics: request.subscribed_topic_names,
    };
    let (node, caller) = (Arc::clone(context.node()), context.caller().clone());
    let leaves = beat.epoch == LEAVE;
    let (group, member) = (request.group_id.clone(), Arc::clone(&beat.member));
    let pending = context.submit_share_group(request.group_id, ShareEvent::Heartbeat(beat)).await;
    Ok(answer_later(context, async move {
        match pending.share().await {
            Ok(ShareReply::Heartbeat(Ok(answer))) => {
                if leaves {
                    node.share_groups().member_left(&node, &caller, &group, &member);
                }
                response(answer)
            }
            Ok(ShareReply::Heartbeat(Err(error))) => refused(&error),
            Ok(_) => failed(ErrorCode::UnknownServerError),
            Err(code) => failed(code),
        }
    }))
}

fn check_rights(context: &Context, request: &ShareGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    let rights = context.rights();
    rights.group(Operation::Read, &request.group_id)?;
    let mut names = request.subscribed_topic_names.iter().flatten();
    names.try_for_each(|topic| rights.topic(Operation::Describe, topic))
}

fn response(answer: HeartbeatAnswer) -> ShareGroupHeartbeatResponse {
    ShareGroupHeartbeatResponse {
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

fn refused(error: &GroupError) -> ShareGroupHeartbeatResponse {
    ShareGroupHeartbeatResponse { error_message: Some(group_message(error)), ..failed(group_code(error)) }
}

fn failed(code: ErrorCode) -> ShareGroupHeartbeatResponse {
    ShareGroupHeartbeatResponse { error_code: code.code(), ..Default::default() }
}
