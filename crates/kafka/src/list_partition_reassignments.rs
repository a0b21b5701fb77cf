//! ListPartitionReassignments (46): lists the reassignments in progress.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use tailrace_kafka_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};
use tailrace_metadata::{PartitionImage, TopicImage};
use tailrace_types::{PartitionId, ReplicaId};

use crate::commands::Refusal;
use crate::context::Context;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    if let Err(code) = context.rights().cluster(Operation::Describe) {
        let Refusal { code, message } = Refusal::unauthorized(code);
        return ListPartitionReassignmentsResponse {
            error_code: code.code(),
            error_message: Some(message),
            ..Default::default()
        };
    }
    let image = context.node().image();
    let topics: Vec<_> = match &request.topics {
        None => image.topics().filter_map(|topic| ongoing(topic, |_| true)).collect(),
        Some(asked) => asked
            .iter()
            .filter_map(|asked| {
                let topic = image.topic(&asked.name)?;
                ongoing(topic, |number| asked.partition_indexes.contains(&number.0))
            })
            .collect(),
    };
    ListPartitionReassignmentsResponse { error_message: None, topics, ..Default::default() }
}

fn ongoing(topic: &TopicImage, is_asked: impl Fn(PartitionId) -> bool) -> Option<OngoingTopicReassignment> {
    let going_on = topic.assignment().filter(|(number, now)| now.is_reassigned() && is_asked(*number));
    let partitions: Vec<_> = going_on.map(|(number, now)| described(number, now)).collect();
    let name = topic.name.to_string();
    (!partitions.is_empty()).then(|| OngoingTopicReassignment { name, partitions, ..Default::default() })
}

fn described(number: PartitionId, now: &PartitionImage) -> OngoingPartitionReassignment {
    let nodes = |replicas: &mut dyn Iterator<Item = ReplicaId>| {
        let mut nodes: Vec<i32> = Vec::new();
        for node in replicas.map(|replica| replica.node().get()) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    };
    OngoingPartitionReassignment {
        partition_index: number.0,
        replicas: nodes(&mut now.present()),
        adding_replicas: nodes(&mut now.incoming()),
        removing_replicas: nodes(&mut now.removing.iter().copied()),
        ..Default::default()
    }
}
