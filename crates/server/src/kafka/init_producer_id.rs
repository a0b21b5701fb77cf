//! InitProducerId (22): a producer id for an idempotent producer.
//!
//! There are no transactions yet. A producer that asks for them is refused with INVALID_REQUEST, which every client
//! reports at once; an answer such as COORDINATOR_NOT_AVAILABLE would make it try again for ever.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::init_producer_id_request::InitProducerIdRequest;
use tailrace_kafka_wire::messages::init_producer_id_response::InitProducerIdResponse;

use crate::kafka::Context;
use crate::kafka::errors::command_code;

pub(crate) async fn handle(context: Arc<Context>, request: InitProducerIdRequest) -> InitProducerIdResponse {
    if let Some(id) = &request.transactional_id {
        tracing::warn!(
            peer = %context.session.peer, transactional_id = %id,
            "a client asks for transactions, which are not supported yet: remove transactional.id from its configuration"
        );
        return refused(ErrorCode::InvalidRequest);
    }
    // Both or none: an id to be continued, which without a transactional id is answered with a fresh one.
    if (request.producer_id < 0) != (request.producer_epoch < 0) {
        return refused(ErrorCode::InvalidRequest);
    }
    let broker = Arc::clone(&context.broker);
    // Spawned, so that a block of ids that was reserved is noted even if the client goes away meanwhile.
    let work = async move { broker.controller.next_producer_id(&broker.producer_ids, broker.now()).await };
    match tokio::spawn(work).await {
        Ok(Ok(id)) => InitProducerIdResponse { producer_id: id.get(), ..Default::default() },
        Ok(Err(error)) => {
            tracing::error!(%error, "no producer id could be handed out");
            refused(command_code(&error))
        }
        Err(error) => {
            tracing::error!(%error, "handing out a producer id panicked");
            refused(ErrorCode::UnknownServerError)
        }
    }
}

fn refused(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse { error_code: code.code(), producer_epoch: -1, ..Default::default() }
}
