//! Heartbeat (12): a member of a classic group reports that it is alive, and learns of rebalances.

use std::sync::Arc;

use tailrace_coordination::groups::{ClassicEvent, ClassicReply, MemberReference};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::heartbeat_request::HeartbeatRequest;
use tailrace_kafka_wire::messages::heartbeat_response::HeartbeatResponse;
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: HeartbeatRequest = decode(&context, reader)?;
    if let Err(code) = context.rights().group(Operation::Read, &request.group_id) {
        return Ok(Decided::Reply(context.reply(answer(code))?));
    }
    let by = MemberReference {
        member: request.member_id.into(),
        instance: request.group_instance_id.map(Arc::from),
        generation: request.generation_id,
    };
    let pending = context.submit_classic(request.group_id, ClassicEvent::Heartbeat(by)).await;
    Ok(answer_later(context, async move {
        let code = match pending.classic().await {
            Ok(ClassicReply::Heartbeat(Ok(()))) => ErrorCode::None,
            Ok(ClassicReply::Heartbeat(Err(error))) => group_code(&error),
            Ok(_) => ErrorCode::UnknownServerError,
            Err(code) => code,
        };
        answer(code)
    }))
}

fn answer(code: ErrorCode) -> HeartbeatResponse {
    HeartbeatResponse { error_code: code.code(), ..Default::default() }
}
