//! AlterPartitionReassignments (45). A standalone server accepts only the assignment that already exists. In
//! a cluster the controller decides, and the leaders of the partitions move the replicas in the background.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition,
};
use tailrace_kafka_wire::messages::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};
use tailrace_metadata::{Command, MetadataImage};
use tailrace_types::{NodeId, PartitionId};

use crate::commands::{ITEMS_MAX, Mode, Refusal};
use crate::context::Context;
use crate::replicas::check_replicas;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let allow_replication_factor_change = request.allow_replication_factor_change;
    let is_long = request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > ITEMS_MAX;
    let refusal = match context.rights().cluster(Operation::Alter) {
        Err(code) => Some(Refusal::unauthorized(code)),
        Ok(()) => is_long.then(|| Refusal::too_many("partitions")),
    };
    if let Some(refusal) = refusal {
        return AlterPartitionReassignmentsResponse {
            allow_replication_factor_change,
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            ..Default::default()
        };
    }
    let mut responses = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            let refusal =
                reassign(&context, &topic.name, wanted, allow_replication_factor_change).await.err();
            partitions.push(ReassignablePartitionResponse {
                partition_index: wanted.partition_index,
                error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code(),
                error_message: refusal.map(|refusal| refusal.message),
                ..Default::default()
            });
        }
        responses.push(ReassignableTopicResponse { name: topic.name, partitions, ..Default::default() });
    }
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change,
        error_message: None,
        responses,
        ..Default::default()
    }
}

async fn reassign(
    context: &Context,
    name: &str,
    wanted: &ReassignablePartition,
    may_change_count: bool,
) -> Result<(), Refusal> {
    let (node, image) = (context.node(), context.node().image());
    if node.is_alone() {
        let (topic, partition) = (name.escape_debug(), wanted.partition_index);
        let change = context.audited(&format_args!("ReassignPartition {topic}-{partition}"));
        let outcome = reassign_alone(&image, name, wanted, node.id().get());
        match &outcome {
            // All replicas are here already.
            Ok(()) => change.end(),
            Err(refusal) => change.end_with(refusal.code),
        }
        return outcome;
    }
    let partition = PartitionId(wanted.partition_index);
    let nodes: Option<Vec<_>> =
        wanted.replicas.as_ref().map(|replicas| replicas.iter().copied().map(NodeId).collect());
    // The controller judges the new assignment, also for a topic that does not exist.
    let before = image.topic(name).and_then(|topic| topic.partition(partition)).map(|now| now.replicas.len());
    if let (false, Some(nodes), Some(before)) = (may_change_count, &nodes, before)
        && nodes.len() != before
    {
        return Err(Refusal::new(
            ErrorCode::InvalidReplicationFactor,
            format!("The request would change the replication factor from {before} to {}.", nodes.len()),
        ));
    }
    let command = Command::ReassignPartition { topic: name.to_owned(), partition, nodes };
    context.command(context.caller(), command, Mode::CarryOut).await.map(drop)
}

fn reassign_alone(
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
            // Null cancels a reassignment in progress.
            None => Err(Refusal::new(
                ErrorCode::NoReassignmentInProgress,
                "No reassignment of this partition is in progress.",
            )),
        },
    }
}
