//! AlterPartitionReassignments (45). The only assignment that can be carried out is the one that there is.

use std::sync::Arc;

use tailrace_broker::MetadataImage;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition,
};
use tailrace_kafka_wire::messages::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};
use tailrace_types::PartitionId;

use crate::kafka::Context;
use crate::kafka::commands::{ITEMS_MAX, Refusal};
use crate::kafka::replicas::check_replicas;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let allow_replication_factor_change = request.allow_replication_factor_change;
    if request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > ITEMS_MAX {
        let refusal = Refusal::too_many("partitions");
        return AlterPartitionReassignmentsResponse {
            allow_replication_factor_change,
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            ..Default::default()
        };
    }
    let (image, node) = (context.broker.image(), context.broker.node().get());
    let responses = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|wanted| {
            let refusal = reassign(&image, &topic.name, wanted, node).err();
            ReassignablePartitionResponse {
                partition_index: wanted.partition_index,
                error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code(),
                error_message: refusal.map(|refusal| refusal.message),
                ..Default::default()
            }
        });
        let partitions = partitions.collect();
        ReassignableTopicResponse { name: topic.name, partitions, ..Default::default() }
    });
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change,
        error_message: None,
        responses: responses.collect(),
        ..Default::default()
    }
}

fn reassign(
    image: &MetadataImage,
    name: &str,
    wanted: &ReassignablePartition,
    node: i32,
) -> Result<(), Refusal> {
    let missing = |what: String| Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, what));
    match image.topic(name) {
        None => missing(format!("Unable to find a topic named {name}.")),
        Some(topic) if !topic.has_partition(PartitionId(wanted.partition_index)) => {
            missing(format!("Unable to find partition {name}:{}.", wanted.partition_index))
        }
        Some(_) => match &wanted.replicas {
            Some(replicas) => check_replicas(replicas, node),
            // Null cancels what is going on.
            None => Err(Refusal::new(
                ErrorCode::NoReassignmentInProgress,
                "No reassignment of this partition is in progress.",
            )),
        },
    }
}
