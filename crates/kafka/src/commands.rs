//! Shared parts of the admin APIs: controller commands, refusals with a text, and deadlines.

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

/// Most items of one request that are answered with more bytes than they arrived in. Further items are
/// refused, so that the response cannot grow far beyond its request. Kafka's controller has the same limit.
pub(crate) const ITEMS_MAX: usize = 10_000;

/// The reason why a part of a request was not carried out.
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

    /// The client lacks a right. The text is Kafka's.
    pub(crate) fn unauthorized(code: ErrorCode) -> Self {
        let what = match code {
            ErrorCode::TopicAuthorizationFailed => "Topic",
            ErrorCode::GroupAuthorizationFailed => "Group",
            ErrorCode::TransactionalIdAuthorizationFailed => "Transactional Id",
            _ => "Cluster",
        };
        Self::new(code, format!("{what} authorization failed."))
    }

    /// More than [`ITEMS_MAX`] of `what`.
    pub(crate) fn too_many(what: &str) -> Self {
        Self::new(ErrorCode::PolicyViolation, format!("A request may name at most {ITEMS_MAX} {what}."))
    }

    /// The answer has reached its size limit.
    pub(crate) fn too_long() -> Self {
        Self::new(
            ErrorCode::PolicyViolation,
            "The response is already too large: ask for less in one request.".to_owned(),
        )
    }

    /// The client's deadline passed before the work started.
    pub(crate) fn timed_out() -> Self {
        Self::new(ErrorCode::RequestTimedOut, "The timeout passed before the operation started.")
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        Self::new(command_code(&error), error.to_string())
    }
}

/// Whether a command is carried out or only validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    CarryOut,
    ValidateOnly,
}

impl Mode {
    /// Converts the request field of the same name.
    pub(crate) fn validate_only(validate_only: bool) -> Self {
        if validate_only { Self::ValidateOnly } else { Self::CarryOut }
    }
}

impl Context {
    /// Submits a command to the controller. Returns the resulting metadata, or what they would be.
    ///
    /// A command that has started runs to completion even if its client disconnects. In a cluster this waits
    /// briefly until the other nodes know of the change and new partitions have leaders.
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

    /// Like [`Self::command`] with [`Mode::CarryOut`], but returns what the command changed.
    pub(crate) async fn carried_out(&self, caller: &Caller, command: Command) -> Result<Executed, Refusal> {
        let (node, caller) = (Arc::clone(self.node()), caller.clone());
        let without_right = without_right(&command);
        let work = async move {
            let executed = node.execute(&caller, command).await?;
            known_to_all(&node, &caller, &executed).await;
            Ok(executed)
        };
        to_its_end(work).await.map_err(|refusal| match refusal.code {
            ErrorCode::ClusterAuthorizationFailed => Refusal::unauthorized(without_right),
            _ => refusal,
        })
    }
}

/// Returns the code for a command to which the client has no right, as the controller finds it.
fn without_right(command: &Command) -> ErrorCode {
    match command {
        Command::CreateTopic(_)
        | Command::DeleteTopic { .. }
        | Command::CreatePartitions { .. }
        | Command::AlterTopicConfigs { .. } => ErrorCode::TopicAuthorizationFailed,
        Command::AlterGroupConfigs { .. } => ErrorCode::GroupAuthorizationFailed,
        _ => ErrorCode::ClusterAuthorizationFailed,
    }
}

/// Runs `work` to completion even if the client disconnects.
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
    /// Returns the caller with a deadline of `timeout_ms`. Work that has started is finished and its outcome
    /// reported. Zero and less, which ask Kafka not to wait for the work, therefore set no deadline.
    pub(crate) fn caller_within_ms(&self, timeout_ms: i32) -> Caller {
        match u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0) {
            Some(ms) => self.caller().within(Duration::from_millis(ms)),
            None => self.caller().clone(),
        }
    }
}

impl Context {
    /// Reports whether the client's changes of topics are limited by a quota.
    pub(crate) fn limits_mutations(&self) -> bool {
        self.node().limits_mutations(self.caller(), self.client_id())
    }

    /// Charges partitions that are about to be created or deleted (KIP-599). From the version `exceeded_from`
    /// on, they are refused if earlier ones have used the quota up. Older clients do not know the error:
    /// theirs are created or deleted, and the client is held up.
    pub(crate) fn mutate(&self, partitions: i32, exceeded_from: i16) -> Result<(), Refusal> {
        let is_strict = self.version() >= exceeded_from;
        let partitions = u64::try_from(partitions).unwrap_or(0);
        match self.node().mutated(self.caller(), self.client_id(), partitions, is_strict) {
            Ok(throttle_ms) => {
                self.throttle(throttle_ms);
                Ok(())
            }
            Err(throttle_ms) => {
                self.throttle(throttle_ms);
                let message = "The throttling quota has been exceeded.";
                Err(Refusal::new(ErrorCode::ThrottlingQuotaExceeded, message))
            }
        }
    }
}

/// Refuses work that would start after the caller's deadline.
pub(crate) fn in_time(caller: &Caller) -> Result<(), Refusal> {
    if caller.is_late() { Err(Refusal::timed_out()) } else { Ok(()) }
}
