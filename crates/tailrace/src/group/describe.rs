//! `tailrace group describe`.

use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::units::runs;

use super::arguments::DescribeArguments;
use super::words::members;
use crate::client::{
    Assignment, ClientError, Cluster, Group, Member, describe_group, find_group, list_groups,
};

pub(super) async fn run(cluster: &mut Cluster, arguments: &DescribeArguments) -> Result<ExitCode, Failure> {
    let groups = chosen(cluster, &arguments.names).await?;
    match arguments.common.output {
        Output::Json => print_json(&groups.iter().map(json_of).collect::<Vec<_>>())?,
        Output::Text => print(&groups.iter().map(text_of).collect::<Vec<_>>().join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the groups of these names, or all groups.
pub(super) async fn chosen(cluster: &mut Cluster, names: &[String]) -> Result<Vec<Group>, Failure> {
    let mut groups = Vec::new();
    for name in names {
        groups.push(existing(cluster, name).await?);
    }
    if names.is_empty() {
        for listed in list_groups(cluster).await? {
            // A group may be deleted meanwhile.
            groups.extend(describe_group(cluster, &listed).await?);
        }
    }
    Ok(groups)
}

/// Returns a group that must exist.
async fn existing(cluster: &mut Cluster, id: &str) -> Result<Group, Failure> {
    let found = find_group(cluster, id).await?;
    Ok(found.ok_or_else(|| ClientError::NoGroup(id.to_owned()))?)
}

fn json_of(group: &Group) -> Value {
    let member = |member: &Member| {
        json!({
            "member_id": member.id,
            "instance_id": member.instance,
            "rack": member.rack,
            "client_id": member.client_id,
            "host": member.host,
            "epoch": member.epoch,
            "topics": member.topics,
            "pattern": member.pattern,
            "assignment": member.assignment,
            "target_assignment": member.target,
        })
    };
    json!({
        "group": group.id,
        "type": group.kind.to_string(),
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": group.members.iter().map(member).collect::<Vec<_>>(),
    })
}

fn text_of(group: &Group) -> String {
    let mut facts = vec![group.kind.to_string(), group.state.clone(), members(group.members.len())];
    if !group.assignor.is_empty() {
        facts.push(format!("assignor {}", group.assignor));
    }
    if let Some((epoch, assigned)) = group.epoch.zip(group.assignment_epoch) {
        facts.push(format!("epoch {epoch}, assigned in {assigned}"));
    }
    facts.push(format!("coordinator {}", group.coordinator));
    let head = format!("{}  ({})\n", group.id, facts.join(", "));
    if group.members.is_empty() {
        return head;
    }
    let mut table = Table::new(2, &["MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "ASSIGNED"]);
    for member in &group.members {
        table.row(vec![
            member.id.clone(),
            member.instance.clone().unwrap_or_else(|| "-".to_owned()),
            member.client_id.clone(),
            member.host.clone(),
            member.epoch.map_or_else(|| "-".to_owned(), |epoch| epoch.to_string()),
            assigned(&member.assignment),
        ]);
    }
    head + &table.render()
}

/// `orders:0-2,5 audit:0`.
fn assigned(assignment: &Assignment) -> String {
    let topics = assignment.iter().filter(|(_, partitions)| !partitions.is_empty());
    let topics = topics.map(|(topic, partitions)| format!("{topic}:{}", runs(partitions)));
    let text = topics.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "-".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_short() {
        let assignment = Assignment::from([
            ("a".to_owned(), vec![0, 1, 2, 5]),
            ("b".to_owned(), vec![7]),
            ("c".to_owned(), vec![]),
        ]);
        assert_eq!(assigned(&assignment), "a:0-2,5 b:7");
        assert_eq!(assigned(&Assignment::new()), "-");
    }
}
