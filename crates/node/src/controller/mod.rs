//! The controller as the shell runs it: one command at a time. A command is committed before it counts, and
//! takes effect before it is answered. A client that creates a topic may produce to it at once.
//!
//! The metadata log is a partition like others. Its leader plans commands (`here`). Every node applies what
//! is committed, in the order of the log, and brings its partitions in line with the image (`effects`).
//! `execute` finds the controller.

mod effects;
mod execute;
mod group;
mod here;
pub(crate) mod log;
mod opening;
mod stop_reason;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tailrace_env::task::{self, JoinError};
use tailrace_env::time::Instant;

use arc_swap::ArcSwap;
use tailrace_config::BrokerConfig;
use tailrace_env::sync::{Mutex, watch};
use tailrace_metadata::{Command, ControlError, Controller, MetadataImage, MetadataRecord};
use tailrace_records::BatchError;
use tailrace_replication::raft::{ProposeError, ReplicaOptions};
use tailrace_types::{Offset, ReplicaId, TimestampMs};

pub(crate) use self::execute::{Check, Checks, UNCHECKED};
pub(crate) use self::group::{GROUP, topic_partition};
use self::log::{MetadataError, OpenLog};
use self::opening::open_all;
pub(crate) use self::stop_reason::StopReason;
use crate::caller::Caller;
use crate::partitions::{AppendFailure, Ending, FollowsTopics, Opener, PartitionHandle, TopicTable};

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The controller refused it. Nothing changed.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// The metadata log could not be written. If it stopped after the write started, the command may still
    /// take effect.
    #[error("the metadata log cannot be written: {0}")]
    Append(String),
    /// The metadata log could not be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Another node is the controller, or there is none. Nothing changed.
    #[error("no controller has accepted the command")]
    NotController,
    /// The controller died, was deposed, or does not answer. The command may still take effect.
    #[error("the controller may have accepted the command, but has not reported the outcome")]
    OutcomeUnknown,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// A bug in the server: the task that executes the command panicked.
    #[error("a bug in the server: its controller panicked; see the server's log")]
    Panicked,
}

impl From<JoinError> for CommandError {
    fn from(error: JoinError) -> Self {
        if error.is_panic() { Self::Panicked } else { Self::Stopping }
    }
}

impl From<AppendFailure> for CommandError {
    fn from(failure: AppendFailure) -> Self {
        match failure {
            AppendFailure::Gone => Self::Stopping,
            AppendFailure::NotLeader | AppendFailure::TooFewReplicas => Self::NotController,
            AppendFailure::Refused(error) => Self::Append(error.to_string()),
        }
    }
}

impl From<ProposeError> for CommandError {
    fn from(error: ProposeError) -> Self {
        AppendFailure::from(error).into()
    }
}

impl From<BatchError> for CommandError {
    fn from(error: BatchError) -> Self {
        Self::Append(error.to_string())
    }
}

/// An executed command.
pub struct Executed {
    /// The records that it wrote.
    pub records: Vec<MetadataRecord>,
    /// The resulting metadata.
    pub image: Arc<MetadataImage>,
    /// One past the last record.
    pub(crate) end: Offset,
}

/// The controller, its log, and what it publishes.
pub(crate) struct ControllerShell {
    state: Arc<Mutex<Option<ControllerState>>>,
    handle: ArcSwap<PartitionHandle>,
    /// The options that the log was opened with, if it is one of several replicas.
    replica: Option<ReplicaOptions>,
    image: ArcSwap<MetadataImage>,
    topics: ArcSwap<TopicTable>,
    /// The settings last applied to the partitions.
    broker_config: ArcSwap<BrokerConfig>,
    opener: Opener,
    /// Fronts that keep state per topic.
    followers: Vec<Arc<dyn FollowsTopics>>,
    /// True while only the settings of the start are published.
    is_held: AtomicBool,
    /// Counts the changes of topics and settings.
    changes: watch::Sender<u64>,
    /// One past the last record that took effect on this node.
    applied: watch::Sender<Offset>,
    /// When the last successful barrier of [`ControllerShell::catch_up`] started.
    caught_up: Mutex<Option<Instant>>,
}

struct ControllerState {
    controller: Controller,
    /// One past the last record in the image.
    applied: Offset,
    /// Set while the known metadata must not be used yet.
    hold: Option<Hold>,
    /// Why the log could not be opened again.
    log_not_opened: Option<StopReason>,
}

/// What the metadata have to reach before this node acts on them. Until then they may be older than what it
/// has acted on before: it may already have deleted a topic that they name, and have another one of the same
/// name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    /// An offset by which everything that was committed on this node before is back.
    pub(crate) upto: Option<Offset>,
    /// A replica of the metadata log with which this node must be registered.
    pub(crate) registration: Option<ReplicaId>,
}

