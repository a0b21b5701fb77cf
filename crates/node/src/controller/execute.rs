//! Commands to the controller, whichever node that is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time;
use tailrace_env::time::{Duration, Instant};

use tailrace_env::sync::Mutex;
use tailrace_identity::Principal;
use tailrace_metadata::{
    ACCESS_LEVEL, Command, ControlError, MetadataImage, MetadataRecord, Requester, TopicImage,
};
use tailrace_types::{ProducerId, TimestampMs};

use super::{CommandError, ControllerShell, Executed, GROUP, ProducerIdBlock};
use crate::ask::{Execute, ExecuteFor, PeerError, RequestError, ask};
use crate::caller::Caller;
use crate::deadlines::COMMAND_TIMEOUT;
use crate::retry::Pauses;

/// Pause between two searches for a controller.
const PAUSES: Pauses = Pauses::steady(Duration::from_millis(50));

/// Asks for the rights that a command needs, by the metadata that this node has applied.
pub(crate) trait Checks: Sync {
    /// Returns the refusal of a command.
    fn refusal(&self, command: &Command) -> Option<ControlError>;

    /// Returns the topic whose change decides, too. `None` if the command alone decides.
    fn topic<'c>(&self, command: &'c Command) -> Option<&'c str>;

    /// Returns the refusal of what a command would make of that topic.
    fn refusal_of_change(
        &self,
        before: Option<&TopicImage>,
        after: Option<&TopicImage>,
    ) -> Option<ControlError>;
}

/// The rights of the client that sends a command.
pub(crate) type Check<'a> = &'a dyn Checks;

/// For commands of the node itself.
pub(crate) const UNCHECKED: Check<'static> = &Unchecked;

struct Unchecked;

impl Checks for Unchecked {
    fn refusal(&self, _command: &Command) -> Option<ControlError> {
        None
    }

    fn topic<'c>(&self, _command: &'c Command) -> Option<&'c str> {
        None
    }

    fn refusal_of_change(
        &self,
        _before: Option<&TopicImage>,
        _after: Option<&TopicImage>,
    ) -> Option<ControlError> {
        None
    }
}

/// Reports whether a command may be executed twice. A client's command may not: another client may have
/// undone it in between. Nodes repeat their own commands as often as they have to.
fn may_be_repeated(caller: &Caller, command: &Command) -> bool {
    match caller.principal() {
        Principal::Internal | Principal::Node(_) => true,
        _ => match command {
            Command::AllocateProducerIds | Command::Barrier => true,
            // An internal topic exists in the end, no matter which node created it.
            Command::CreateTopic(create) => create.by == Requester::Broker,
            _ => false,
        },
    }
}

