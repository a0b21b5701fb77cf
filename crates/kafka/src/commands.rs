//! What the admin APIs share: commands to the controller, refusals with a text, and deadlines.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::Duration;

use tailrace_kafka_wire::ErrorCode;
use tailrace_metadata::{Command, MetadataImage};

use crate::context::Context;
use crate::errors::command_code;
use tailrace_node::Caller;
use tailrace_node::ask::known_to_all;
use tailrace_node::controller::{CommandError, Executed};

/// Items of one request that are answered one by one with more bytes than they arrived in. More are refused, so that
/// an answer cannot outgrow its request without bound. Kafka's controller stops at the same number.
pub(crate) const ITEMS_MAX: usize = 10_000;

/// A part of a request that is not carried out, and why.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// More than [`ITEMS_MAX`] of `what`.
    pub(crate) fn too_many(what: &str) -> Self {
        Self::new(ErrorCode::PolicyViolation, format!("A request may name at most {ITEMS_MAX} {what}."))
    }

    /// The answer has grown so long that nothing more is put into it.
    pub(crate) fn too_long() -> Self {
        Self::new(
            ErrorCode::PolicyViolation,
            "The answer is too long already: ask for less at once.".to_owned(),
        )
    }

    /// The time that the client gave is up; nothing was done.
    pub(crate) fn timed_out() -> Self {
        Self::new(ErrorCode::RequestTimedOut, "The time given was used up before this was begun.")
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        Self::new(command_code(&error), error.to_string())
    }
}

/// Whether a command is carried out or only judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    CarryOut,
    ValidateOnly,
}

impl Mode {
    /// From the field of that name.
    pub(crate) fn validate_only(validate_only: bool) -> Self {
        if validate_only { Self::ValidateOnly } else { Self::CarryOut }
    }
}

impl Context {
    /// Puts a command to the controller. Returns the metadata that hold then, or would hold.
    ///
    /// A command that was begun is carried out whole even if its client goes away meanwhile. In a cluster this waits a little until
    /// the other nodes know of it, too, and new partitions have leaders.
    pub(crate) async fn command(
        &self,
        caller: &Caller,
        command: Command,
        mode: Mode,
    ) -> Result<Arc<MetadataImage>, Refusal> {
        match mode {
            Mode::CarryOut => self.carried_out(caller, command).await.map(|executed| executed.image),
            Mode::ValidateOnly => {
                let (node, caller) = (Arc::clone(self.node()), caller.clone());
                to_its_end(async move { node.rehearse(&caller, command).await }).await
            }
        }
    }

    /// The same, and tells what it has changed.
    pub(crate) async fn carried_out(&self, caller: &Caller, command: Command) -> Result<Executed, Refusal> {
        let (node, caller) = (Arc::clone(self.node()), caller.clone());
        let work = async move {
            let executed = node.execute(&caller, command).await?;
            known_to_all(&node, &caller, &executed).await;
            Ok(executed)
        };
        to_its_end(work).await
    }
}

/// Also if the client goes away meanwhile.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, CommandError>> + Send + 'static,
) -> Result<T, Refusal> {
    match task::spawn(work).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => {
            tracing::error!(%error, "a controller command panicked");
            Err(Refusal::new(ErrorCode::UnknownServerError, "The command failed; see the server's log."))
        }
    }
}

impl Context {
    /// Who asks, and waits for as long as `timeout_ms` says. What is begun is finished, and its outcome told: so zero
    /// and less, which ask Kafka to begin the work and not to wait for it, set no limit here.
    pub(crate) fn caller_within_ms(&self, timeout_ms: i32) -> Caller {
        match u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0) {
            Some(ms) => self.caller().within(Duration::from_millis(ms)),
            None => self.caller().clone(),
        }
    }
}

/// Refuses what would be begun too late.
pub(crate) fn in_time(caller: &Caller) -> Result<(), Refusal> {
    if caller.is_late() { Err(Refusal::timed_out()) } else { Ok(()) }
}
