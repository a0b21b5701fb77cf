//! `tailrace group reset`: sets the offsets of a group without members.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::{Failure, note};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_kafka_wire::ErrorCode;

use super::arguments::ResetArguments;
use super::scope::Scope;
use super::target::{offsets, read_file};
use super::words::members;
use crate::client::{
    ClientError, Cluster, Group, GroupKind, Position, commit_offsets, committed_offsets, find_group,
    set_share_offsets, share_offsets,
};

pub(super) async fn run(cluster: &mut Cluster, arguments: &ResetArguments) -> Result<ExitCode, Failure> {
    let named = arguments.from_file.as_deref().map(read_file).transpose()?;
    let group = find_group(cluster, &arguments.name).await?;
    // An export changes nothing, so the group may have members.
    if !arguments.export {
        check_idle(group.as_ref())?;
    }
    let is_share = group.as_ref().is_some_and(|group| group.kind == GroupKind::Share);
    let current = match &group {
        None => BTreeMap::new(),
        Some(group) if is_share => {
            let offsets = share_offsets(cluster, &group.id).await?.into_iter();
            offsets.map(|(position, offset)| (position, offset.start)).collect()
        }
        Some(group) => committed_offsets(cluster, &group.id).await?,
    };
    let scope = match &named {
        Some(named) => Scope::named(cluster, named.keys()).await?,
        None => Scope::of(cluster, arguments, current.keys()).await?,
    };
    if scope.positions.is_empty() {
        return Err(
            format!("group '{}' has no offsets to set; name topics with --topic", arguments.name).into()
        );
    }
    let wanted = offsets(cluster, arguments, &scope, &current, named.as_ref()).await?;
    if arguments.export {
        return export(&wanted);
    }
    if arguments.execute {
        let set = if is_share {
            set_share_offsets(cluster, &arguments.name, &wanted).await
        } else {
            commit_offsets(cluster, &arguments.name, &wanted).await
        };
        set.map_err(|error| explained(error, &arguments.name))?;
    }
    show(arguments, &current, &wanted)?;
    if !arguments.execute && arguments.common.output == Output::Text {
        note("nothing was changed; --execute does it");
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if the group has members. A member would go on from its own position, and its next commit would undo
/// the reset.
fn check_idle(group: Option<&Group>) -> Result<(), Failure> {
    match group {
        Some(group) if !group.is_idle() => Err(format!(
            "group '{}' is {} with {}: its offsets can only be set while it has no members; stop its consumers first",
            group.id,
            group.state,
            members(group.members.len())
        )
        .into()),
        _ => Ok(()),
    }
}

/// The error's text. The server's message says little if a member joined meanwhile.
fn explained(error: ClientError, group: &str) -> Failure {
    let joined = [ErrorCode::UnknownMemberId, ErrorCode::NonEmptyGroup, ErrorCode::RebalanceInProgress];
    match error.code() {
        Some(code) if joined.contains(&code) => format!(
            "a consumer joined group '{group}' in the meantime; stop its consumers first ({})",
            code.name()
        )
        .into(),
        _ => error.into(),
    }
}

fn export(wanted: &BTreeMap<Position, i64>) -> Result<ExitCode, Failure> {
    let line = |((topic, partition), offset): (&Position, &i64)| format!("{topic},{partition},{offset}\n");
    print(&wanted.iter().map(line).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn show(
    arguments: &ResetArguments,
    current: &BTreeMap<Position, i64>,
    wanted: &BTreeMap<Position, i64>,
) -> Result<(), Failure> {
    match arguments.common.output {
        Output::Json => {
            let partitions = wanted.iter().map(|(position, offset)| {
                json!({
                    "topic": position.0,
                    "partition": position.1,
                    "old_offset": current.get(position),
                    "new_offset": offset,
                })
            });
            print_json(&json!({
                "group": arguments.name,
                "executed": arguments.execute,
                "partitions": partitions.collect::<Vec<_>>(),
            }))
        }
        Output::Text => {
            let mut table = Table::new(0, &["TOPIC", "PARTITION", "OLD", "NEW"]);
            for (position, offset) in wanted {
                let old = current.get(position).map_or_else(|| "-".to_owned(), i64::to_string);
                table.row(vec![position.0.clone(), position.1.to_string(), old, offset.to_string()]);
            }
            print(&table.render())
        }
    }
}
