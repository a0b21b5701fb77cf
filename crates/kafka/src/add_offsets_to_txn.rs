//! AddOffsetsToTxn (25): announces that a group's offsets will be committed within a transaction. The group's
//! partition of `__consumer_offsets` joins the transaction like any other.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_coordination::transactions::{
    AddPartitions, TransactionEvent, TransactionProtocol, TransactionReply,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use tailrace_kafka_wire::messages::add_offsets_to_txn_response::AddOffsetsToTxnResponse;
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::transactions::{ask, fenced_from, group_partition, producer, unexpected};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_FROM: i16 = 2;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: AddOffsetsToTxnRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    let version = context.version();
    if let Err(code) = check_rights(&context, &request) {
        return Ok(Decided::Reply(context.reply(answer(code))?));
    }
    let partition = match group_partition(context.node(), context.caller(), &request.group_id).await {
        Ok(partition) => partition,
        Err(refusal) => return Ok(Decided::Reply(context.reply(answer(refusal.code))?)),
    };
    let transactional_id = request.transactional_id;
    let (id, producer) = (transactional_id.clone(), producer(request.producer_id, request.producer_epoch));
    let event = move |token, _| {
        TransactionEvent::Add(AddPartitions {
            token,
            transactional_id: id.clone(),
            producer,
            partitions: BTreeSet::from([partition.clone()]),
            protocol: TransactionProtocol::Classic,
        })
    };
    let asked = ask(context.node(), context.caller(), &transactional_id, event).await;
    Ok(answer_later(context, async move {
        match asked.reply().await {
            Ok(TransactionReply::Added) => answer(ErrorCode::None),
            Ok(reply) => answer(unexpected(&reply).code),
            Err(refusal) => answer(fenced_from(version, FENCED_FROM, refusal.code)),
        }
    }))
}

fn check_rights(context: &Context, request: &AddOffsetsToTxnRequest) -> Result<(), ErrorCode> {
    let rights = context.rights();
    rights.transactional_id(Operation::Write, &request.transactional_id)?;
    rights.group(Operation::Read, &request.group_id)
}

fn answer(code: ErrorCode) -> AddOffsetsToTxnResponse {
    AddOffsetsToTxnResponse { error_code: code.code(), ..Default::default() }
}