impl ControllerShell {
    /// Executes a command: plans it, commits it, publishes the new image, opens or deletes partitions.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        caller: &Caller,
        command: Command,
        now: TimestampMs,
    ) -> Result<Arc<MetadataImage>, CommandError> {
        Ok(self.executed(caller, command, now).await?.image)
    }

    /// Like [`ControllerShell::execute`], on this node or on the leader of the metadata log. If there is no
    /// leader at the moment, waits until the caller's deadline. A command that was started completes even if
    /// the caller goes away.
    pub(crate) async fn executed(
        self: &Arc<Self>,
        caller: &Caller,
        command: Command,
        now: TimestampMs,
    ) -> Result<Executed, CommandError> {
        self.executed_if(caller, command, now, UNCHECKED).await
    }

    /// Like [`ControllerShell::executed`]. If this node executes the command, it asks for the rights again,
    /// right before: the rules may have changed while the command waited for a controller, and this node may
    /// have known old ones until then. Another node asks by itself.
    pub(crate) async fn executed_if(
        self: &Arc<Self>,
        caller: &Caller,
        command: Command,
        now: TimestampMs,
        check: Check<'_>,
    ) -> Result<Executed, CommandError> {
        let executed = self.executed_by_somebody(caller, &command, now, check).await;
        match &executed {
            // Commands of the node itself are logged where they originate.
            Ok(executed) if *caller.principal() != Principal::Internal && !executed.records.is_empty() => {
                tracing::info!(%caller, %command, "executed a command");
            }
            Err(CommandError::Refused(error)) => {
                tracing::debug!(%caller, %command, %error, "refused a command");
            }
            Ok(_) | Err(_) => {}
        }
        executed
    }

    async fn executed_by_somebody(
        self: &Arc<Self>,
        caller: &Caller,
        command: &Command,
        now: TimestampMs,
        check: Check<'_>,
    ) -> Result<Executed, CommandError> {
        // An older controller would not know the command.
        command.check_level(&self.image())?;
        let mut looks = PAUSES.until(caller.until(COMMAND_TIMEOUT));
        loop {
            let outcome = match self.handle.load().leads() {
                Some(_) => self.execute_here(command.clone(), now, check).await,
                None => self.execute_elsewhere(caller, command).await,
            };
            let is_missed = match &outcome {
                Err(CommandError::NotController) => true,
                Err(CommandError::OutcomeUnknown) => may_be_repeated(caller, command),
                _ => false,
            };
            if !is_missed || self.is_alone() || !looks.pause().await {
                return outcome;
            }
        }
    }

    /// Reports whether this node leads the metadata log.
    pub(crate) fn leads(&self) -> bool {
        self.handle.load().leads().is_some()
    }

    pub(super) fn is_alone(&self) -> bool {
        self.opener.context.links.peers().is_none()
    }

    async fn execute_elsewhere(&self, caller: &Caller, command: &Command) -> Result<Executed, CommandError> {
        let links = &self.opener.context.links;
        let leader = links.leader(GROUP).ok_or(CommandError::NotController)?;
        let node = leader.replica.node();
        let asked = match (caller.as_client(), self.image().features().cluster_level() >= ACCESS_LEVEL) {
            (Some((user, address)), true) => {
                let command = command.clone();
                ask(links, caller, node, ExecuteFor { command, user, address }).await
            }
            _ => ask(links, caller, node, Execute(command.clone())).await,
        };
        let outcome = asked.map_err(|error| {
            tracing::debug!(%node, %error, "could not pass on a command");
            match error {
                PeerError::TimedOut(_)
                | PeerError::Disconnected(_)
                | PeerError::Answer(RequestError::Failed(_)) => CommandError::OutcomeUnknown,
                _ => CommandError::NotController,
            }
        })?;
        let (records, end) = outcome.into_records()?;
        match time::timeout(COMMAND_TIMEOUT, self.applied_upto(end)).await {
            Ok(()) => Ok(Executed { records, image: self.image(), end }),
            Err(_) => Err(CommandError::OutcomeUnknown),
        }
    }

    /// Waits until this node knows all metadata committed before this call. What the image lacks then was
    /// deleted or never existed. A node that restarted or was cut off may have old metadata for a while.
    ///
    /// # Errors
    /// No controller answers.
    pub(crate) async fn catch_up(self: &Arc<Self>, now: TimestampMs) -> Result<(), CommandError> {
        if self.is_alone() {
            return Ok(());
        }
        let asked = Instant::now();
        let mut last = self.caught_up.lock().await;
        // Another caller started its barrier after this call did, so its result covers this call, too.
        if last.is_some_and(|began| began >= asked) {
            return Ok(());
        }
        let began = Instant::now();
        self.executed(Caller::internal(), Command::Barrier, now).await?;
        *last = Some(began);
        self.opener.is_up_to_date.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns a producer id that no other producer has, now or later.
    pub(crate) async fn next_producer_id(
        self: &Arc<Self>,
        caller: &Caller,
        block: &Mutex<ProducerIdBlock>,
        now: TimestampMs,
    ) -> Result<ProducerId, CommandError> {
        let mut block = block.lock().await;
        if block.next == block.end {
            let executed = self.executed(caller, Command::AllocateProducerIds, now).await?;
            let reserved = executed.records.iter().find_map(|record| match record {
                MetadataRecord::ProducerIds { first, next } => Some((first.get(), next.get())),
                _ => None,
            });
            let (next, end) = reserved.ok_or(CommandError::NotController)?;
            *block = ProducerIdBlock { next, end };
        }
        let id = block.next;
        block.next += 1;
        Ok(ProducerId(id))
    }
}
