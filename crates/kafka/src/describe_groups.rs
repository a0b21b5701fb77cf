//! DescribeGroups (15): classic groups, their members, and the members' assignments.

use std::sync::Arc;

use tailrace_coordination::groups::{
    ClassicDescription, ClassicMemberDescription, GroupError, GroupEvent, GroupReply, GroupState,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::describe_groups_request::DescribeGroupsRequest;
use tailrace_kafka_wire::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::commands::ITEMS_MAX;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;
use crate::lookup::OPERATIONS_NOT_ASKED;

/// First version in which a missing group is an error. Before, it is reported as dead.
const NOT_FOUND_FROM: i16 = 6;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: DescribeGroupsRequest = decode(&context, reader)?;
    let version = context.version();
    let asks_operations = request.include_authorized_operations;
    let context = Arc::new(context);
    Ok(answer_later(Arc::clone(&context), async move {
        let mut groups = Vec::new();
        let mut charges = context.charges();
        // One after the other, because the descriptions are in memory and a request may repeat a group.
        for group_id in request.groups.into_iter().take(ITEMS_MAX) {
            if charges.is_full() {
                groups.push(refused(group_id, ErrorCode::PolicyViolation, None));
                continue;
            }
            let rights = context.rights();
            if let Err(code) = rights.group(Operation::Describe, &group_id) {
                groups.push(refused(group_id, code, None));
                continue;
            }
            let operations = rights.group_operations(asks_operations, &group_id);
            drop(rights);
            let named = vec![Arc::<str>::from(group_id.as_str())];
            let event = move |token| GroupEvent::Describe { token, groups: named };
            let asked = context.submit_group(&group_id, event).await;
            let group = match asked.reply().await {
                Ok(GroupReply::Describe(described)) => match described.into_iter().next() {
                    Some(Ok(description)) => described_group(group_id, description, operations),
                    Some(Err(error)) => missing(group_id, &error, version, operations),
                    None => refused(group_id, ErrorCode::UnknownServerError, None),
                },
                Ok(_) => refused(group_id, ErrorCode::UnknownServerError, None),
                Err(code) => refused(group_id, code, None),
            };
            charges.add(bytes_of(&group)).await;
            groups.push(group);
        }
        DescribeGroupsResponse { groups, ..Default::default() }
    }))
}

/// Approximate size of a group in the answer.
fn bytes_of(group: &DescribedGroup) -> usize {
    const MEMBER_BYTES: usize = 512;
    let of_member = |member: &DescribedGroupMember| {
        MEMBER_BYTES + member.member_metadata.len() + member.member_assignment.len()
    };
    MEMBER_BYTES + group.members.iter().map(of_member).sum::<usize>()
}

fn described_group(group_id: String, group: ClassicDescription, operations: i32) -> DescribedGroup {
    DescribedGroup {
        group_id,
        group_state: group.state.name().to_owned(),
        protocol_type: group.protocol_type,
        protocol_data: group.protocol,
        members: group.members.into_iter().map(described_member).collect(),
        authorized_operations: operations,
        ..Default::default()
    }
}

fn described_member(member: ClassicMemberDescription) -> DescribedGroupMember {
    DescribedGroupMember {
        member_id: member.member.to_string(),
        group_instance_id: member.instance.map(|instance| instance.to_string()),
        client_id: member.client.client_id,
        client_host: member.client.client_host,
        member_metadata: member.subscription,
        member_assignment: member.assignment,
        ..Default::default()
    }
}

/// As in Kafka, a missing group is dead, and its operations are told where it is no error.
fn missing(group_id: String, error: &GroupError, version: i16, operations: i32) -> DescribedGroup {
    let group_state = GroupState::Dead.name().to_owned();
    match group_code(error) {
        ErrorCode::GroupIdNotFound if version < NOT_FOUND_FROM => {
            DescribedGroup { group_id, group_state, authorized_operations: operations, ..Default::default() }
        }
        code @ ErrorCode::GroupIdNotFound => {
            DescribedGroup { group_state, ..refused(group_id, code, Some(error.to_string())) }
        }
        code => refused(group_id, code, Some(error.to_string())),
    }
}

fn refused(group_id: String, code: ErrorCode, message: Option<String>) -> DescribedGroup {
    DescribedGroup {
        group_id,
        error_code: code.code(),
        error_message: message,
        authorized_operations: OPERATIONS_NOT_ASKED,
        ..Default::default()
    }
}
