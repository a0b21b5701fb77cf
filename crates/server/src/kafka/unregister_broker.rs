//! UnregisterBroker (64): forgets a node that is gone. The only node is not gone: it answers.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use crate::kafka::Context;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: UnregisterBrokerRequest,
) -> UnregisterBrokerResponse {
    let (node, wanted) = (context.broker.node().get(), request.broker_id);
    let (code, message) = if wanted == node {
        let message = format!("Broker ID {node} is this node, and the only one: it cannot be unregistered.");
        (ErrorCode::InvalidRequest, message)
    } else {
        (ErrorCode::BrokerIdNotRegistered, format!("Broker ID {wanted} is not currently registered."))
    };
    UnregisterBrokerResponse { error_code: code.code(), error_message: Some(message), ..Default::default() }
}
