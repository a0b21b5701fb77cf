//! DeleteGroups (42): empty groups go, with all their offsets.

use std::sync::Arc;

use tailrace_coordination::groups::{GroupEvent, GroupReply};
use tailrace_kafka_wire::messages::delete_groups_request::DeleteGroupsRequest;
use tailrace_kafka_wire::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};
use tailrace_kafka_wire::{ErrorCode, Reader};

use crate::closed::Closed;
use crate::commands::ITEMS_MAX;
use crate::context::{Context, Decided, answer_later, decode};
use crate::groups::group_code;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: DeleteGroupsRequest = decode(&context, reader)?;
    let mut asked = Vec::new();
    for group_id in request.groups_names.into_iter().take(ITEMS_MAX) {
        let groups = vec![Arc::<str>::from(group_id.as_str())];
        let answer = context.submit_group(&group_id, move |token| GroupEvent::Delete { token, groups }).await;
        asked.push((group_id, answer));
    }
    Ok(answer_later(context, async move {
        let mut results = Vec::with_capacity(asked.len());
        for (group_id, asked) in asked {
            let code = match asked.reply().await {
                Ok(GroupReply::Delete(fates)) => match fates.into_iter().next() {
                    Some(Ok(())) => ErrorCode::None,
                    Some(Err(error)) => group_code(&error),
                    None => ErrorCode::UnknownServerError,
                },
                Ok(_) => ErrorCode::UnknownServerError,
                Err(code) => code,
            };
            results.push(DeletableGroupResult { group_id, error_code: code.code(), ..Default::default() });
        }
        DeleteGroupsResponse { results, ..Default::default() }
    }))
}
