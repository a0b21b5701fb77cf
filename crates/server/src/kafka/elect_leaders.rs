//! ElectLeaders (43). A partition's only replica leads it already, so that there is nothing to elect, whatever the kind of
//! election; what is wrong with a request is said all the same.

use std::sync::Arc;

use tailrace_broker::MetadataImage;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use tailrace_kafka_wire::messages::elect_leaders_response::{
    ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use tailrace_types::PartitionId;

use crate::kafka::Context;
use crate::kafka::commands::{ITEMS_MAX, Refusal};

/// Kinds of election: the preferred replica, or any that is left.
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// First version that says which kind.
const KINDS_FROM: i16 = 1;

pub(crate) async fn handle(context: Arc<Context>, request: ElectLeadersRequest) -> ElectLeadersResponse {
    let kind = if context.version() >= KINDS_FROM { request.election_type } else { PREFERRED };
    let is_known = matches!(kind, PREFERRED | UNCLEAN);
    let image = context.broker.image();
    let Some(wanted) = request.topic_partitions else {
        let nothing_elected = |topic: String| ReplicaElectionResult { topic, ..Default::default() };
        return ElectLeadersResponse {
            error_code: if is_known { ErrorCode::None } else { ErrorCode::InvalidRequest }.code(),
            replica_election_results: image.topics().map(|t| nothing_elected(t.name.to_string())).collect(),
            ..Default::default()
        };
    };
    if wanted.iter().map(|topic| topic.partitions.len()).sum::<usize>() > ITEMS_MAX {
        let error_code = ErrorCode::PolicyViolation.code();
        return ElectLeadersResponse { error_code, ..Default::default() };
    }
    let results = wanted.into_iter().map(|topic| {
        elect(topic, |name, partition| {
            if is_known {
                outcome(&image, name, partition)
            } else {
                Refusal::invalid_request(format!("Unknown election type {kind}"))
            }
        })
    });
    ElectLeadersResponse {
        error_code: if is_known { ErrorCode::None } else { ErrorCode::InvalidRequest }.code(),
        replica_election_results: results.collect(),
        ..Default::default()
    }
}

fn elect(wanted: TopicPartitions, outcome: impl Fn(&str, i32) -> Refusal) -> ReplicaElectionResult {
    let result = |partition_id| {
        let refusal = outcome(&wanted.topic, partition_id);
        PartitionResult {
            partition_id,
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            ..Default::default()
        }
    };
    let partition_result = wanted.partitions.iter().copied().map(result).collect();
    ReplicaElectionResult { topic: wanted.topic, partition_result, ..Default::default() }
}

fn outcome(image: &MetadataImage, name: &str, partition: i32) -> Refusal {
    let missing = |what: String| Refusal::new(ErrorCode::UnknownTopicOrPartition, what);
    match image.topic(name) {
        None => missing(format!("No such topic as {name}")),
        Some(topic) if !topic.has_partition(PartitionId(partition)) => {
            missing(format!("No such partition as {name}-{partition}"))
        }
        Some(_) => Refusal::new(
            ErrorCode::ElectionNotNeeded,
            "Leader election not needed: the only replica of this partition leads it.",
        ),
    }
}
