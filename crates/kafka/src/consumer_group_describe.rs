//! ConsumerGroupDescribe (69): describes consumer groups (KIP-848).

use std::sync::Arc;

use tailrace_coordination::groups::{
    ConsumerDescription, ConsumerEvent, ConsumerMemberDescription, ConsumerReply, NamedPartitions,
};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use tailrace_kafka_wire::messages::consumer_group_describe_response::{
    Assignment, ConsumerGroupDescribeResponse, DescribedGroup, Member, TopicPartitions,
};

use crate::commands::ITEMS_MAX;
use crate::context::Context;
use crate::errors::group_code;
use crate::groups::group_message;
use crate::lookup::{GROUP_OPERATIONS, OPERATIONS_NOT_ASKED};

/// Member types of the protocol.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let operations =
        if request.include_authorized_operations { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED };
    let mut groups = Vec::new();
    let mut charges = context.charges();
    for group_id in request.group_ids.into_iter().take(ITEMS_MAX) {
        let described = if charges.is_full() {
            DescribedGroup { error_code: ErrorCode::PolicyViolation.code(), ..Default::default() }
        } else {
            describe(&context, &group_id).await
        };
        charges.add(bytes_of(&described)).await;
        groups.push(DescribedGroup { group_id, authorized_operations: operations, ..described });
    }
    ConsumerGroupDescribeResponse { groups, ..Default::default() }
}

/// Approximate size of a group in the answer.
fn bytes_of(group: &DescribedGroup) -> usize {
    const MEMBER_BYTES: usize = 1024;
    const TOPIC_BYTES: usize = 128;
    let of_assignment = |assignment: &Assignment| {
        let partitions = assignment.topic_partitions.iter().map(|topic| 4 * topic.partitions.len());
        partitions.map(|bytes| TOPIC_BYTES + bytes).sum::<usize>()
    };
    let of_member = |member: &Member| {
        MEMBER_BYTES
            + TOPIC_BYTES * member.subscribed_topic_names.len()
            + of_assignment(&member.assignment)
            + of_assignment(&member.target_assignment)
    };
    MEMBER_BYTES + group.members.iter().map(of_member).sum::<usize>()
}

async fn describe(context: &Context, group: &str) -> DescribedGroup {
    let failed = |code: ErrorCode, error_message| DescribedGroup {
        error_code: code.code(),
        error_message,
        ..Default::default()
    };
    match context.submit_consumer(group.to_owned(), ConsumerEvent::Describe).await.consumer().await {
        Ok(ConsumerReply::Describe(Ok(described))) => described_group(described),
        Ok(ConsumerReply::Describe(Err(error))) => failed(group_code(&error), Some(group_message(&error))),
        Ok(_) => failed(ErrorCode::UnknownServerError, None),
        Err(code) => failed(code, None),
    }
}

fn described_group(group: ConsumerDescription) -> DescribedGroup {
    DescribedGroup {
        group_state: group.state.name().to_owned(),
        group_epoch: group.epoch,
        assignment_epoch: group.assignment_epoch,
        assignor_name: group.assignor,
        members: group.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

fn member(member: ConsumerMemberDescription) -> Member {
    Member {
        member_id: member.member.to_string(),
        instance_id: member.instance,
        rack_id: member.rack,
        member_epoch: member.epoch,
        client_id: member.client.client_id,
        client_host: member.client.client_host,
        subscribed_topic_names: member.topics,
        subscribed_topic_regex: member.expression,
        assignment: assignment(member.assignment),
        target_assignment: assignment(member.target),
        member_type: if member.is_classic { CLASSIC_MEMBER } else { CONSUMER_MEMBER },
        ..Default::default()
    }
}

fn assignment(partitions: Vec<NamedPartitions>) -> Assignment {
    let topics = partitions.into_iter().map(|topic| TopicPartitions {
        topic_id: topic.topic.0,
        topic_name: topic.name.as_str().to_owned(),
        partitions: topic.partitions,
        ..Default::default()
    });
    Assignment { topic_partitions: topics.collect(), ..Default::default() }
}
