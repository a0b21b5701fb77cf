//! Executes commands for other nodes, as the controller.

use std::sync::Arc;

use tailrace_metadata::{MetadataRecord, RemoteControlError};

use super::Answers;
use crate::ask::{Execute, ExecuteFor, Outcome};
use crate::caller::Caller;
use crate::controller::CommandError;
use crate::node::Node;

impl Answers for ExecuteFor {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> Outcome {
        let client = Caller::passed_on(self.user.map(Into::into), self.address);
        if let Some(refused) = node.refuses(&client, &self.command) {
            tracing::debug!(%caller, %client, command = %self.command, "refused a command that was passed on");
            return Outcome::Refused(RemoteControlError::from(&refused));
        }
        Execute(self.command).answer(node, caller).await
    }
}

impl Answers for Execute {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> Outcome {
        let command = self.0;
        let name = command.to_string();
        match node.controller.execute_here(command, node.now()).await {
            Ok(done) => {
                let text = |record: &MetadataRecord| String::from_utf8(record.encode()).unwrap_or_default();
                Outcome::Done { records: done.records.iter().map(text).collect(), end: done.end.get() }
            }
            Err(CommandError::Refused(error)) => {
                tracing::debug!(%caller, command = name, %error, "refused a command");
                Outcome::Refused(RemoteControlError::from(&error))
            }
            Err(CommandError::NotController | CommandError::Stopping) => Outcome::NotController,
            Err(CommandError::OutcomeUnknown) => Outcome::Unknown,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}
