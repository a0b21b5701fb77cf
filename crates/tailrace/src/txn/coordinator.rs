//! Finds the coordinator of a transactional id.

use std::sync::Arc;

use tailrace_kafka_wire::messages::FindCoordinatorRequest;

use crate::client::{ClientError, Cluster, Connection, check};

/// The coordinator type for transactions.
const TRANSACTION: i8 = 1;

/// First version that takes several keys.
const VERSION_WITH_KEYS: i16 = 4;

/// Returns the connection to the coordinator of a transactional id.
pub(super) async fn coordinator(
    cluster: &mut Cluster,
    transactional_id: &str,
) -> Result<Arc<Connection>, ClientError> {
    let connection = cluster.any().await?;
    let version = connection.version::<FindCoordinatorRequest>()?;
    let mut request = FindCoordinatorRequest { key_type: TRANSACTION, ..Default::default() };
    if version >= VERSION_WITH_KEYS {
        request.coordinator_keys = vec![transactional_id.to_owned()];
    } else {
        request.key = transactional_id.to_owned();
    }
    let answer = connection.begin(&request, version).await?.answer().await?;
    let (code, message, node) = match answer.coordinators.into_iter().next() {
        Some(found) => (found.error_code, found.error_message, found.node_id),
        None => (answer.error_code, answer.error_message, answer.node_id),
    };
    check(code, message.as_ref(), || format!("cannot find the coordinator of '{transactional_id}'"))?;
    cluster.metadata(Some(&[]), false).await?;
    cluster.node(node).await
}
