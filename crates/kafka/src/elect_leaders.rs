//! ElectLeaders (43). In a standalone server a partition's only replica already leads it, but errors in a
//! request are still reported. In a cluster the leadership moves to the preferred replica. There is no
//! unclean election: without a majority there is no leader.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use tailrace_kafka_wire::messages::elect_leaders_response::{
    ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use tailrace_metadata::MetadataImage;
use tailrace_types::{PartitionId, RaftGroup};

use crate::audited::Audited;
use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use tailrace_node::ask::HandOver;
use tailrace_node::cluster;
use tailrace_node::cluster::leaders::leader_of;

/// Election types: the preferred replica, or any remaining one.
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// First version with an election type.
const KINDS_FROM: i16 = 1;

pub(crate) async fn handle(context: Arc<Context>, request: ElectLeadersRequest) -> ElectLeadersResponse {
    if let Err(code) = context.rights().cluster(Operation::Alter) {
        let response = refused(request.topic_partitions, &Refusal::unauthorized(code));
        let error_code = if context.version() >= KINDS_FROM { code } else { ErrorCode::None }.code();
        return ElectLeadersResponse { error_code, ..response };
    }
    let kind = if context.version() >= KINDS_FROM { request.election_type } else { PREFERRED };
    let is_known = matches!(kind, PREFERRED | UNCLEAN);
    let what = if kind == UNCLEAN { "unclean" } else { "preferred" };
    let change = context.audited(&format_args!("ElectLeaders {what}"));
    if is_known && !context.node().is_alone() {
        let response = elect_in_cluster(&context, request, kind).await;
        record(change, &response);
        return response;
    }
    let response = elect_alone(&context, request, kind, is_known);
    record(change, &response);
    response
}

fn record(mut change: Audited, response: &ElectLeadersResponse) {
    let code_of = |code| ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
    if response.error_code != ErrorCode::None.code() {
        return change.end_with(code_of(response.error_code));
    }
    for topic in &response.replica_election_results {
        for partition in &topic.partition_result {
            let (name, number) = (topic.topic.escape_debug(), partition.partition_id);
            change.part(&format_args!("{name}-{number}"), code_of(partition.error_code));
        }
    }
    change.end();
}

