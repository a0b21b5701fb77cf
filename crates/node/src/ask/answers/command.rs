//! Commands, as the controller carries them out for another node.

use std::sync::Arc;

use tailrace_metadata::{MetadataRecord, RemoteControlError};

use super::Answers;
use crate::ask::{Execute, Outcome};
use crate::controller::CommandError;
use crate::node::Node;

impl Answers for Execute {
    async fn answer(self, node: &Arc<Node>) -> Outcome {
        match node.controller.execute_here(self.0, node.now()).await {
            Ok(done) => {
                let text = |record: &MetadataRecord| String::from_utf8(record.encode()).unwrap_or_default();
                Outcome::Done { records: done.records.iter().map(text).collect(), end: done.end.get() }
            }
            Err(CommandError::Refused(error)) => Outcome::Refused(RemoteControlError::from(&error)),
            Err(CommandError::NotController | CommandError::Stopping) => Outcome::NotController,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}
