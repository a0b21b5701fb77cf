//! ShareGroupDescribe (77): describes share groups (KIP-932).

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_coordination::groups::{
    NamedPartitions, ShareDescription, ShareEvent, ShareMemberDescription, ShareReply,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::share_group_describe_request::ShareGroupDescribeRequest;
use tailrace_kafka_wire::messages::share_group_describe_response::{
    Assignment, DescribedGroup, Member, ShareGroupDescribeResponse, TopicPartitions,
};

use crate::commands::ITEMS_MAX;
use crate::context::Context;
use crate::errors::group_code;
use crate::groups::group_message;
use crate::lookup::OPERATIONS_NOT_ASKED;

/// The only assignor of share groups.
const ASSIGNOR: &str = "simple";

pub(crate) async fn handle(
    context: Arc<Context>,
    request: ShareGroupDescribeRequest,
) -> ShareGroupDescribeResponse {
    let asks_operations = request.include_authorized_operations;
    let mut groups = Vec::new();
    let mut charges = context.charges();
    for group_id in request.group_ids.into_iter().take(ITEMS_MAX) {
        let rights = context.rights();
        if let Err(code) = rights.group(Operation::Describe, &group_id) {
            groups.push(failed(group_id, code));
            continue;
        }
        let operations = rights.group_operations(asks_operations, &group_id);
        drop(rights);
        let described = if charges.is_full() {
            DescribedGroup { error_code: ErrorCode::PolicyViolation.code(), ..Default::default() }
        } else {
            without_hidden_topics(&context, describe(&context, &group_id).await)
        };
        charges.add(bytes_of(&described)).await;
        // As in Kafka, operations come only with what is described.
        let authorized_operations = if described.error_code == 0 { operations } else { OPERATIONS_NOT_ASKED };
        groups.push(DescribedGroup { group_id, authorized_operations, ..described });
    }
    ShareGroupDescribeResponse { groups, ..Default::default() }
}

fn failed(group_id: String, code: ErrorCode) -> DescribedGroup {
    let authorized_operations = OPERATIONS_NOT_ASKED;
    DescribedGroup { group_id, error_code: code.code(), authorized_operations, ..Default::default() }
}

/// Leaves nothing of the group but an error if the client may not DESCRIBE all topics of the members, as in
/// Kafka.
fn without_hidden_topics(context: &Context, group: DescribedGroup) -> DescribedGroup {
    let rights = context.rights();
    if rights.is_unlimited() {
        return group;
    }
    let topics: BTreeSet<&str> = group.members.iter().flat_map(topics_of).collect();
    if topics.into_iter().all(|topic| rights.sees_topic(Operation::Describe, topic)) {
        return group;
    }
    DescribedGroup {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        error_message: Some("The client may not describe all topics of the group.".to_owned()),
        ..Default::default()
    }
}

/// Returns the names of the topics that a member subscribes to or is assigned.
fn topics_of(member: &Member) -> impl Iterator<Item = &str> {
    let subscribed = member.subscribed_topic_names.iter().map(String::as_str);
    let assigned = member.assignment.topic_partitions.iter();
    subscribed.chain(assigned.map(|topic| topic.topic_name.as_str()))
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
        MEMBER_BYTES + TOPIC_BYTES * member.subscribed_topic_names.len() + of_assignment(&member.assignment)
    };
    MEMBER_BYTES + group.members.iter().map(of_member).sum::<usize>()
}

async fn describe(context: &Context, group: &str) -> DescribedGroup {
    let failed = |code: ErrorCode, error_message| DescribedGroup {
        error_code: code.code(),
        error_message,
        ..Default::default()
    };
    match context.submit_share_group(group.to_owned(), ShareEvent::Describe).await.share().await {
        Ok(ShareReply::Describe(Ok(described))) => described_group(described),
        Ok(ShareReply::Describe(Err(error))) => failed(group_code(&error), Some(group_message(&error))),
        Ok(_) => failed(ErrorCode::UnknownServerError, None),
        Err(code) => failed(code, None),
    }
}

fn described_group(group: ShareDescription) -> DescribedGroup {
    DescribedGroup {
        group_state: group.state.name().to_owned(),
        group_epoch: group.epoch,
        assignment_epoch: group.assignment_epoch,
        assignor_name: ASSIGNOR.to_owned(),
        members: group.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

fn member(member: ShareMemberDescription) -> Member {
    Member {
        member_id: member.member.to_string(),
        rack_id: member.rack,
        member_epoch: member.epoch,
        client_id: member.client.client_id,
        client_host: member.client.client_host,
        subscribed_topic_names: member.topics,
        assignment: assignment(member.assignment),
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
