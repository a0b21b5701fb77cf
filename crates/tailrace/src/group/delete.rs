//! `tailrace group delete`: whole groups, or their offsets of single topics.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::json;
use tailrace_kafka_wire::ErrorCode;

use super::arguments::DeleteArguments;
use crate::args::Output;
use crate::client::{
    ClientError, Cluster, GroupKind, Position, committed_offsets, delete_group, delete_offsets,
    delete_share_offsets, find_group,
};
use crate::failure::{Failure, complain};
use crate::output::{print, print_json};

/// One group after the other, so that one that cannot be deleted does not keep the others.
pub(super) async fn run(cluster: &mut Cluster, arguments: &DeleteArguments) -> Result<ExitCode, Failure> {
    let mut deleted = Vec::new();
    let mut failed = false;
    for name in &arguments.names {
        let outcome = if arguments.topic.is_empty() {
            delete_group(cluster, name).await
        } else {
            delete_topics(cluster, name, &arguments.topic).await
        };
        match outcome {
            Ok(()) => deleted.push(name.clone()),
            Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) && arguments.if_exists => {}
            Err(error) if error.code().is_some() => {
                failed = true;
                complain(&explained(&error, name));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let what = if arguments.topic.is_empty() { "deleted" } else { "offsets deleted" };
    match arguments.common.output {
        Output::Text => print(&deleted.iter().map(|name| format!("{name}: {what}\n")).collect::<String>())?,
        Output::Json => print_json(&json!({ "deleted": deleted, "topics": arguments.topic }))?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn delete_topics(cluster: &mut Cluster, name: &str, topics: &[String]) -> Result<(), ClientError> {
    let Some(group) = find_group(cluster, name).await? else {
        let what = format!("cannot delete offsets of group '{name}'");
        return Err(ClientError::refused(what, ErrorCode::GroupIdNotFound.code(), None));
    };
    if group.kind == GroupKind::Share {
        return delete_share_offsets(cluster, name, topics).await;
    }
    let offsets = committed_offsets(cluster, name).await?;
    let positions: BTreeSet<Position> =
        offsets.into_keys().filter(|(topic, _)| topics.contains(topic)).collect();
    if positions.is_empty() { Ok(()) } else { delete_offsets(cluster, name, &positions).await }
}

/// The codes say what is wrong; what to do about it is said here.
fn explained(error: &ClientError, name: &str) -> String {
    match error.code() {
        Some(ErrorCode::NonEmptyGroup) => {
            format!("group '{name}' has members; stop its consumers first (NON_EMPTY_GROUP)")
        }
        Some(ErrorCode::GroupSubscribedToTopic) => {
            format!(
                "members of group '{name}' read this topic; stop its consumers first (GROUP_SUBSCRIBED_TO_TOPIC)"
            )
        }
        Some(ErrorCode::GroupIdNotFound) => {
            format!(
                "there is no group '{name}'; `tailrace group list` shows those there are (GROUP_ID_NOT_FOUND)"
            )
        }
        _ => error.to_string(),
    }
}
