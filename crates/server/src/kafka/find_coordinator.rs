//! FindCoordinator (10). There are neither groups nor transactions yet, so nobody coordinates them.
//!
//! The answer is INVALID_REQUEST with a text: clients report it at once. COORDINATOR_NOT_AVAILABLE would make them ask
//! for ever, and not serving the API at all makes librdkafka wait for a broker that does.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use tailrace_kafka_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};

use crate::kafka::Context;
use crate::kafka::commands::ITEMS_MAX;

/// First version with several keys in one request.
const KEYS_FROM: i16 = 4;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let reason = match request.key_type {
        0 => {
            "Consumer groups are not supported yet: use manually assigned partitions (assign instead of subscribe)."
        }
        1 => "Transactions are not supported yet: remove transactional.id from the configuration.",
        2 => "Share groups are not supported yet.",
        _ => "Unknown coordinator type.",
    };
    tracing::debug!(peer = %context.session.peer, key_type = request.key_type, reason, "refused a coordinator");
    let error_code = ErrorCode::InvalidRequest.code();
    if context.version() < KEYS_FROM {
        return FindCoordinatorResponse {
            error_code,
            error_message: Some(reason.to_owned()),
            node_id: -1,
            port: -1,
            ..Default::default()
        };
    }
    let coordinator = |key| Coordinator {
        key,
        node_id: -1,
        port: -1,
        error_code,
        error_message: Some(reason.to_owned()),
        ..Default::default()
    };
    // Each answer is longer than its question; nobody has this many groups.
    let keys = request.coordinator_keys.into_iter().take(ITEMS_MAX);
    FindCoordinatorResponse { coordinators: keys.map(coordinator).collect(), ..Default::default() }
}