/// Answers for a standalone server.
fn elect_alone(
    context: &Context,
    request: ElectLeadersRequest,
    kind: i8,
    is_known: bool,
) -> ElectLeadersResponse {
    let image = context.node().image();
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

/// Refuses each partition of a request. Version 0 has no code for the request itself.
fn refused(wanted: Option<Vec<TopicPartitions>>, refusal: &Refusal) -> ElectLeadersResponse {
    let wanted = wanted.unwrap_or_default();
    let is_short = wanted.iter().map(|topic| topic.partitions.len()).sum::<usize>() <= ITEMS_MAX;
    let results = wanted.into_iter().filter(|_| is_short).map(|topic| elect(topic, |_, _| refusal.clone()));
    ElectLeadersResponse { replica_election_results: results.collect(), ..Default::default() }
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
    match image.topic(name) {
        None => no_topic(name),
        Some(topic) if !topic.has_partition(PartitionId(partition)) => no_partition(name, partition),
        Some(_) => Refusal::new(
            ErrorCode::ElectionNotNeeded,
            "Leader election not needed: the only replica of this partition leads it.",
        ),
    }
}

fn no_topic(name: &str) -> Refusal {
    Refusal::new(ErrorCode::UnknownTopicOrPartition, format!("No such topic as {name}"))
}

fn no_partition(name: &str, partition: i32) -> Refusal {
    Refusal::new(ErrorCode::UnknownTopicOrPartition, format!("No such partition as {name}-{partition}"))
}

/// Elects leaders in a cluster. Leaders on this node hand over directly, other nodes are asked to.
async fn elect_in_cluster(context: &Context, request: ElectLeadersRequest, kind: i8) -> ElectLeadersResponse {
    let image = context.node().image();
    let all = request.topic_partitions.is_none();
    let wanted: Vec<(String, Vec<i32>)> = match request.topic_partitions {
        Some(wanted) => wanted.into_iter().map(|topic| (topic.topic, topic.partitions)).collect(),
        None => {
            image.topics().map(|topic| (topic.name.to_string(), (0..topic.partitions).collect())).collect()
        }
    };
    if wanted.iter().map(|(_, partitions)| partitions.len()).sum::<usize>() > ITEMS_MAX {
        let error_code = ErrorCode::PolicyViolation.code();
        return ElectLeadersResponse { error_code, ..Default::default() };
    }
    let mut replica_election_results = Vec::with_capacity(wanted.len());
    for (topic, partitions) in wanted {
        let mut partition_result = Vec::with_capacity(partitions.len());
        for partition_id in partitions {
            let outcome = elect_one(context, &topic, partition_id, kind).await;
            // A request for all partitions reports only those that had to change.
            if all && matches!(&outcome, Err(NotElected::ReplicaLeads | NotElected::PreferredLeads)) {
                continue;
            }
            let refusal = outcome.err().map(|failure| failure.refusal(&topic, partition_id));
            partition_result.push(PartitionResult {
                partition_id,
                error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code(),
                error_message: refusal.map(|refusal| refusal.message),
                ..Default::default()
            });
        }
        replica_election_results.push(ReplicaElectionResult {
            topic,
            partition_result,
            ..Default::default()
        });
    }
    ElectLeadersResponse { replica_election_results, ..Default::default() }
}

/// The reason why a partition did not get another leader.
enum NotElected {
    NoTopic,
    NoPartition,
    /// There is no majority to elect a leader.
    NobodyLeads,
    /// Any leader will do, and the partition has one.
    ReplicaLeads,
    PreferredLeads,
    PreferredNotReady,
}

impl NotElected {
    fn refusal(self, topic: &str, partition: i32) -> Refusal {
        let not_needed = |reason: &str| Refusal::new(ErrorCode::ElectionNotNeeded, reason);
        match self {
            Self::NoTopic => no_topic(topic),
            Self::NoPartition => no_partition(topic, partition),
            Self::NobodyLeads => Refusal::new(
                ErrorCode::EligibleLeadersNotAvailable,
                "No replica leads this partition: a majority of its replicas must be available to elect a leader.",
            ),
            Self::ReplicaLeads => not_needed("Leader election not needed: a replica leads this partition."),
            Self::PreferredLeads => {
                not_needed("Leader election not needed: the preferred replica leads this partition.")
            }
            Self::PreferredNotReady => Refusal::new(
                ErrorCode::PreferredLeaderNotAvailable,
                "The preferred replica is unavailable, or has not caught up.",
            ),
        }
    }
}

async fn elect_one(context: &Context, name: &str, number: i32, kind: i8) -> Result<(), NotElected> {
    let (here, image) = (context.node(), context.node().image());
    let topic = here.topics().by_name(name).ok_or(NotElected::NoTopic)?;
    let partition = image.topic(name).and_then(|topic| topic.partition(PartitionId(number)));
    let partition = partition.ok_or(NotElected::NoPartition)?;
    let leader = leader_of(here, &topic, number).map(|(node, _)| node);
    let (Some(leader), Some(preferred)) = (leader, partition.replicas.first().copied()) else {
        return Err(NotElected::NobodyLeads);
    };
    if kind == UNCLEAN {
        return Err(NotElected::ReplicaLeads);
    }
    if leader == preferred.node() {
        return Err(NotElected::PreferredLeads);
    }
    let group = RaftGroup { topic: topic.id, partition: PartitionId(number) };
    let handed = if leader == here.id() {
        cluster::hand_to(here, context.caller(), group, preferred).await
    } else {
        let asked = here.ask(context.caller(), leader, HandOver::new(group, preferred)).await;
        asked.unwrap_or_else(|error| {
            tracing::debug!(node = %leader, %error, "could not ask a leader to hand over");
            false
        })
    };
    if handed { Ok(()) } else { Err(NotElected::PreferredNotReady) }
}
