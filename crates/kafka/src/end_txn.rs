//! EndTxn (26): commits or aborts a transaction. The answer is sent once the outcome is final. The markers
//! follow.

use std::sync::Arc;

use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::{
    EndTransaction, TransactionEvent, TransactionProtocol, TransactionReply,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::end_txn_request::EndTxnRequest;
use tailrace_kafka_wire::messages::end_txn_response::EndTxnResponse;
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::transactions::{ask, fenced_from, producer, unexpected};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_FROM: i16 = 2;

/// First version that starts the next transaction with another epoch, which the answer contains (KIP-890).
const BUMPS_FROM: i16 = 5;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: EndTxnRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    let version = context.version();
    if let Err(code) = context.rights().transactional_id(Operation::Write, &request.transactional_id) {
        return Ok(Decided::Reply(context.reply(refused(code))?));
    }
    let protocol = if version >= BUMPS_FROM {
        TransactionProtocol::EpochPerTransaction
    } else {
        TransactionProtocol::Classic
    };
    let transactional_id = request.transactional_id;
    let (id, producer) = (transactional_id.clone(), producer(request.producer_id, request.producer_epoch));
    let committed = request.committed;
    let event = move |token, fresh| {
        let transactional_id = id.clone();
        let end = EndTransaction { token, transactional_id, producer, committed, protocol, fresh };
        TransactionEvent::End(end)
    };
    let asked = ask(context.node(), context.caller(), &transactional_id, event).await;
    Ok(answer_later(context, async move {
        match asked.reply().await {
            Ok(TransactionReply::Ended(next)) => ended(next, version),
            Ok(reply) => refused(unexpected(&reply).code),
            Err(refusal) => {
                tracing::debug!(transactional_id, message = %refusal.message, "a transaction was not ended");
                refused(fenced_from(version, FENCED_FROM, refusal.code))
            }
        }
    }))
}

fn ended(next: TransactionalProducer, version: i16) -> EndTxnResponse {
    if version < BUMPS_FROM {
        return refused(ErrorCode::None);
    }
    EndTxnResponse { producer_id: next.id.get(), producer_epoch: next.epoch.get(), ..Default::default() }
}

fn refused(code: ErrorCode) -> EndTxnResponse {
    EndTxnResponse { error_code: code.code(), producer_id: -1, producer_epoch: -1, ..Default::default() }
}
