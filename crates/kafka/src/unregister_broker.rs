//! UnregisterBroker (64): removes a node that is gone and holds nothing. In a standalone server the node
//! cannot be gone, because it answers.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use tailrace_metadata::Command;
use tailrace_types::NodeId;

use crate::commands::{Mode, Refusal};
use crate::context::Context;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: UnregisterBrokerRequest,
) -> UnregisterBrokerResponse {
    if let Err(code) = context.rights().cluster(Operation::Alter) {
        let Refusal { code, message } = Refusal::unauthorized(code);
        let (error_code, error_message) = (code.code(), Some(message));
        return UnregisterBrokerResponse { error_code, error_message, ..Default::default() };
    }
    if !context.node().is_alone() {
        let command = Command::RemoveNode { node: NodeId(request.broker_id) };
        let refusal = context.command(context.caller(), command, Mode::CarryOut).await.err();
        return UnregisterBrokerResponse {
            error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code(),
            error_message: refusal.map(|refusal| refusal.message),
            ..Default::default()
        };
    }
    let (node, wanted) = (context.node().id().get(), request.broker_id);
    let (code, message) = if wanted == node {
        let message = format!("Broker ID {node} is this node, and the only one: it cannot be unregistered.");
        (ErrorCode::InvalidRequest, message)
    } else {
        (ErrorCode::BrokerIdNotRegistered, format!("Broker ID {wanted} is not currently registered."))
    };
    context.audited(&format_args!("RemoveNode {wanted}")).end_with(code);
    UnregisterBrokerResponse { error_code: code.code(), error_message: Some(message), ..Default::default() }
}
