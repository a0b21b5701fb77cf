//! InitProducerId (22): returns a producer id for an idempotent producer, or the right to write under a
//! transactional id.

use std::sync::Arc;

use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::{InitProducer, TransactionEvent, TransactionReply};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::init_producer_id_request::InitProducerIdRequest;
use tailrace_kafka_wire::messages::init_producer_id_response::InitProducerIdResponse;
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::commands::Refusal;
use crate::context::{Context, Decided, answer_later, decode};
use crate::transactions::{ask, fenced_from, fresh_id, producer, unexpected};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_FROM: i16 = 4;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: InitProducerIdRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    let may_write = match &request.transactional_id {
        Some(id) => context.rights().transactional_id(Operation::Write, id),
        None => context.rights().idempotent_write(),
    };
    if let Err(code) = may_write {
        return Ok(Decided::Reply(context.reply(refused(code))?));
    }
    // A client must send both its current id and its epoch, or neither. Without a transactional id it always
    // gets a new id.
    if (request.producer_id < 0) != (request.producer_epoch < 0) {
        return Ok(Decided::Reply(context.reply(refused(ErrorCode::InvalidRequest))?));
    }
    match request.transactional_id.clone() {
        None => Ok(Decided::Reply(context.reply(idempotent(&context).await)?)),
        Some(transactional_id) => Ok(transactional(context, request, transactional_id).await),
    }
}

async fn idempotent(context: &Context) -> InitProducerIdResponse {
    match fresh_id(context.node(), context.caller()).await {
        Ok(id) => InitProducerIdResponse { producer_id: id.get(), ..Default::default() },
        Err(Refusal { code, .. }) => refused(code),
    }
}

async fn transactional(
    context: Arc<Context>,
    request: InitProducerIdRequest,
    transactional_id: String,
) -> Decided {
    let expected = (request.producer_id >= 0).then(|| producer(request.producer_id, request.producer_epoch));
    let (id, timeout_ms) = (transactional_id.clone(), request.transaction_timeout_ms);
    let event = move |token, fresh| {
        let transactional_id = id.clone();
        TransactionEvent::Init(InitProducer { token, transactional_id, timeout_ms, expected, fresh })
    };
    let asked = ask(context.node(), context.caller(), &transactional_id, event).await;
    let version = context.version();
    answer_later(context, async move {
        match asked.reply().await {
            Ok(TransactionReply::Initialized(TransactionalProducer { id, epoch })) => {
                tracing::debug!(transactional_id, producer = %id, %epoch, "a transactional producer starts");
                InitProducerIdResponse {
                    producer_id: id.get(),
                    producer_epoch: epoch.get(),
                    ..Default::default()
                }
            }
            Ok(reply) => refused(unexpected(&reply).code),
            Err(Refusal { code, message }) => {
                tracing::info!(transactional_id, %message, "a transactional producer cannot start");
                refused(fenced_from(version, FENCED_FROM, code))
            }
        }
    })
}

fn refused(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse { error_code: code.code(), producer_epoch: -1, ..Default::default() }
}
