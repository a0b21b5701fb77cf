//! `tailrace group delete`: whole groups, or their offsets of single topics.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::{Failure, complain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_kafka_wire::ErrorCode;

use super::arguments::DeleteArguments;
use crate::client::{
    ClientError, Cluster, GroupKind, Position, committed_offsets, delete_group, delete_offsets,
    delete_share_offsets, find_group, find_topic, share_offsets,
};

/// Deletes one group after the other, so that one failure does not stop the rest.
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
            Err(error) if is_missing(&error) && arguments.if_exists => {}
            Err(error) if is_missing(&error) || error.code().is_some() => {
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
    let group = find_group(cluster, name).await?.ok_or_else(|| ClientError::NoGroup(name.to_owned()))?;
    let is_share = group.kind == GroupKind::Share;
    let offsets: BTreeSet<Position> = if is_share {
        share_offsets(cluster, name).await?.into_keys().collect()
    } else {
        committed_offsets(cluster, name).await?.into_keys().collect()
    };
    // The server reports success for topics that do not exist, and for topics that the group has no offsets
    // for.
    if let Some(unknown) = topics.iter().find(|name| !offsets.iter().any(|(topic, _)| topic == *name)) {
        find_topic(cluster, unknown).await?;
        return Err(ClientError::NoOffsets { group: name.to_owned(), topic: unknown.clone() });
    }
    if is_share {
        return delete_share_offsets(cluster, name, topics).await;
    }
    let positions = offsets.into_iter().filter(|(topic, _)| topics.contains(topic)).collect();
    delete_offsets(cluster, name, &positions).await
}

/// Reports whether the group, topic or offsets do not exist.
fn is_missing(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::GroupIdNotFound)
        || matches!(error, ClientError::NoGroup(_) | ClientError::NoTopic(_) | ClientError::NoOffsets { .. })
}

/// The error's text. Codes say what is wrong; this adds what to do about it.
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
        Some(ErrorCode::GroupIdNotFound) => ClientError::NoGroup(name.to_owned()).to_string(),
        _ => error.to_string(),
    }
}
