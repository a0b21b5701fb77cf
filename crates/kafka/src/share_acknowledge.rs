//! ShareAcknowledge (79): a member acknowledges records that it holds (KIP-932). The answer is sent once the
//! acknowledgements are persisted.

use tailrace_kafka_wire::messages::share_acknowledge_request::ShareAcknowledgeRequest;
use tailrace_kafka_wire::messages::share_acknowledge_response::{
    LeaderIdAndEpoch, PartitionData, ShareAcknowledgeResponse, ShareAcknowledgeTopicResponse,
};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, decode};
use crate::errors::session_code;
use crate::leader_hints;
use crate::outbox::ReplyPart;
use crate::share_acknowledgements::{Acknowledging, Member, Outcome, Said, partition_of};
use tailrace_node::share::sessions::{FINAL_EPOCH, Partition};

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let mut request: ShareAcknowledgeRequest = decode(&context, reader)?;
    let said = said_in(&mut request);
    match begin(&context, &request, said) {
        Ok((member, acknowledging)) => Ok(Decided::Later(Box::pin(finish(context, member, acknowledging)))),
        Err(code) => {
            let response = ShareAcknowledgeResponse { error_code: code.code(), ..Default::default() };
            Ok(Decided::Reply(context.reply(response)?))
        }
    }
}

fn said_in(request: &mut ShareAcknowledgeRequest) -> Vec<(Partition, Vec<Said>)> {
    let mut said = Vec::new();
    for topic in std::mem::take(&mut request.topics) {
        for partition in topic.partitions {
            let batches = partition.acknowledgement_batches.into_iter();
            let batches = batches.map(|batch| Said {
                first: batch.first_offset,
                last: batch.last_offset,
                codes: batch.acknowledge_types,
            });
            said.push((partition_of(topic.topic_id, partition.partition_index), batches.collect()));
        }
    }
    said
}

fn begin(
    context: &Context,
    request: &ShareAcknowledgeRequest,
    said: Vec<(Partition, Vec<Said>)>,
) -> Result<(Member, Acknowledging), ErrorCode> {
    let node = context.node();
    let member = Member::of(context, request.group_id.as_deref(), request.member_id.as_deref())?;
    let epoch = request.share_session_epoch;
    context.session.uses_share_sessions();
    let sessions = &node.share_groups().sessions;
    sessions.acknowledge(&member.group, &member.id, epoch, context.session.id).map_err(session_code)?;
    let acknowledging = Acknowledging::begin(context, &member, said, request.is_renew_ack);
    if epoch == FINAL_EPOCH {
        node.share_groups().member_left(node, context.caller(), &member.group, &member.id);
    }
    Ok((member, acknowledging))
}

async fn finish(
    context: Context,
    member: Member,
    acknowledging: Acknowledging,
) -> Result<Vec<ReplyPart>, Closed> {
    let mut response = ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: member.settings.lock_duration_ms(),
        ..Default::default()
    };
    for ((topic, index), Outcome { code, message }) in acknowledging.outcomes().await {
        let data = PartitionData {
            partition_index: index,
            error_code: code.code(),
            error_message: message,
            current_leader: LeaderIdAndEpoch { leader_id: -1, leader_epoch: -1, ..Default::default() },
            ..Default::default()
        };
        match response.responses.iter_mut().find(|known| known.topic_id == topic.0) {
            Some(known) => known.partitions.push(data),
            None => response.responses.push(ShareAcknowledgeTopicResponse {
                topic_id: topic.0,
                partitions: vec![data],
                ..Default::default()
            }),
        }
    }
    leader_hints::in_share_acknowledge(&context, &mut response);
    context.reply(response)
}
