//! DeleteGroups (42): deletes empty groups with all their offsets. The states of a share group are deleted
//! first.

use std::sync::Arc;

use tailrace_coordination::groups::{GroupError, GroupEvent, GroupReply};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::delete_groups_request::DeleteGroupsRequest;
use tailrace_kafka_wire::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::commands::ITEMS_MAX;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::deletion_code;
use crate::errors::group_code;
use crate::groups::PendingGroup;
use tailrace_node::share::delete_states;

/// Attempts to delete a group. An attempt fails if a member joins and leaves meanwhile, which gives the group
/// new states.
const TRIES: usize = 3;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: DeleteGroupsRequest = decode(&context, reader)?;
    let mut asked = Vec::new();
    for group_id in request.groups_names.into_iter().take(ITEMS_MAX) {
        let answer = match context.rights().group(Operation::Delete, &group_id) {
            Ok(()) => {
                let change = context.audited(&format_args!("DeleteGroup {}", group_id.escape_debug()));
                Ok((ask(&context, &group_id).await, change))
            }
            Err(code) => Err(code),
        };
        asked.push((group_id, answer));
    }
    let context = Arc::new(context);
    Ok(answer_later(Arc::clone(&context), async move {
        let mut results = Vec::with_capacity(asked.len());
        for (group_id, asked) in asked {
            let code = match asked {
                Ok((asked, change)) => {
                    let code = match fate(asked).await {
                        Err(Refused::States) => delete_with_states(&context, &group_id).await,
                        Err(Refused::Code(code)) => code,
                        Ok(()) => ErrorCode::None,
                    };
                    change.end_with(code);
                    code
                }
                Err(code) => code,
            };
            results.push(DeletableGroupResult { group_id, error_code: code.code(), ..Default::default() });
        }
        DeleteGroupsResponse { results, ..Default::default() }
    }))
}

/// The reason why a group was not deleted.
enum Refused {
    /// The group is a share group, whose states must be deleted first.
    States,
    Code(ErrorCode),
}

async fn ask(context: &Context, group_id: &str) -> PendingGroup {
    let groups = vec![Arc::<str>::from(group_id)];
    context.submit_group(group_id, move |token| GroupEvent::Delete { token, groups }).await
}

async fn fate(asked: PendingGroup) -> Result<(), Refused> {
    match asked.reply().await.map_err(Refused::Code)? {
        GroupReply::Delete(fates) => match fates.into_iter().next() {
            Some(Ok(())) => Ok(()),
            Some(Err(GroupError::StatesLeft { .. })) => Err(Refused::States),
            Some(Err(error)) => Err(Refused::Code(group_code(&error))),
            None => Err(Refused::Code(ErrorCode::UnknownServerError)),
        },
        _ => Err(Refused::Code(ErrorCode::UnknownServerError)),
    }
}

/// Deletes a share group with its states. If a state cannot be deleted, the group stays.
async fn delete_with_states(context: &Context, group_id: &str) -> ErrorCode {
    let group: Arc<str> = group_id.into();
    for _ in 0..TRIES {
        let topics = match delete_states(context.node(), context.caller(), &group, None).await {
            Ok(topics) => topics,
            Err(failure) => return deletion_code(&failure),
        };
        if let Some(Err(failure)) = topics.into_values().find(Result::is_err) {
            return deletion_code(&failure.into());
        }
        match fate(ask(context, group_id).await).await {
            Err(Refused::States) => {}
            Err(Refused::Code(code)) => return code,
            Ok(()) => return ErrorCode::None,
        }
    }
    ErrorCode::CoordinatorLoadInProgress
}
