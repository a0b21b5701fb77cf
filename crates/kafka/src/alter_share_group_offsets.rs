//! AlterShareGroupOffsets (91): moves share groups without members to other offsets. If the group does not
//! exist but one of the topics does, the group is created without members, as in Kafka.

use std::sync::Arc;

use tailrace_coordination::groups::OpenedStates;
use tailrace_coordination::share::SharePartitionKey;
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_share_group_offsets_request::AlterShareGroupOffsetsRequest;
use tailrace_kafka_wire::messages::alter_share_group_offsets_response::{
    AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
};
use tailrace_types::{Offset, TopicId};

use crate::audited::Audited;
use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::errors::share_admin_code;
use crate::high_watermarks::high_watermark;
use crate::share_group_states::{open, tell_initialized};
use tailrace_node::partitions::Topic;
use tailrace_node::share::state::{self, StateFailure};

pub(crate) async fn handle(
    context: Arc<Context>,
    request: AlterShareGroupOffsetsRequest,
) -> AlterShareGroupOffsetsResponse {
    if let Err(code) = context.rights().group(Operation::Read, &request.group_id) {
        let Refusal { code, message } = Refusal::unauthorized(code);
        return AlterShareGroupOffsetsResponse {
            error_code: code.code(),
            error_message: Some(message),
            ..Default::default()
        };
    }
    let (request, mut responses) = split(&context, request);
    let group: Arc<str> = request.group_id.as_str().into();
    let make =
        request.topics.iter().any(|wanted| context.node().topics().by_name(&wanted.topic_name).is_some());
    let mut change = context.audited_common(&format_args!("SetShareOffsets of {}", group.escape_debug()));
    let opened = match open(&context, &group, make, named_in(&context, &request)).await {
        Ok(opened) => opened,
        Err(Refusal { code, message }) => {
            change.end_with(code);
            return AlterShareGroupOffsetsResponse {
                error_code: code.code(),
                error_message: Some(message),
                ..Default::default()
            };
        }
    };
    let mut left = ITEMS_MAX;
    for wanted in request.topics {
        let topic = context.node().topics().by_name(&wanted.topic_name);
        let (mut partitions, mut altered, mut wanted_offsets) = (Vec::new(), Vec::new(), Vec::new());
        for partition in wanted.partitions {
            wanted_offsets.push(partition.start_offset);
            let outcome = if left == 0 {
                Err(Refusal::too_many("partitions"))
            } else {
                left -= 1;
                let (index, start) = (partition.partition_index, Offset(partition.start_offset));
                alter(&context, &group, &opened, topic.as_deref(), index, start).await
            };
            if outcome.is_ok() {
                altered.push(partition.partition_index);
            }
            partitions.push(answer(partition.partition_index, outcome));
        }
        if let Some(topic) = topic.as_ref().filter(|_| !altered.is_empty()) {
            let made = vec![(topic.id, altered.clone())];
            let told = tell_initialized(&context, &group, opened.generation, made).await;
            if let Err(refusal) = told {
                let concerned =
                    partitions.iter_mut().filter(|answer| altered.contains(&answer.partition_index));
                concerned.for_each(|slot| *slot = answer(slot.partition_index, Err(refusal.clone())));
            }
        }
        record(&mut change, &wanted.topic_name, &partitions, &wanted_offsets);
        responses.push(AlterShareGroupOffsetsResponseTopic {
            topic_name: wanted.topic_name,
            topic_id: topic.map_or([0; 16], |topic| topic.id.0),
            partitions,
            ..Default::default()
        });
    }
    change.end();
    AlterShareGroupOffsetsResponse { responses, ..Default::default() }
}

fn record(
    change: &mut Audited,
    topic: &str,
    partitions: &[AlterShareGroupOffsetsResponsePartition],
    offsets: &[i64],
) {
    for (partition, offset) in partitions.iter().zip(offsets) {
        let code = ErrorCode::from_code(partition.error_code).unwrap_or(ErrorCode::UnknownServerError);
        let (topic, index) = (topic.escape_debug(), partition.partition_index);
        change.part(&format_args!("{topic}-{index} to {offset}"), code);
    }
}