impl Hold {
    fn is_over(&self, image: &MetadataImage, applied: Offset) -> bool {
        let node = image.node(image.broker().node());
        self.upto.is_none_or(|upto| applied >= upto)
            && self.registration.is_none_or(|id| node.is_some_and(|node| node.registration.replica == id))
    }
}

/// A block of producer ids, reserved in the metadata log and allocated one by one.
#[derive(Debug, Default)]
pub(crate) struct ProducerIdBlock {
    next: i64,
    end: i64,
}

/// What the shell works with.
pub(crate) struct Tools {
    pub(crate) opener: Opener,
    pub(crate) followers: Vec<Arc<dyn FollowsTopics>>,
    pub(crate) hold: Hold,
}

impl ControllerShell {
    /// Opens every partition in the metadata. Blocks on the disk.
    pub(crate) fn start(log: OpenLog, tools: Tools, now: TimestampMs) -> Self {
        let Tools { opener, followers, hold } = tools;
        let OpenLog { core, controller, applied, lacks_upto: _, replica } = log;
        let handle = PartitionHandle::new(topic_partition(), GROUP, core, opener.context.clone());
        let hold = Some(hold).filter(|hold| !hold.is_over(&controller.image(), applied));
        let is_held = AtomicBool::new(hold.is_some());
        let image = if hold.is_some() { controller.emptied().image() } else { controller.image() };
        let table = open_all(&image, &opener, now);
        followers.iter().for_each(|follower| follower.follow(&table));
        Self {
            state: Arc::new(Mutex::new(Some(ControllerState {
                controller,
                applied,
                hold,
                log_not_opened: None,
            }))),
            is_held,
            handle: ArcSwap::from_pointee(handle),
            replica,
            broker_config: ArcSwap::from(Arc::clone(image.broker())),
            image: ArcSwap::from(image),
            topics: ArcSwap::from_pointee(table),
            opener,
            followers,
            changes: watch::Sender::new(0),
            applied: watch::Sender::new(applied),
            caught_up: Mutex::default(),
        }
    }

    /// Reports whether the metadata are still too incomplete to act on.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Returns a receiver that changes after every applied change of topics and settings.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns why no command can be executed until the next start. `None` if commands can be.
    pub(crate) fn halted(&self) -> Option<String> {
        self.handle.load().halted()
    }

    /// Returns the partition of the metadata log. It may be replaced later ([`ControllerShell::reopen_log`]).
    pub(crate) fn handle(&self) -> Arc<PartitionHandle> {
        self.handle.load_full()
    }

    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    /// Returns the current image, for a look. Costs less than [`ControllerShell::image`].
    pub(crate) fn image_now(&self) -> arc_swap::Guard<Arc<MetadataImage>> {
        self.image.load()
    }

    pub(crate) fn topics(&self) -> arc_swap::Guard<Arc<TopicTable>> {
        self.topics.load()
    }

    /// Validates a command without executing it (`validate_only`). Returns the image that would result.
    pub(crate) async fn rehearse(
        &self,
        caller: &Caller,
        command: Command,
    ) -> Result<Arc<MetadataImage>, CommandError> {
        let imagined = match self.state.lock().await.as_ref() {
            Some(state) => state.controller.clone(),
            None => return Err(CommandError::Stopping),
        };
        // On a worker, because copying the image takes milliseconds with many topics.
        let rehearsed = task::spawn_blocking(move || rehearsed(imagined, &command)).await?;
        rehearsed.inspect_err(|error| {
            tracing::debug!(%caller, %error, "refused a command that was only to be validated");
        })
    }

    /// Waits until everything before `end` of the metadata log has taken effect on this node.
    pub(crate) async fn applied_upto(&self, end: Offset) {
        // The channel closes only together with this shell.
        let _ = self.applied.subscribe().wait_for(|applied| *applied >= end).await;
    }

    /// Refuses commands from now on, and stops applying what is committed: no partition is opened, closed or
    /// deleted. Waits for work that has started.
    pub(crate) async fn end_commands(&self) {
        // Commands hold the state one after the other while they wait for a majority. There may be none any
        // longer.
        self.handle.load().stop_waiters();
        self.state.lock().await.take();
    }

    /// Closes the metadata log.
    pub(crate) async fn close(&self) {
        self.end_commands().await;
        // From here on nothing replaces it.
        let handle = self.handle();
        if let Err(error) = handle.close(Ending::Stopped).await {
            tracing::error!(%error, "the metadata log was not closed cleanly");
        }
    }
}

/// Returns the image that would result from a command. Blocks for milliseconds if there are many topics.
fn rehearsed(mut controller: Controller, command: &Command) -> Result<Arc<MetadataImage>, CommandError> {
    for record in controller.plan(command)? {
        controller.apply(&record).expect("records that were just planned apply");
    }
    Ok(controller.image())
}
