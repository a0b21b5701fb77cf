//! DescribeShareGroupOffsets (90): where share groups are, and how many records are still to be delivered (KIP-1226).

use std::sync::Arc;

use tailrace_coordination::share::{KeptState, SharePartitionKey};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
};
use tailrace_kafka_wire::messages::describe_share_group_offsets_response::{
    DescribeShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition, DescribeShareGroupOffsetsResponseTopic,
};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::errors::share_admin_code;
use crate::high_watermarks::high_watermark;
use crate::share_group_states::has_members;
use tailrace_node::partitions::Topic;
use tailrace_node::share::state;

/// Not known.
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

/// Up to `left` partitions.
async fn describe(
    context: &Context,
    wanted: DescribeShareGroupOffsetsRequestGroup,
    left: &mut usize,
) -> DescribeShareGroupOffsetsResponseGroup {
    let mut group =
        DescribeShareGroupOffsetsResponseGroup { group_id: wanted.group_id, ..Default::default() };
    let name: Arc<str> = group.group_id.as_str().into();
    let all = wanted.topics.is_none();
    if let Err(Refusal { code, message }) = has_members(context, &name).await {
        // What there is of a group that does not exist is nothing, as in Kafka.
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
    let named = match named {
        Some(named) => named,
        None => match state::partitions_of(context.node(), &name).await {
            Ok(keys) => by_topic(context, &keys),
            Err(failure) => {
                group.error_code = share_admin_code(&failure).code();
                group.error_message = Some(failure.to_string());
                return group;
            }
        },
    };
    for (topic_name, partitions) in named {
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
            answer.partitions.push(describe_partition(context, &name, topic.as_deref(), index).await);
        }
        group.topics.push(answer);
    }
    group
}

fn by_topic(context: &Context, keys: &[SharePartitionKey]) -> Vec<(String, Vec<i32>)> {
    let topics = context.node().topics();
    let mut named: Vec<(String, Vec<i32>)> = Vec::new();
    for key in keys {
        let Some(topic) = topics.by_id(key.topic.0) else { continue };
        match named.iter_mut().find(|(name, _)| name == topic.name.as_str()) {
            Some((_, partitions)) => partitions.push(key.partition),
            None => named.push((topic.name.as_str().to_owned(), vec![key.partition])),
        }
    }
    named
}

async fn describe_partition(
    context: &Context,
    group: &Arc<str>,
    topic: Option<&Topic>,
    index: i32,
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
    let key = SharePartitionKey { group: Arc::clone(group), topic: topic.id, partition: index };
    match state::summary(context.node(), &key).await {
        Ok(Some(kept)) => {
            answer.leader_epoch = kept.leader_epoch;
            answer.start_offset = kept.start.map_or(UNKNOWN, |start| start.get());
            let end = high_watermark(context.node(), topic, index).await.ok();
            answer.lag = end.and_then(|end| lag(&kept, end.get())).unwrap_or(UNKNOWN);
            answer
        }
        // Nobody has read it for this group yet.
        Ok(None) => answer,
        Err(failure) => {
            answer.error_message = Some(failure.to_string());
            refuse(answer, share_admin_code(&failure))
        }
    }
}

/// Records from the start offset on whose delivery is not complete.
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
