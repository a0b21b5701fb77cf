//! Changes by clients, as the audit log records them: what exactly changes, without secrets.
//!
//! Commands of the controller are recorded where a node executes them. What changes something without a
//! command, such as deleted records, is an [`OpenChange`] of the front.

use std::fmt::Display;
use std::sync::Arc;

use tailrace_identity::nats_accounts::jwt::{AccountClaims, DeletedAccounts};
use tailrace_metadata::{Command, ConfigAction, ConfigChange, ConfigOp, CreateTopic, Requester};

use super::audit::{DETAILS_MAX, Details, Ended, PendingChange};
use crate::caller::Caller;
use crate::controller::{CommandError, Executed};
use crate::node::Node;

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeEnd<'a> {
    /// It was made.
    Done,
    /// There was nothing to change.
    Unchanged,
    /// It was not made, with the reason.
    Refused(&'a str),
    /// It may have been made, with the reason why that is unknown.
    Unknown(&'a str),
}

/// A change by a client that takes no command of the controller. Dropping it, as when the client leaves
/// before the answer, records that its outcome is unknown.
pub struct OpenChange {
    node: Arc<Node>,
    caller: Caller,
    change: String,
    details: Vec<String>,
    details_left_out: usize,
    /// Whether the audit log bounds it.
    is_common: bool,
    is_open: bool,
}

impl OpenChange {
    /// Adds a detail. The audit log has the first ones, and the number of the others.
    pub fn add(&mut self, detail: &dyn Display) {
        if self.details.len() < DETAILS_MAX {
            self.details.push(detail.to_string());
        } else {
            self.details_left_out += 1;
        }
    }

    /// Records the change with its outcome.
    pub fn end(mut self, end: ChangeEnd<'_>) {
        self.record(end);
    }

    fn record(&mut self, end: ChangeEnd<'_>) {
        self.is_open = false;
        let (outcome, reason) = match end {
            ChangeEnd::Done => ("done", None),
            ChangeEnd::Unchanged => ("unchanged", None),
            ChangeEnd::Refused(reason) => ("refused", Some(reason)),
            ChangeEnd::Unknown(reason) => ("unknown", Some(reason)),
        };
        let access = &self.node.access;
        let details = Details { shown: std::mem::take(&mut self.details), left_out: self.details_left_out };
        let ended = Ended { caller: &self.caller, change: &self.change, details, outcome, reason };
        match self.is_common {
            true => access.audit.common_change(ended, access.now()),
            false => access.audit.ended_change(ended),
        }
    }
}

impl Drop for OpenChange {
    fn drop(&mut self) {
        if self.is_open {
            self.record(ChangeEnd::Unknown("nobody waited for its end"));
        }
    }
}

impl Node {
    /// Begins a change without a command. The caller has been asked for its right.
    pub fn open_change(self: &Arc<Self>, caller: &Caller, change: &dyn Display) -> OpenChange {
        self.begin(caller, change, false)
    }

    /// Works as [`Node::open_change`], for what ordinary clients may do, too: it takes as much room in the
    /// audit log as their logins and refusals, and no more.
    pub fn open_common_change(self: &Arc<Self>, caller: &Caller, change: &dyn Display) -> OpenChange {
        self.begin(caller, change, true)
    }

    fn begin(self: &Arc<Self>, caller: &Caller, change: &dyn Display, is_common: bool) -> OpenChange {
        let (node, caller, change) = (Arc::clone(self), caller.clone(), change.to_string());
        let (details, details_left_out) = (Vec::new(), 0);
        OpenChange { node, caller, change, details, details_left_out, is_common, is_open: true }
    }

    /// Begins to record a command. `None` for those that change nothing that anybody decides.
    pub(crate) fn begin_change(&self, caller: &Caller, command: &Command) -> Option<PendingChange<'_>> {
        match command {
            Command::AllocateProducerIds | Command::Barrier => None,
            Command::CreateTopic(create) if create.by == Requester::Broker => None,
            command => self.access.audit.change(caller, command, details(command).into()),
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
        Command::CreateTopic(create) => topic(create),
        Command::CreatePartitions { count, .. } => vec![format!("partitions {count}")],
        Command::UpdateFeatures(updates) => {
            updates.iter().map(|update| format!("{} level {}", update.name, update.level)).collect()
        }
        Command::CreateToken { renewers, .. } => {
            renewers.iter().map(|name| format!("renewer User:{name}")).collect()
        }
        // Of claims, only whose they are.
        Command::StoreAccountClaims { token } => {
            AccountClaims::read(token).map(|claims| claims.id().to_string()).into_iter().collect()
        }
        Command::DeleteAccountClaims { token } => {
            let read = DeletedAccounts::read(token).into_iter();
            read.flat_map(|deletion| deletion.accounts).map(|account| account.as_str().to_owned()).collect()
        }
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

/// Returns what a new topic is to be. Numbers of -1 are the defaults.
fn topic(create: &CreateTopic) -> Vec<String> {
    let numbers = [("partitions", create.partitions), ("replicas", create.replication_factor.into())];
    let numbers = numbers.into_iter().filter(|(_, number)| *number >= 0);
    let settings = create.configs.iter().map(|(key, value)| match value {
        Some(value) => format!("set {key} {value}"),
        None => format!("set {key}"),
    });
    numbers.map(|(what, number)| format!("{what} {number}")).chain(settings).collect()
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
