//! FindCoordinator (10). This node coordinates every group, as the only node does in Kafka.
//!
//! Transactions and share groups are refused here, with a text.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use tailrace_kafka_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};

use crate::kafka::Context;
use crate::kafka::commands::ITEMS_MAX;

/// First version with several keys in one request.
const KEYS_FROM: i16 = 4;

/// Types of coordinators in the protocol.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let refusal = match request.key_type {
        GROUP => None,
        TRANSACTION => {
            Some("Transactions are not supported yet: remove transactional.id from the configuration.")
        }
        SHARE => Some("Share groups are not supported yet."),
        _ => Some("Unknown coordinator type."),
    };
    let this = Coordinator {
        node_id: -1,
        port: -1,
        error_code: ErrorCode::InvalidRequest.code(),
        error_message: refusal.map(str::to_owned),
        ..Default::default()
    };
    let this = if refusal.is_some() { this } else { myself(&context) };
    if context.version() < KEYS_FROM {
        return FindCoordinatorResponse {
            error_code: this.error_code,
            error_message: this.error_message,
            node_id: this.node_id,
            host: this.host,
            port: this.port,
            ..Default::default()
        };
    }
    let coordinator = |key| Coordinator { key, ..this.clone() };
    // Each answer is longer than its question; nobody has this many groups.
    let keys = request.coordinator_keys.into_iter().take(ITEMS_MAX);
    FindCoordinatorResponse { coordinators: keys.map(coordinator).collect(), ..Default::default() }
}

fn myself(context: &Context) -> Coordinator {
    let address = context.broker.advertised(context.session.local);
    Coordinator {
        node_id: context.broker.node().get(),
        host: address.host,
        port: address.port.into(),
        ..Default::default()
    }
}
