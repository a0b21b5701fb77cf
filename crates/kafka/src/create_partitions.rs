//! CreatePartitions (37): adds partitions to topics.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::create_partitions_request::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use tailrace_kafka_wire::messages::create_partitions_response::{
    CreatePartitionsResponse, CreatePartitionsTopicResult,
};
use tailrace_metadata::{Command, Requester};
use tailrace_types::NodeId;

use crate::commands::{Mode, Refusal, in_time};
use crate::context::Context;
use crate::replicas::check_replicas;
use tailrace_node::Caller;

/// First version whose clients know THROTTLING_QUOTA_EXCEEDED.
const QUOTA_EXCEEDED_FROM: i16 = 3;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let mode = Mode::validate_only(request.validate_only);
    let caller = context.caller_within_ms(request.timeout_ms);
    let mut times: HashMap<String, usize> = HashMap::new();
    for topic in &request.topics {
        *times.entry(topic.name.clone()).or_default() += 1;
    }
    let mut results = Vec::with_capacity(times.len());
    for topic in request.topics {
        let outcome = match times.remove(&topic.name) {
            // A repeated name gets one answer, and the topic is not extended.
            None => continue,
            Some(2..) => Err(Refusal::invalid_request("Duplicate topic name.")),
            Some(_) => extend(&context, &topic, mode, &caller).await,
        };
        results.push(result(topic.name, outcome.err()));
    }
    CreatePartitionsResponse { results, throttle_time_ms: context.throttle_time_ms(), ..Default::default() }
}

async fn extend(
    context: &Context,
    topic: &CreatePartitionsTopic,
    mode: Mode,
    caller: &Caller,
) -> Result<(), Refusal> {
    context.rights().topic(Operation::Alter, &topic.name).map_err(Refusal::unauthorized)?;
    in_time(caller)?;
    let by = Requester::Client;
    let command =
        Command::CreatePartitions { topic: topic.name.clone(), count: topic.count, assignment: None, by };
    // Kafka checks the count first, and the assignment only if the count is right.
    if let Some(assignments) = topic.assignments.as_ref().filter(|list| !list.is_empty()) {
        context.command(caller, command.clone(), Mode::ValidateOnly).await?;
        let before = context.node().image().topic(&topic.name).map_or(0, |topic| topic.partitions);
        let added = usize::try_from(i64::from(topic.count) - i64::from(before)).unwrap_or(0);
        if assignments.len() != added {
            let message = format!(
                "Attempted to add {added} additional partition(s), but only {} assignment(s) were specified.",
                assignments.len()
            );
            return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
        }
        if context.node().is_alone() {
            let node = context.node().id().get();
            assignments.iter().try_for_each(|assignment| check_replicas(&assignment.broker_ids, node))?;
        } else {
            let nodes = assignments.iter().map(|a| a.broker_ids.iter().copied().map(NodeId).collect());
            let (topic, count, assignment) = (topic.name.clone(), topic.count, Some(nodes.collect()));
            let command = Command::CreatePartitions { topic, count, assignment, by };
            return carry_out(context, caller, command, mode).await;
        }
    }
    carry_out(context, caller, command, mode).await
}

/// Charges the quota for the new partitions, and makes them.
async fn carry_out(context: &Context, caller: &Caller, command: Command, mode: Mode) -> Result<(), Refusal> {
    if let Command::CreatePartitions { topic, count, .. } = &command
        && mode == Mode::CarryOut
        && context.limits_mutations()
    {
        context.command(caller, command.clone(), Mode::ValidateOnly).await?;
        let before = context.node().image().topic(topic).map_or(0, |topic| topic.partitions);
        context.mutate(count.saturating_sub(before), QUOTA_EXCEEDED_FROM)?;
    }
    context.command(caller, command, mode).await.map(drop)
}

fn result(name: String, refusal: Option<Refusal>) -> CreatePartitionsTopicResult {
    let error_code = refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code();
    let error_message = refusal.map(|refusal| refusal.message);
    CreatePartitionsTopicResult { name, error_code, error_message, ..Default::default() }
}
