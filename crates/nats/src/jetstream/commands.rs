//! Commands to the controller on behalf of a client.

use std::sync::Arc;

use tailrace_env::task;
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_metadata::{Command, MetadataImage};
use tailrace_node::ask::known_to_all;
use tailrace_node::controller::CommandError;

use super::asked::Asked;
use super::errors::of_command;
use super::rights::not_authorized;

/// Executes a command that creates or deletes a stream. It is charged as a change of one partition (KIP-599).
pub(super) async fn mutate(
    asked: Asked<'_>,
    command: Command,
    kind: ErrorKind,
) -> Result<Arc<MetadataImage>, ApiError> {
    if asked.server.node.mutated(asked.caller, "", 1, true).is_err() {
        return Err(ErrorKind::StreamTooManyRequests.into());
    }
    execute(asked, command, kind).await
}

/// Executes a command to its end, even if the client leaves. Returns the metadata with its effect. In a
/// cluster this waits briefly until the other nodes know of it, and a new stream has a leader.
pub(super) async fn execute(
    asked: Asked<'_>,
    command: Command,
    kind: ErrorKind,
) -> Result<Arc<MetadataImage>, ApiError> {
    let (node, caller) = (Arc::clone(&asked.server.node), asked.caller.clone());
    let work = async move {
        let executed = node.execute(&caller, command).await?;
        known_to_all(&node, &caller, &executed).await;
        Ok::<_, CommandError>(executed.image)
    };
    let outcome = task::spawn(work).await.unwrap_or_else(|error| Err(error.into()));
    outcome.map_err(|error| of_command(&error, kind))
}

/// Refuses a command by which a topic would capture subjects that the client may not, as the Kafka front
/// does: it needs READ of each new pattern, and WRITE if the server acknowledges.
pub(super) async fn check_bindings(
    asked: Asked<'_>,
    topic: &str,
    command: &Command,
    kind: ErrorKind,
) -> Result<(), ApiError> {
    let node = &asked.server.node;
    if node.rights(asked.caller).is_unlimited() {
        return Ok(());
    }
    let before = node.image();
    let after = node.rehearse(asked.caller, command.clone()).await;
    let after = after.map_err(|error| of_command(&error, kind))?;
    let of = |image: &Arc<MetadataImage>| image.topic(topic).cloned();
    let (before, after) = (of(&before), of(&after));
    let rights = node.rights(asked.caller);
    if rights.sees_change_of_bindings(before.as_deref(), after.as_deref()) {
        return Ok(());
    }
    Err(not_authorized(kind))
}
