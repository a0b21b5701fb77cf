//! Changes by clients, as the audit log records them: what exactly changes, without secrets.

use std::fmt::Display;

use tailrace_metadata::{Command, ConfigAction, ConfigChange, ConfigOp, Requester};

use super::audit::PendingChange;
use crate::caller::Caller;
use crate::controller::{CommandError, Executed};
use crate::node::Node;

impl Node {
    /// Records in the audit log that a client has changed something for good without a command of the
    /// controller, such as deleted records.
    pub fn record_change(&self, caller: &Caller, change: &dyn Display) {
        if let Some(change) = self.access.audit.change(caller, change, Vec::new()) {
            change.finish();
        }
    }

    /// Begins to record a command. `None` for those that change nothing that anybody decides.
    pub(crate) fn begin_change(&self, caller: &Caller, command: &Command) -> Option<PendingChange<'_>> {
        match command {
            Command::AllocateProducerIds | Command::Barrier => None,
            Command::CreateTopic(create) if create.by == Requester::Broker => None,
            command => self.access.audit.change(caller, command, details(command)),
        }
    }
}

/// Records how a command ended.
pub(crate) async fn end_change(change: Option<PendingChange<'_>>, outcome: &Result<Executed, CommandError>) {
    let Some(change) = change else { return };
    match outcome {
        Ok(executed) if executed.records.is_empty() => change.ended("unchanged", None).await,
        Ok(_) => change.ended("done", None).await,
        Err(error @ (CommandError::Append(_) | CommandError::OutcomeUnknown | CommandError::Panicked)) => {
            change.ended("unknown", Some(error.to_string())).await;
        }
        // The reason may quote a value.
        Err(CommandError::Refused(_)) => change.ended("refused", None).await,
        Err(error) => change.ended("refused", Some(error.to_string())).await,
    }
}

/// Returns what a command changes. Settings of the broker may be secrets: of them, and of credentials, no
/// value is shown.
fn details(command: &Command) -> Vec<String> {
    match command {
        Command::CreateAcls(acls) | Command::DeleteAcls(acls) => {
            acls.iter().map(ToString::to_string).collect()
        }
        Command::AlterTopicConfigs { change, .. } | Command::AlterGroupConfigs { change, .. } => {
            settings(change, true)
        }
        Command::AlterBrokerConfigs { change, .. } => settings(change, false),
        Command::CreatePartitions { count, .. } => vec![format!("partitions {count}")],
        Command::ReassignPartition { nodes: Some(nodes), .. } => {
            vec![format!("nodes {:?}", nodes.iter().map(|node| node.0).collect::<Vec<_>>())]
        }
        Command::AlterClientQuota { set, remove, .. } => {
            let set = set.iter().map(|(key, limit)| format!("set {} {}", key.name(), limit.get()));
            set.chain(remove.iter().map(|key| format!("delete {}", key.name()))).collect()
        }
        _ => Vec::new(),
    }
}

fn settings(change: &ConfigChange, shows_values: bool) -> Vec<String> {
    let one = |action: &str, key: &str, value: &Option<String>| match value {
        Some(value) if shows_values => format!("{action} {key} {value}"),
        _ => format!("{action} {key}"),
    };
    match change {
        ConfigChange::Replace(all) => all.iter().map(|(key, value)| one("set", key, value)).collect(),
        ConfigChange::Stream(all) => {
            all.iter().map(|(key, value)| one("set", key, &Some(value.clone()))).collect()
        }
        ConfigChange::Incremental(changes) => {
            let text = |ConfigOp { key, action, value }: &ConfigOp| {
                let action = match action {
                    ConfigAction::Set => "set",
                    ConfigAction::Delete => "delete",
                    ConfigAction::Append => "append",
                    ConfigAction::Subtract => "subtract",
                };
                one(action, key, value)
            };
            changes.iter().map(text).collect()
        }
    }
}
