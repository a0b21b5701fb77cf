//! LeaveGroup (13): members leave a group, or an administrator removes them.

use std::sync::Arc;

use tailrace_coordination::groups::{ClassicEvent, ClassicReply, LeavingMember};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use tailrace_kafka_wire::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::audited::Audited;
use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;
use crate::groups::reason_for_log;

/// First version in which several members may leave at once (KIP-345).
const MEMBERS_FROM: i16 = 3;

/// How the reason begins with which Kafka's tools remove members.
const REMOVED: &str = "member was removed by an admin";

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: LeaveGroupRequest = decode(&context, reader)?;
    if let Err(code) = context.rights().group(Operation::Read, &request.group_id) {
        return Ok(Decided::Reply(context.reply(refused(code))?));
    }
    let batched = context.version() >= MEMBERS_FROM;
    let members = if batched {
        request.members
    } else {
        vec![MemberIdentity { member_id: request.member_id, ..Default::default() }]
    };
    for member in &members {
        if let Some(reason) = &member.reason {
            let (group, id, reason) = (&request.group_id, &member.member_id, reason_for_log(reason));
            let instance = member.group_instance_id.as_deref();
            tracing::debug!(group, member = id, instance, ?reason, "a member leaves");
        }
    }
    let leaving = members.iter().map(|member| LeavingMember {
        member: Arc::from(member.member_id.as_str()),
        instance: member.group_instance_id.as_deref().map(Arc::from),
    });
    let event = ClassicEvent::Leave(leaving.collect());
    let group = request.group_id.escape_debug();
    let removed =
        are_removed(&members).then(|| context.audited_common(&format_args!("RemoveMembers of {group}")));
    let pending = context.submit_classic(request.group_id, event).await;
    Ok(answer_later(context, async move {
        let fates = match pending.classic().await {
            Ok(ClassicReply::Leave(Ok(fates))) => Ok(fates),
            Ok(ClassicReply::Leave(Err(error))) => Err(group_code(&error)),
            Ok(_) => Err(ErrorCode::UnknownServerError),
            Err(code) => Err(code),
        };
        let fates = match fates {
            Ok(fates) => fates,
            Err(code) => {
                removed.into_iter().for_each(|change| change.end_with(code));
                return refused(code);
            }
        };
        let codes = fates.iter().map(|fate| fate.as_ref().map_or_else(group_code, |()| ErrorCode::None));
        let codes: Vec<_> = codes.collect();
        removed.into_iter().for_each(|change| record(change, &members, &codes));
        if !batched {
            return refused(codes.into_iter().next().unwrap_or(ErrorCode::None));
        }
        let answer = |(member, code): (MemberIdentity, ErrorCode)| MemberResponse {
            member_id: member.member_id,
            group_instance_id: member.group_instance_id,
            error_code: code.code(),
            ..Default::default()
        };
        LeaveGroupResponse {
            members: members.into_iter().zip(codes).map(answer).collect(),
            ..Default::default()
        }
    }))
}

/// Reports whether somebody else removes these members: a member that leaves names itself, by its id. With
/// one member, only the reason of Kafka's tools tells that.
fn are_removed(members: &[MemberIdentity]) -> bool {
    let is_removed = |member: &MemberIdentity| {
        let by_instance = member.member_id.is_empty() && member.group_instance_id.is_some();
        by_instance || member.reason.as_deref().is_some_and(|reason| reason.starts_with(REMOVED))
    };
    members.len() > 1 || members.iter().any(is_removed)
}

fn record(mut change: Audited, members: &[MemberIdentity], codes: &[ErrorCode]) {
    for (member, code) in members.iter().zip(codes) {
        match &member.group_instance_id {
            Some(instance) => change.part(&format_args!("instance {}", instance.escape_debug()), *code),
            None => change.part(&member.member_id.escape_debug(), *code),
        }
    }
    change.end();
}

fn refused(code: ErrorCode) -> LeaveGroupResponse {
    LeaveGroupResponse { error_code: code.code(), ..Default::default() }
}
