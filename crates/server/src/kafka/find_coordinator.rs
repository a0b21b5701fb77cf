//! FindCoordinator (10). This node coordinates every group and transaction, as the only node does in Kafka.
//!
//! Any id is answered, whether its group exists or not. The keys of share groups' state are GROUP:TOPIC_ID:PARTITION (KIP-932).

use std::sync::Arc;

use tailrace_broker::share::SharePartitionKey;
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
        GROUP | TRANSACTION | SHARE => None,
        _ => Some("Unknown coordinator type."),
    };
    let this = refusal.map_or_else(|| myself(&context), refused);
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
    let is_malformed = |key: &str| request.key_type == SHARE && SharePartitionKey::parse(key).is_none();
    let coordinator = |key: String| match is_malformed(&key) {
        true => Coordinator { key, ..refused("The key is not GROUP:TOPIC_ID:PARTITION.") },
        false => Coordinator { key, ..this.clone() },
    };
    // Each answer is longer than its question; nobody has this many groups.
    let keys = request.coordinator_keys.into_iter().take(ITEMS_MAX);
    FindCoordinatorResponse { coordinators: keys.map(coordinator).collect(), ..Default::default() }
}

fn refused(reason: &str) -> Coordinator {
    Coordinator {
        node_id: -1,
        port: -1,
        error_code: ErrorCode::InvalidRequest.code(),
        error_message: Some(reason.to_owned()),
        ..Default::default()
    }
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