/// Takes the topics that the client may not read out of the request, and returns the answers for them.
fn split(
    context: &Context,
    mut request: AlterShareGroupOffsetsRequest,
) -> (AlterShareGroupOffsetsRequest, Vec<AlterShareGroupOffsetsResponseTopic>) {
    let rights = context.rights();
    let (mut readable, mut refused, mut left) = (Vec::new(), Vec::new(), ITEMS_MAX);
    for topic in std::mem::take(&mut request.topics) {
        let Err(code) = rights.topic(Operation::Read, &topic.topic_name) else {
            readable.push(topic);
            continue;
        };
        let indexes = topic.partitions.iter().take(left).map(|partition| partition.partition_index);
        let partitions: Vec<_> =
            indexes.map(|index| answer(index, Err(Refusal::unauthorized(code)))).collect();
        left -= partitions.len();
        let topic_name = topic.topic_name;
        refused.push(AlterShareGroupOffsetsResponseTopic { topic_name, partitions, ..Default::default() });
    }
    request.topics = readable;
    (request, refused)
}

/// Returns the partitions of the request that exist, by topic.
fn named_in(context: &Context, request: &AlterShareGroupOffsetsRequest) -> Vec<(TopicId, Vec<i32>)> {
    let (topics, mut left) = (context.node().topics(), ITEMS_MAX);
    let mut named = Vec::new();
    for wanted in &request.topics {
        let Some(topic) = topics.by_name(&wanted.topic_name) else { continue };
        let exists = |number: &i32| topic.has(*number);
        let partitions = wanted.partitions.iter().map(|partition| partition.partition_index);
        let partitions: Vec<i32> = partitions.take(left).filter(exists).collect();
        left -= left.min(wanted.partitions.len());
        named.push((topic.id, partitions));
    }
    named
}

async fn alter(
    context: &Context,
    group: &Arc<str>,
    opened: &OpenedStates,
    topic: Option<&Topic>,
    index: i32,
    start: Offset,
) -> Result<(), Refusal> {
    let unknown = || Refusal::new(ErrorCode::UnknownTopicOrPartition, "There is no such topic or partition.");
    let topic = topic.ok_or_else(unknown)?;
    let end = high_watermark(context.node(), context.caller(), topic, index).await;
    let end = end.map_err(|code| Refusal::new(code, "The partition cannot be used."))?;
    if start.get() < 0 {
        return Err(Refusal::invalid_request(format!("The start offset {start} is negative.")));
    }
    if opened.deleting.contains(&topic.id) {
        let message = "The offsets of the topic are being deleted.";
        return Err(Refusal::new(ErrorCode::CoordinatorLoadInProgress, message));
    }
    // A start beyond the end would skip records that are written later.
    let start = start.min(end);
    let key = SharePartitionKey { group: Arc::clone(group), topic: topic.id, partition: index };
    let failed = |failure: StateFailure| Refusal::new(share_admin_code(&failure), failure.to_string());
    if opened.missing.contains(&(topic.id, index)) {
        state::initialize(context.node(), context.caller(), &key, opened.generation).await.map_err(failed)?;
    }
    let reset = state::reset(context.node(), context.caller(), &key, opened.generation, start).await;
    reset.map_err(failed)
}

fn answer(index: i32, outcome: Result<(), Refusal>) -> AlterShareGroupOffsetsResponsePartition {
    let (code, message) = match outcome {
        Ok(()) => (ErrorCode::None, None),
        Err(Refusal { code, message }) => (code, Some(message)),
    };
    AlterShareGroupOffsetsResponsePartition {
        partition_index: index,
        error_code: code.code(),
        error_message: message,
        ..Default::default()
    }
}
