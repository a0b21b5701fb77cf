//! DescribeShareGroupOffsets (90): the offsets of share groups, and how many records are still to be
//! delivered (KIP-1226).

use std::sync::Arc;

use tailrace_coordination::groups::Partitions;
use tailrace_coordination::share::{KeptState, SharePartitionKey};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
};
use tailrace_kafka_wire::messages::describe_share_group_offsets_response::{
    DescribeShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition, DescribeShareGroupOffsetsResponseTopic,
};
use tailrace_types::TopicId;

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::errors::share_admin_code;
use crate::high_watermarks::high_watermark;
use crate::share_group_states::{has_members, initialized};
use tailrace_node::partitions::Topic;
use tailrace_node::share::state;

/// An unknown value.
const UNKNOWN: i64 = -1;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DescribeShareGroupOffsetsRequest,
) -> DescribeShareGroupOffsetsResponse {
    let mut left = ITEMS_MAX;
    let mut groups = Vec::new();
    for group in request.groups.into_iter().take(ITEMS_MAX) {
        groups.push(describe(&context, group, &mut left).await);
    }
    DescribeShareGroupOffsetsResponse { groups, ..Default::default() }
}

/// Describes up to `left` partitions.
async fn describe(
    context: &Context,
    wanted: DescribeShareGroupOffsetsRequestGroup,
    left: &mut usize,
) -> DescribeShareGroupOffsetsResponseGroup {
    let mut group =
        DescribeShareGroupOffsetsResponseGroup { group_id: wanted.group_id, ..Default::default() };
    if let Err(code) = context.rights().group(Operation::Describe, &group.group_id) {
        group.error_code = code.code();
        group.error_message = Some(Refusal::unauthorized(code).message);
        return group;
    }
    let name: Arc<str> = group.group_id.as_str().into();
    let all = wanted.topics.is_none();
    if let Err(Refusal { code, message }) = has_members(context, &name).await {
        // A request for everything of a missing group gets an empty answer, as in Kafka.
        if all && code == ErrorCode::GroupIdNotFound {
            return group;
        }
        group.error_code = code.code();
        group.error_message = Some(message);
        return group;
    }
    let named = wanted.topics.map(|topics| {
        topics.into_iter().map(|topic| (topic.topic_name, topic.partitions)).collect::<Vec<_>>()
    });
    let kept = match initialized(context, &name).await {
        Ok(kept) => kept,
        Err(Refusal { code, message }) => {
            group.error_code = code.code();
            group.error_message = Some(message);
            return group;
        }
    };
    let named = named.unwrap_or_else(|| by_topic(context, &kept));
    for (topic_name, partitions) in named {
        // Topics that the client did not name have been filtered.
        let right = if all { Ok(()) } else { context.rights().topic(Operation::Describe, &topic_name) };
        if let Err(code) = right {
            group.topics.push(refused(topic_name, partitions, code, left));
            continue;
        }
        let topic = context.node().topics().by_name(&topic_name);
        let mut answer = DescribeShareGroupOffsetsResponseTopic {
            topic_name,
            topic_id: topic.as_ref().map_or([0; 16], |topic| topic.id.0),
            ..Default::default()
        };
        for index in partitions {
            if *left == 0 {
                break;
            }
            *left -= 1;
            let known = topic.as_ref().and_then(|topic| kept.get(&topic.id));
            let is_kept = known.is_some_and(|kept| kept.contains(&index));
            let described = describe_partition(context, &name, topic.as_deref(), index, is_kept).await;
            answer.partitions.push(described);
        }
        group.topics.push(answer);
    }
    group
}

/// The answer for a topic that the client may not see, for up to `left` partitions.
fn refused(
    topic_name: String,
    partitions: Vec<i32>,
    code: ErrorCode,
    left: &mut usize,
) -> DescribeShareGroupOffsetsResponseTopic {
    let partition = |partition_index| DescribeShareGroupOffsetsResponsePartition {
        partition_index,
        start_offset: UNKNOWN,
        lag: UNKNOWN,
        error_code: code.code(),
        error_message: Some(Refusal::unauthorized(code).message),
        ..Default::default()
    };
    let partitions: Vec<_> = partitions.into_iter().take(*left).map(partition).collect();
    *left -= partitions.len();
    DescribeShareGroupOffsetsResponseTopic { topic_name, partitions, ..Default::default() }
}

/// Returns the partitions that the client may see.
fn by_topic(context: &Context, kept: &Partitions) -> Vec<(String, Vec<i32>)> {
    let topics = context.node().topics();
    let rights = context.rights();
    let named = |(id, partitions): (&TopicId, &Vec<i32>)| {
        let topic = topics.by_id(id.0)?;
        let name = topic.name.as_str();
        rights.sees_topic(Operation::Describe, name).then(|| (name.to_owned(), partitions.clone()))
    };
    kept.iter().filter_map(named).collect()
}

async fn describe_partition(
    context: &Context,
    group: &Arc<str>,
    topic: Option<&Topic>,
    index: i32,
    is_kept: bool,
) -> DescribeShareGroupOffsetsResponsePartition {
    let mut answer = DescribeShareGroupOffsetsResponsePartition {
        partition_index: index,
        start_offset: UNKNOWN,
        lag: UNKNOWN,
        ..Default::default()
    };
    let refuse = |mut answer: DescribeShareGroupOffsetsResponsePartition, code: ErrorCode| {
        answer.error_code = code.code();
        answer
    };
    let Some(topic) = topic else { return refuse(answer, ErrorCode::UnknownTopicOrPartition) };
    if !topic.has(index) {
        return refuse(answer, ErrorCode::UnknownTopicOrPartition);
    }
    // The group has not read the partition yet, or its state is being deleted. The latter counts at once.
    if !is_kept {
        return answer;
    }
    let key = SharePartitionKey { group: Arc::clone(group), topic: topic.id, partition: index };
    match state::summary(context.node(), context.caller(), &key).await {
        Ok(Some(kept)) => {
            answer.leader_epoch = kept.leader_epoch;
            answer.start_offset = kept.start.map_or(UNKNOWN, |start| start.get());
            let end = high_watermark(context.node(), context.caller(), topic, index).await.ok();
            answer.lag = end.and_then(|end| lag(&kept, end.get())).unwrap_or(UNKNOWN);
            answer
        }
        Ok(None) => answer,
        Err(failure) => {
            answer.error_message = Some(failure.to_string());
            refuse(answer, share_admin_code(&failure))
        }
    }
}

/// Returns the number of records from the start offset on whose delivery is not complete.
fn lag(kept: &KeptState, end: i64) -> Option<i64> {
    let complete = i64::from(kept.delivery_complete_count);
    let start = kept.start?.get();
    (complete >= 0).then(|| (end - start - complete).max(0))
}

#[cfg(test)]
mod tests {
    use tailrace_types::Offset;

    use super::*;

    #[test]
    fn lag_leaves_out_what_is_complete() {
        let kept = |start, complete| KeptState {
            generation: 1,
            state_epoch: 0,
            leader_epoch: 0,
            start,
            delivery_complete_count: complete,
            batches: Vec::new(),
        };
        assert_eq!(lag(&kept(Some(Offset(10)), 3), 20), Some(7));
        assert_eq!(lag(&kept(Some(Offset(10)), -1), 20), None);
        assert_eq!(lag(&kept(None, 0), 20), None);
        assert_eq!(lag(&kept(Some(Offset(30)), 0), 20), Some(0));
    }
}
