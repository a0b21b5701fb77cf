//! ListPartitionReassignments (46): those that are going on. A change that needs no copying is over before it is answered,
//! and no other is accepted.

use std::sync::Arc;

use tailrace_kafka_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use crate::kafka::Context;

pub(crate) async fn handle(
    _context: Arc<Context>,
    _request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse { error_message: None, ..Default::default() }
}
