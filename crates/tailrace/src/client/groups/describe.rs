//! Describes groups. Each kind of group has a request of its own.

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, ShareGroupDescribeRequest,
    consumer_group_describe_response, describe_groups_response, share_group_describe_response,
};

use super::{Assignment, Group, GroupKind, ListedGroup, Member, assignment, list_groups};
use crate::client::{ClientError, Cluster, check, retrying};

/// Finds a group by id. `None` if it does not exist.
pub(crate) async fn find_group(cluster: &mut Cluster, id: &str) -> Result<Option<Group>, ClientError> {
    let listed = list_groups(cluster).await?.into_iter().find(|group| group.id == id);
    match listed {
        Some(listed) => describe_group(cluster, &listed).await,
        None => Ok(None),
    }
}

/// Describes a listed group. `None` if it no longer exists.
pub(crate) async fn describe_group(
    cluster: &mut Cluster,
    listed: &ListedGroup,
) -> Result<Option<Group>, ClientError> {
    let described = retrying(cluster, async |cluster| match listed.kind {
        GroupKind::Consumer => consumer(cluster, listed).await,
        GroupKind::Share => share(cluster, listed).await,
        GroupKind::Classic => classic(cluster, listed).await,
        // There is no request for its members.
        GroupKind::Streams | GroupKind::Other(_) => {
            let (coordinator, _) = cluster.coordinator(&listed.id).await?;
            Ok(group(listed, coordinator, Vec::new()))
        }
    });
    match described.await {
        Ok(group) => Ok(Some(group)),
        Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn group(listed: &ListedGroup, coordinator: i32, mut members: Vec<Member>) -> Group {
    members.sort_by(|a, b| a.id.cmp(&b.id));
    Group {
        id: listed.id.clone(),
        kind: listed.kind.clone(),
        state: listed.state.clone(),
        assignor: String::new(),
        coordinator,
        epoch: None,
        assignment_epoch: None,
        members,
    }
}

fn failed(id: &str) -> impl FnOnce() -> String {
    move || format!("cannot describe group '{id}'")
}

fn missing(id: &str) -> ClientError {
    ClientError::refused(format!("cannot describe group '{id}'"), ErrorCode::GroupIdNotFound.code(), None)
}

async fn classic(cluster: &mut Cluster, listed: &ListedGroup) -> Result<Group, ClientError> {
    let (coordinator, connection) = cluster.coordinator(&listed.id).await?;
    let request = DescribeGroupsRequest { groups: vec![listed.id.clone()], ..Default::default() };
    let found = connection.call(&request).await?.groups.into_iter().next();
    let found = found.ok_or_else(|| missing(&listed.id))?;
    check(found.error_code, found.error_message.as_ref(), failed(&listed.id))?;
    if found.group_state == "Dead" {
        return Err(missing(&listed.id));
    }
    let is_consumers = found.protocol_type == "consumer";
    let member = |member: describe_groups_response::DescribedGroupMember| Member {
        id: member.member_id,
        instance: member.group_instance_id,
        client_id: member.client_id,
        host: host(member.client_host),
        topics: if is_consumers { assignment::subscription(member.member_metadata) } else { Vec::new() },
        assignment: if is_consumers {
            assignment::assignment(member.member_assignment)
        } else {
            Assignment::new()
        },
        ..Default::default()
    };
    let members = found.members.into_iter().map(member).collect();
    let (state, assignor) = (found.group_state, found.protocol_data);
    Ok(Group { state, assignor, ..group(listed, coordinator, members) })
}

async fn consumer(cluster: &mut Cluster, listed: &ListedGroup) -> Result<Group, ClientError> {
    use consumer_group_describe_response::{Assignment as Answered, Member as AnsweredMember};
    let (coordinator, connection) = cluster.coordinator(&listed.id).await?;
    let request = ConsumerGroupDescribeRequest { group_ids: vec![listed.id.clone()], ..Default::default() };
    let found = connection.call(&request).await?.groups.into_iter().next();
    let found = found.ok_or_else(|| missing(&listed.id))?;
    check(found.error_code, found.error_message.as_ref(), failed(&listed.id))?;
    let partitions = |answered: Answered| -> Assignment {
        answered
            .topic_partitions
            .into_iter()
            .map(|topic| (topic.topic_name, sorted(topic.partitions)))
            .collect()
    };
    let member = |member: AnsweredMember| Member {
        id: member.member_id,
        instance: member.instance_id,
        rack: member.rack_id,
        client_id: member.client_id,
        host: host(member.client_host),
        epoch: Some(member.member_epoch),
        topics: member.subscribed_topic_names,
        pattern: member.subscribed_topic_regex.filter(|pattern| !pattern.is_empty()),
        assignment: partitions(member.assignment),
        target: Some(partitions(member.target_assignment)),
    };
    let members = found.members.into_iter().map(member).collect();
    Ok(Group {
        state: found.group_state,
        assignor: found.assignor_name,
        epoch: Some(found.group_epoch),
        assignment_epoch: Some(found.assignment_epoch),
        ..group(listed, coordinator, members)
    })
}

async fn share(cluster: &mut Cluster, listed: &ListedGroup) -> Result<Group, ClientError> {
    use share_group_describe_response::{Assignment as Answered, Member as AnsweredMember};
    let (coordinator, connection) = cluster.coordinator(&listed.id).await?;
    let request = ShareGroupDescribeRequest { group_ids: vec![listed.id.clone()], ..Default::default() };
    let found = connection.call(&request).await?.groups.into_iter().next();
    let found = found.ok_or_else(|| missing(&listed.id))?;
    check(found.error_code, found.error_message.as_ref(), failed(&listed.id))?;
    let partitions = |answered: Answered| -> Assignment {
        answered
            .topic_partitions
            .into_iter()
            .map(|topic| (topic.topic_name, sorted(topic.partitions)))
            .collect()
    };
    let member = |member: AnsweredMember| Member {
        id: member.member_id,
        rack: member.rack_id,
        client_id: member.client_id,
        host: host(member.client_host),
        epoch: Some(member.member_epoch),
        topics: member.subscribed_topic_names,
        assignment: partitions(member.assignment),
        ..Default::default()
    };
    let members = found.members.into_iter().map(member).collect();
    Ok(Group {
        state: found.group_state,
        assignor: found.assignor_name,
        epoch: Some(found.group_epoch),
        assignment_epoch: Some(found.assignment_epoch),
        ..group(listed, coordinator, members)
    })
}

fn sorted(mut partitions: Vec<i32>) -> Vec<i32> {
    partitions.sort_unstable();
    partitions
}

/// Java writes addresses as `name/address`, usually with an empty name.
fn host(text: String) -> String {
    text.strip_prefix('/').map(str::to_owned).unwrap_or(text)
}
