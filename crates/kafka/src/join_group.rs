//! JoinGroup (11): a member of a classic group joins the next generation. The answer is sent when all members
//! have joined, or their time is up.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_coordination::groups::{
    ClassicEvent, ClassicReply, GroupError, JoinAbilities, JoinRequest, Joined,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::join_group_request::JoinGroupRequest;
use tailrace_kafka_wire::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;
use crate::groups::{fresh_member_id, reason_for_log};

/// First version with separate rebalance and session timeouts.
const REBALANCE_TIMEOUT_FROM: i16 = 1;

/// First version whose clients join again with the member id they are given (KIP-394).
const MEMBER_ID_REQUIRED_FROM: i16 = 4;

/// First version in which the protocol name may be null.
const NULL_PROTOCOL_FROM: i16 = 7;

/// First version in which a leader can be told to keep the assignment (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: JoinGroupRequest = decode(&context, reader)?;
    let version = context.version();
    if let Err(code) = context.rights().group(Operation::Read, &request.group_id) {
        return Ok(Decided::Reply(context.reply(refused(code, String::new(), version))?));
    }
    let member = request.member_id.clone();
    if let Some(reason) = &request.reason {
        let (group, reason) = (&request.group_id, reason_for_log(reason));
        tracing::debug!(group, member, ?reason, "a member joins");
    }
    let (group, join) = join_request(&context, request);
    let pending = context.submit_classic(group, ClassicEvent::Join(join)).await;
    Ok(answer_later(context, async move {
        match pending.classic().await {
            Ok(ClassicReply::Join(Ok(joined))) => response(joined),
            Ok(ClassicReply::Join(Err(error))) => {
                let member = match &error {
                    GroupError::MemberIdRequired { member } => member.to_string(),
                    _ => member,
                };
                refused(group_code(&error), member, version)
            }
            Ok(_) => refused(ErrorCode::UnknownServerError, member, version),
            Err(code) => refused(code, member, version),
        }
    }))
}

fn join_request(context: &Context, request: JoinGroupRequest) -> (String, JoinRequest) {
    let version = context.version();
    let client = context.client_identity();
    let prefix = request.group_instance_id.as_deref().unwrap_or(&client.client_id);
    let fresh_member = fresh_member_id(prefix);
    let rebalance_timeout_ms = if version < REBALANCE_TIMEOUT_FROM {
        request.session_timeout_ms
    } else {
        request.rebalance_timeout_ms
    };
    let join = JoinRequest {
        client,
        member: request.member_id.into(),
        fresh_member,
        instance: request.group_instance_id.map(Arc::from),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: request.protocol_type,
        // Copied, because a slice would keep the whole frame in memory as long as the member exists.
        protocols: request
            .protocols
            .into_iter()
            .map(|protocol| (protocol.name, Bytes::copy_from_slice(&protocol.metadata)))
            .collect(),
        abilities: JoinAbilities {
            comes_back_with_id: version >= MEMBER_ID_REQUIRED_FROM,
            skips_assignment: version >= SKIP_ASSIGNMENT_FROM,
        },
    };
    (request.group_id, join)
}

fn response(joined: Joined) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|member| JoinGroupResponseMember {
        member_id: member.member.to_string(),
        group_instance_id: member.instance.map(|instance| instance.to_string()),
        metadata: member.subscription,
        ..Default::default()
    });
    JoinGroupResponse {
        generation_id: joined.generation,
        protocol_type: joined.protocol_type.map(|name| name.to_string()),
        protocol_name: Some(joined.protocol.map(|name| name.to_string()).unwrap_or_default()),
        leader: joined.leader.to_string(),
        skip_assignment: joined.skip_assignment,
        member_id: joined.member.to_string(),
        members: members.collect(),
        ..Default::default()
    }
}

fn refused(code: ErrorCode, member_id: String, version: i16) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: code.code(),
        generation_id: -1,
        protocol_name: (version < NULL_PROTOCOL_FROM).then(String::new),
        member_id,
        ..Default::default()
    }
}
