//! FindCoordinator (10). The coordinator of a group or transactional id is the leader of its partition of an
//! internal topic.
//!
//! Every id gets an answer, whether its group exists or not. The keys of share groups' state are
//! GROUP:TOPIC_ID:PARTITION (KIP-932).

use std::sync::Arc;

use tailrace_coordination::share::SharePartitionKey;
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use tailrace_kafka_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use tailrace_metadata::{CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::topology::{self, NodeAddress};
use tailrace_node::cluster::leaders::leader_of;

/// First version with several keys in one request.
const KEYS_FROM: i16 = 4;

/// Coordinator types of the protocol.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// First version with coordinators of share groups.
const SHARE_FROM: i16 = 6;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let kind = request.key_type;
    if context.version() < KEYS_FROM {
        let this = coordinator(&context, kind, &request.key).await;
        return FindCoordinatorResponse {
            error_code: this.error_code,
            error_message: this.error_message,
            node_id: this.node_id,
            host: this.host,
            port: this.port,
            ..Default::default()
        };
    }
    // Each answer is longer than its key, and no client has this many groups.
    let keys: Vec<_> = request.coordinator_keys.into_iter().take(ITEMS_MAX).collect();
    let mut coordinators = Vec::with_capacity(keys.len());
    for key in keys {
        let found = coordinator(&context, kind, &key).await;
        coordinators.push(Coordinator { key, ..found });
    }
    FindCoordinatorResponse { coordinators, ..Default::default() }
}

async fn coordinator(context: &Context, kind: i8, key: &str) -> Coordinator {
    let (here, caller) = (context.node(), context.caller());
    let is_known = match kind {
        GROUP | TRANSACTION => true,
        SHARE => context.version() >= SHARE_FROM,
        _ => false,
    };
    if !is_known {
        return refused("Unknown coordinator type.");
    }
    if let Err(code) = check_rights(context, kind, key) {
        return Coordinator { error_code: code.code(), ..refused(&Refusal::unauthorized(code).message) };
    }
    if kind == SHARE && SharePartitionKey::parse(key).is_none() {
        return refused("The key is not GROUP:TOPIC_ID:PARTITION.");
    }
    if here.is_alone() {
        return at(&topology::this_node(context));
    }
    let (topic, partition) = match kind {
        GROUP => (CONSUMER_OFFSETS_TOPIC, here.groups().partition_of(here, caller, key).await),
        TRANSACTION => (TRANSACTION_STATE_TOPIC, here.transactions().partition_of(here, caller, key).await),
        _ => (SHARE_GROUP_STATE_TOPIC, here.share_coordinator_partition(caller, key).await),
    };
    let leader = match partition {
        Ok(partition) => {
            let topic = here.topics().by_name(topic);
            topic.and_then(|topic| leader_of(here, &topic, partition))
        }
        Err(failure) => return unavailable(&failure.to_string()),
    };
    match leader.and_then(|(node, _)| topology::live_node(context, node)) {
        Some(node) => at(&node),
        None => unavailable("The coordinator is not available."),
    }
}

fn check_rights(context: &Context, kind: i8, key: &str) -> Result<(), ErrorCode> {
    let rights = context.rights();
    match kind {
        GROUP => rights.group(Operation::Describe, key),
        TRANSACTION => rights.transactional_id(Operation::Describe, key),
        // Only brokers need to know where states of share groups are.
        _ => rights.cluster(Operation::ClusterAction),
    }
}

fn unavailable(reason: &str) -> Coordinator {
    Coordinator { error_code: ErrorCode::CoordinatorNotAvailable.code(), ..refused(reason) }
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

fn at(node: &NodeAddress) -> Coordinator {
    Coordinator { node_id: node.id, host: node.host.clone(), port: node.port, ..Default::default() }
}
