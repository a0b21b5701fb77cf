//! Shared parts of the APIs for share groups' offsets: the group, which must exist, and must have no members
//! if it is to be changed.

use tailrace_coordination::groups::{GroupError, OpenedStates, Partitions, ShareEvent, ShareReply};
use tailrace_kafka_wire::ErrorCode;
use tailrace_types::TopicId;

use crate::commands::Refusal;
use crate::context::Context;
use crate::errors::group_code;
use crate::groups::group_message;
use tailrace_node::share::state::take_back;

fn refused(error: &GroupError) -> Refusal {
    Refusal::new(group_code(error), group_message(error))
}

async fn ask(context: &Context, group: &str, event: ShareEvent) -> Result<ShareReply, Refusal> {
    let reply = context.submit_share_group(group.to_owned(), event).await.share().await;
    reply.map_err(|code| Refusal::new(code, "The group's coordinator cannot be reached."))
}

/// Reports whether the group has members. Refuses groups that do not exist or are not share groups.
pub(super) async fn has_members(context: &Context, group: &str) -> Result<bool, Refusal> {
    match ask(context, group, ShareEvent::Describe).await? {
        ShareReply::Describe(Ok(description)) => Ok(!description.members.is_empty()),
        ShareReply::Describe(Err(error)) => Err(refused(&error)),
        _ => Err(another_answer()),
    }
}

/// Refuses groups that do not exist or are in use, by members or by clients that have a session without being
/// members.
pub(super) async fn check_unused(context: &Context, group: &str) -> Result<(), Refusal> {
    if has_members(context, group).await? || context.node().share_groups().sessions.has_group(group) {
        return Err(in_use());
    }
    Ok(())
}

/// Refuses groups in use, as [`check_unused`] does, and groups that are not share groups. Creates a missing
/// group if `make` is set. The group then knows that these partitions are to get states.
pub(super) async fn open(
    context: &Context,
    group: &str,
    make: bool,
    topics: Vec<(TopicId, Vec<i32>)>,
) -> Result<OpenedStates, Refusal> {
    let opened = match ask(context, group, ShareEvent::Open { make, topics }).await? {
        ShareReply::Open(opened) => opened.map_err(|error| refused(&error))?,
        _ => return Err(another_answer()),
    };
    if context.node().share_groups().sessions.has_group(group) {
        return Err(in_use());
    }
    Ok(opened)
}

/// Returns the partitions for which the group has a state.
pub(super) async fn initialized(context: &Context, group: &str) -> Result<Partitions, Refusal> {
    match ask(context, group, ShareEvent::InitializedStates).await? {
        ShareReply::InitializedStates(partitions) => partitions.map_err(|error| refused(&error)),
        _ => Err(another_answer()),
    }
}

fn another_answer() -> Refusal {
    Refusal::new(ErrorCode::UnknownServerError, "The group's coordinator gave an unexpected answer.")
}

fn in_use() -> Refusal {
    Refusal::new(ErrorCode::NonEmptyGroup, "The group is in use.")
}

/// Tells the group's coordinator that these partitions have states, so that it may assign them. If the group
/// was deleted meanwhile, they have none.
pub(super) async fn tell_initialized(
    context: &Context,
    group: &str,
    generation: i64,
    topics: Vec<(TopicId, Vec<i32>)>,
) -> Result<(), Refusal> {
    let event = ShareEvent::StatesInitialized { generation, topics: topics.clone() };
    match ask(context, group, event).await? {
        ShareReply::StatesChanged(Err(error @ GroupError::GroupNotFound { .. })) => {
            take_back(context.node(), context.caller(), &group.into(), generation, &topics).await;
            Err(refused(&error))
        }
        ShareReply::StatesChanged(outcome) => outcome.map_err(|error| refused(&error)),
        _ => Err(another_answer()),
    }
}
