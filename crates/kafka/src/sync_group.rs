//! SyncGroup (14): a member of a classic group asks for its assignment. The leader sends those of all
//! members.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_coordination::groups::{ClassicEvent, ClassicReply, MemberReference, SyncRequest};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::sync_group_request::SyncGroupRequest;
use tailrace_kafka_wire::messages::sync_group_response::SyncGroupResponse;
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;

/// First version with the protocol's name and type, which are required.
const PROTOCOL_FROM: i16 = 5;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: SyncGroupRequest = decode(&context, reader)?;
    if let Err(code) = context.rights().group(Operation::Read, &request.group_id) {
        return Ok(Decided::Reply(context.reply(refused(code))?));
    }
    if context.version() >= PROTOCOL_FROM
        && (request.protocol_type.is_none() || request.protocol_name.is_none())
    {
        let response = refused(ErrorCode::InconsistentGroupProtocol);
        return Ok(Decided::Reply(context.reply(response)?));
    }
    let sync = SyncRequest {
        by: MemberReference {
            member: request.member_id.into(),
            instance: request.group_instance_id.map(Arc::from),
            generation: request.generation_id,
        },
        protocol_type: request.protocol_type,
        protocol: request.protocol_name,
        assignments: request
            .assignments
            .into_iter()
            // Copied, because a slice would keep the whole frame in memory as long as the generation lasts.
            .map(|given| (Arc::from(given.member_id), Bytes::copy_from_slice(&given.assignment)))
            .collect(),
    };
    let pending = context.submit_classic(request.group_id, ClassicEvent::Sync(sync)).await;
    Ok(answer_later(context, async move {
        match pending.classic().await {
            Ok(ClassicReply::Sync(Ok(synced))) => SyncGroupResponse {
                protocol_type: synced.protocol_type.map(|name| name.to_string()),
                protocol_name: synced.protocol.map(|name| name.to_string()),
                assignment: synced.assignment,
                ..Default::default()
            },
            Ok(ClassicReply::Sync(Err(error))) => refused(group_code(&error)),
            Ok(_) => refused(ErrorCode::UnknownServerError),
            Err(code) => refused(code),
        }
    }))
}

fn refused(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code: code.code(), ..Default::default() }
}
