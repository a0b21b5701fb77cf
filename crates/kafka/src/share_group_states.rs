//! What the APIs of share groups' offsets have in common: the group that they are about, which must exist and, to be
//! changed, have no members.

use tailrace_coordination::groups::{GroupError, ShareEvent, ShareReply};
use tailrace_kafka_wire::ErrorCode;
use tailrace_types::TopicId;

use crate::commands::Refusal;
use crate::context::Context;
use crate::groups::{group_code, group_message};

fn refused(error: &GroupError) -> Refusal {
    Refusal::new(group_code(error), group_message(error))
}

async fn ask(context: &Context, group: &str, event: ShareEvent) -> Result<ShareReply, Refusal> {
    let reply = context.submit_share_group(group.to_owned(), event).await.share().await;
    reply.map_err(|code| Refusal::new(code, "The group's coordinator cannot be reached."))
}

/// Refuses groups that do not exist, or are no share groups. True if it has members.
pub(super) async fn has_members(context: &Context, group: &str) -> Result<bool, Refusal> {
    match ask(context, group, ShareEvent::Describe).await? {
        ShareReply::Describe(Ok(description)) => Ok(!description.members.is_empty()),
        ShareReply::Describe(Err(error)) => Err(refused(&error)),
        _ => Err(Refusal::new(ErrorCode::UnknownServerError, "The group's coordinator gave another answer.")),
    }
}

/// Refuses groups that do not exist or are in use: by members, or by clients that have a session without being one.
pub(super) async fn check_unused(context: &Context, group: &str) -> Result<(), Refusal> {
    if has_members(context, group).await? || context.node().share_groups().sessions.has_group(group) {
        return Err(in_use());
    }
    Ok(())
}

/// Refuses groups in use, as [`check_unused`] does, and what is no share group. One that does not exist is made if `make` says so.
pub(super) async fn open(context: &Context, group: &str, make: bool) -> Result<(), Refusal> {
    changed(ask(context, group, ShareEvent::Opened { make }).await?)?;
    if context.node().share_groups().sessions.has_group(group) {
        return Err(in_use());
    }
    Ok(())
}

fn in_use() -> Refusal {
    Refusal::new(ErrorCode::NonEmptyGroup, "The group is in use.")
}

/// The group's coordinator may assign these partitions: they have a state.
pub(super) async fn tell_initialized(
    context: &Context,
    group: &str,
    partitions: Vec<(TopicId, Vec<i32>)>,
) -> Result<(), Refusal> {
    changed(ask(context, group, ShareEvent::StatesInitialized(partitions)).await?)
}

/// The group's coordinator assigns nothing of these topics any more, until their partitions have a state again.
pub(super) async fn tell_deleted(
    context: &Context,
    group: &str,
    topics: Vec<TopicId>,
) -> Result<(), Refusal> {
    changed(ask(context, group, ShareEvent::StatesDeleted(topics)).await?)
}

fn changed(reply: ShareReply) -> Result<(), Refusal> {
    match reply {
        ShareReply::StatesChanged(outcome) => outcome.map_err(|error| refused(&error)),
        _ => Err(Refusal::new(ErrorCode::UnknownServerError, "The group's coordinator gave another answer.")),
    }
}
