//! ListGroups (16): lists all groups of all coordinators, or those in certain states and of certain kinds.

use std::sync::Arc;

use tailrace_coordination::groups::{GroupEvent, GroupFilter, GroupReply, GroupSummary};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::list_groups_request::ListGroupsRequest;
use tailrace_kafka_wire::messages::list_groups_response::{ListGroupsResponse, ListedGroup};

use crate::context::Context;
use crate::errors::coordinator_code;

pub(crate) async fn handle(context: Arc<Context>, request: ListGroupsRequest) -> ListGroupsResponse {
    let filter = GroupFilter { states: request.states_filter, kinds: request.types_filter };
    let event = move |token| GroupEvent::List { token, filter: filter.clone() };
    let mut response = ListGroupsResponse::default();
    let rights = context.rights();
    let sees_all = rights.sees_cluster(Operation::Describe);
    let is_seen = |group: &GroupSummary| sees_all || rights.sees_group(Operation::Describe, &group.group);
    for reply in context.node().groups().submit_all(context.node(), context.caller(), event).await {
        match reply {
            Ok(GroupReply::List(groups)) => {
                response.groups.extend(groups.into_iter().filter(is_seen).map(listed))
            }
            Ok(_) => response.error_code = ErrorCode::UnknownServerError.code(),
            // The answer contains the groups that could be listed. The code says that there are more.
            Err(failure) => response.error_code = coordinator_code(&failure).code(),
        }
    }
    response
}

fn listed(group: GroupSummary) -> ListedGroup {
    ListedGroup {
        group_id: group.group.to_string(),
        protocol_type: group.protocol_type,
        group_state: group.state.name().to_owned(),
        group_type: group.kind.name().to_owned(),
        ..Default::default()
    }
}
