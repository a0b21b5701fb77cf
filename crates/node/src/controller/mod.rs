//! The controller as the shell runs it: one command at a time, committed before it counts, carried out before it is answered. A
//! client that creates a topic may produce to it at once.
//!
//! The metadata log is a partition like others. Whoever leads it plans commands; every node applies what is committed, in the
//! log's order, and brings its partitions in line with the image (`effects`).

mod effects;
mod group;
pub(crate) mod log;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tailrace_config::BrokerConfig;
use tailrace_metadata::{ApplyError, Command, ControlError, Controller, MetadataImage, MetadataRecord};
use tailrace_records::BatchError;
use tailrace_replication::Appended;
use tailrace_replication::raft::{Barrier, ProposeError, ReplicaOptions};
use tailrace_types::{HighWatermark, Offset, ProducerId, ReplicaId, TimestampMs};
use tokio::sync::{Mutex, Notify, OwnedMutexGuard, watch};

use crate::ask::{Execute, ask};
use crate::node::Node;
use crate::partitions::{
    AppendFailure, Awaited, Core, Ending, FollowsTopics, Opener, PartitionHandle, TopicTable, WaitOutcome,
};
pub(crate) use group::{GROUP, topic_partition};
use log::{Change, MetadataError, OpenLog};
use tailrace_runtime::stopped;

/// How long a command waits for other nodes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two looks for a controller.
const PAUSE: Duration = Duration::from_millis(50);

/// Pause after the metadata log could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The controller refused it. Nothing changed.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// The metadata log could not be written. Nothing changed.
    #[error("the metadata log cannot be written: {0}")]
    Append(String),
    /// The metadata log could not be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Another node is the controller, or none is, or it has changed meanwhile. The command may be carried out all the same.
    #[error("no controller has taken the command")]
    NotController,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
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

/// A command that was carried out.
pub struct Executed {
    /// What it changed.
    pub(crate) records: Vec<MetadataRecord>,
    /// The metadata that hold since.
    pub image: Arc<MetadataImage>,
    /// One past the last record.
    pub(crate) end: Offset,
}

/// The controller with its log and what it publishes.
pub struct ControllerShell {
    state: Arc<Mutex<Option<State>>>,
    handle: ArcSwap<PartitionHandle>,
    /// What the log was opened with, if it is one of several replicas.
    replica: Option<ReplicaOptions>,
    image: ArcSwap<MetadataImage>,
    topics: ArcSwap<TopicTable>,
    /// The settings that the partitions were given.
    broker_config: ArcSwap<BrokerConfig>,
    opener: Opener,
    /// Those who keep something by topic.
    followers: Vec<Arc<dyn FollowsTopics>>,
    /// What is published are the settings of the start, and no more.
    is_held: AtomicBool,
    /// Counts the changes of topics and settings.
    changes: watch::Sender<u64>,
    /// One past the last record that was carried out here.
    applied: watch::Sender<Offset>,
    /// When somebody last began to wait for the newest metadata and got them.
    caught_up: Mutex<Option<Instant>>,
}

struct State {
    controller: Controller,
    /// One past the last record in the image.
    applied: Offset,
    /// What is known so far is not used yet.
    hold: Option<Hold>,
    /// There was no room to open the log anew.
    log_waits_for_room: bool,
}

/// Where the metadata have to get before this node does anything by them. Until then they may be older than what it has done by them
/// already: a topic that they name may have been deleted here, and another one made under its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    /// An offset: all that was committed here before is there again.
    pub(crate) upto: Option<Offset>,
    /// A replica of the metadata log: this node is registered with it.
    pub(crate) registration: Option<ReplicaId>,
}

impl Hold {
    fn is_over(&self, image: &MetadataImage, applied: Offset) -> bool {
        let node = image.node(image.broker().node());
        self.upto.is_none_or(|upto| applied >= upto)
            && self.registration.is_none_or(|id| node.is_some_and(|node| node.registration.replica == id))
    }
}

/// Producer ids that were reserved in the metadata log and are handed out one by one.
#[derive(Debug, Default)]
pub struct ProducerIdBlock {
    next: i64,
    end: i64,
}

/// What the shell works with.
pub(crate) struct Tools {
    pub(crate) opener: Opener,
    pub(crate) followers: Vec<Arc<dyn FollowsTopics>>,
    pub(crate) hold: Hold,
}

type Guard = OwnedMutexGuard<Option<State>>;

impl ControllerShell {
    /// Opens every partition that the metadata knows. Blocks on the disk.
    pub(crate) fn start(log: OpenLog, tools: Tools, now: TimestampMs) -> Self {
        let Tools { opener, followers, hold } = tools;
        let OpenLog { core, controller, applied, lacks_upto: _, replica } = log;
        let handle = PartitionHandle::new(topic_partition(), GROUP, core, opener.context.clone());
        let hold = Some(hold).filter(|hold| !hold.is_over(&controller.image(), applied));
        let is_held = AtomicBool::new(hold.is_some());
        let image = if hold.is_some() { controller.anew().image() } else { controller.image() };
        let table = effects::open_all(&image, &opener, now);
        followers.iter().for_each(|follower| follower.follow(&table));
        Self {
            state: Arc::new(Mutex::new(Some(State { controller, applied, hold, log_waits_for_room: false }))),
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

    /// True while the metadata are not known well enough to do anything by them.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Tells of every change of topics and settings, after it was carried out.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Why no command can be carried out until the next start, if that is so.
    pub(crate) fn halted(&self) -> Option<String> {
        self.handle.load().halted()
    }

    /// The partition of the metadata log. It may be replaced by another one ([`ControllerShell::reopen_log`]).
    pub(crate) fn handle(&self) -> Arc<PartitionHandle> {
        self.handle.load_full()
    }

    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    pub(crate) fn topics(&self) -> arc_swap::Guard<Arc<TopicTable>> {
        self.topics.load()
    }

    /// Decides about a command without carrying it out (`validate_only`). Returns the image that would hold then.
    pub async fn rehearse(&self, command: Command) -> Result<Arc<MetadataImage>, CommandError> {
        let mut imagined = match self.state.lock().await.as_ref() {
            Some(state) => state.controller.clone(),
            None => return Err(CommandError::Stopping),
        };
        // On a worker: with many topics, copying the image takes milliseconds.
        let rehearsal = tokio::task::spawn_blocking(move || {
            for record in imagined.plan(&command)? {
                imagined.apply(&record).expect("records that were just planned apply");
            }
            Ok(imagined.image())
        });
        rehearsal.await.map_err(|_| CommandError::Stopping)?
    }

    /// Carries out a command: plans it, commits it, publishes the new image, opens or deletes partitions.
    pub(crate) async fn execute(
        &self,
        command: Command,
        now: TimestampMs,
    ) -> Result<Arc<MetadataImage>, CommandError> {
        Ok(self.executed(command, now).await?.image)
    }

    /// As [`ControllerShell::execute`], here or at the node that leads the metadata log. Where no node does for the moment, this
    /// waits.
    pub async fn executed(&self, command: Command, now: TimestampMs) -> Result<Executed, CommandError> {
        let began = Instant::now();
        loop {
            let outcome = match self.handle.load().leads() {
                Some(_) => self.execute_here(command.clone(), now).await,
                None => self.execute_elsewhere(&command).await,
            };
            match outcome {
                Err(CommandError::NotController) if began.elapsed() < PATIENCE && !self.is_alone() => {
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    fn is_alone(&self) -> bool {
        self.opener.context.links.peers().is_none()
    }

    async fn execute_elsewhere(&self, command: &Command) -> Result<Executed, CommandError> {
        let links = &self.opener.context.links;
        let leader = links.leader(GROUP).ok_or(CommandError::NotController)?;
        let node = leader.replica.node();
        let outcome = ask(links, node, Execute(command.clone())).await.map_err(|error| {
            tracing::debug!(%node, %error, "a command could not be passed on");
            CommandError::NotController
        })?;
        let (records, end) = outcome.into_records()?;
        match tokio::time::timeout(PATIENCE, self.applied_upto(end)).await {
            Ok(()) => Ok(Executed { records, image: self.image(), end }),
            Err(_) => Err(CommandError::NotController),
        }
    }

    /// Waits until this node knows all metadata that were committed before this was called: what the image lacks then was deleted, or
    /// never was. A node that was started again, or cut off, may know old ones for a while.
    ///
    /// # Errors
    /// No controller answers.
    pub(crate) async fn catch_up(&self, now: TimestampMs) -> Result<(), CommandError> {
        if self.is_alone() {
            return Ok(());
        }
        let asked = Instant::now();
        let mut last = self.caught_up.lock().await;
        // Somebody else began after this was called, and has what he waited for.
        if last.is_some_and(|began| began >= asked) {
            return Ok(());
        }
        let began = Instant::now();
        match self.executed(Command::Barrier, now).await {
            // A controller of an earlier build does not know it. Any command will do that a majority has to agree to.
            Err(CommandError::Append(_)) => self.executed(Command::AllocateProducerIds, now).await?,
            outcome => outcome?,
        };
        *last = Some(began);
        Ok(())
    }

    /// Waits until everything before `end` of the metadata log is carried out here.
    pub(crate) async fn applied_upto(&self, end: Offset) {
        // It is closed with this shell only.
        let _ = self.applied.subscribe().wait_for(|applied| *applied >= end).await;
    }

    /// Carries out a command on the node that leads the metadata log.
    pub(crate) async fn execute_here(
        &self,
        command: Command,
        now: TimestampMs,
    ) -> Result<Executed, CommandError> {
        if command == Command::Barrier {
            return self.barrier_here(now).await;
        }
        let mut guard = Arc::clone(&self.state).lock_owned().await;
        self.settle(&mut guard, now).await?;
        let (guard, planned) = self.plan_and_append(guard, command, now).await?;
        let (records, awaited) = planned?;
        let mut guard = guard;
        if let Some(awaited) = awaited {
            self.committed(awaited).await?;
        }
        self.apply_committed(&mut guard, now).await?;
        // Still under the controller's lock: effects happened in the order of their commands.
        let state = guard.as_ref().ok_or(CommandError::Stopping)?;
        Ok(Executed { records, image: state.controller.image(), end: state.applied })
    }

    /// Has a majority confirm that this node leads the metadata log, and takes over all that was committed by then. Commands are not kept
    /// waiting meanwhile.
    async fn barrier_here(&self, now: TimestampMs) -> Result<Executed, CommandError> {
        let handle = self.handle();
        handle.leads().ok_or(CommandError::NotController)?;
        handle.rouse();
        if let Some(barrier) = begin_barrier(&handle, now).await? {
            match tokio::time::timeout(PATIENCE, handle.wait_barrier(&barrier)).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return Err(CommandError::NotController),
            }
        }
        let mut guard = Arc::clone(&self.state).lock_owned().await;
        self.apply_committed(&mut guard, now).await?;
        let state = guard.as_ref().ok_or(CommandError::Stopping)?;
        Ok(Executed { records: Vec::new(), image: state.controller.image(), end: state.applied })
    }

    /// Commands are planned against all that is in the log: also what nobody waited for to the end.
    async fn settle(&self, guard: &mut Guard, now: TimestampMs) -> Result<(), CommandError> {
        let handle = self.handle();
        let epoch = handle.leads().ok_or(CommandError::NotController)?;
        let end = handle.reader.log_end().offset();
        let last = handle.reader.log().epoch_at(end.plus(-1)).unwrap_or(epoch);
        self.committed(Awaited { at: HighWatermark(end.get()), epoch: last }).await?;
        self.apply_committed(guard, now).await
    }

    async fn committed(&self, awaited: Awaited) -> Result<(), CommandError> {
        let Some(wait) = self.handle().wait_committed(awaited) else { return Ok(()) };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(Ok(WaitOutcome::Committed)) => Ok(()),
            Ok(Ok(WaitOutcome::Halted)) => Err(CommandError::Append(self.halted().unwrap_or_default())),
            Ok(Ok(WaitOutcome::Deposed) | Err(_)) | Err(_) => Err(CommandError::NotController),
        }
    }

    /// On a worker: an append may block on the disk.
    async fn plan_and_append(
        &self,
        guard: Guard,
        command: Command,
        now: TimestampMs,
    ) -> Result<(Guard, Result<(Vec<MetadataRecord>, Option<Awaited>), CommandError>), CommandError> {
        let handle = self.handle();
        let work = move || {
            let planned = match guard.as_ref() {
                Some(state) => plan_and_append(&state.controller, &handle, &command, now),
                None => Err(CommandError::Stopping),
            };
            (guard, planned)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| CommandError::Stopping)
    }

    /// Follows the metadata log for as long as the server runs: also what other nodes have decided.
    pub(crate) async fn follow(&self, node: &Node) {
        let mut stopping = node.stopping.subscribe();
        let moved = Arc::new(Notify::new());
        loop {
            let handle = self.handle();
            handle.register_fetch(&moved);
            let followed = {
                let mut guard = Arc::clone(&self.state).lock_owned().await;
                self.apply_committed(&mut guard, node.now()).await
            };
            let wait = async {
                if let Err(error) = followed {
                    tracing::error!(%error, "the metadata log cannot be followed");
                    tokio::time::sleep(RETRY).await;
                } else if Arc::ptr_eq(&handle, &self.handle.load()) {
                    // One that is replaced from now on wakes those who wait.
                    moved.notified().await;
                }
            };
            tokio::select! {
                () = wait => {}
                () = stopped(&mut stopping) => return,
            }
        }
    }

    /// Takes over everything that is committed and not in the image yet.
    async fn apply_committed(&self, guard: &mut Guard, now: TimestampMs) -> Result<(), CommandError> {
        let Some(state) = guard.as_mut() else { return Err(CommandError::Stopping) };
        let reader = self.handle.load().reader.clone();
        if reader.high_watermark().offset() <= state.applied {
            return Ok(());
        }
        let from = state.applied.max(reader.log_start());
        let read = move || log::committed_from(&reader, from).collect::<Result<Vec<_>, _>>();
        let changes = tokio::task::spawn_blocking(read).await.map_err(|_| CommandError::Stopping)??;
        let (mut controller, mut applied) = (state.controller.clone(), state.applied);
        let mut of_note = false;
        for change in changes {
            match change {
                Change::Reset => controller = controller.anew(),
                Change::Record(record, offset) => {
                    of_note |= !matches!(record, MetadataRecord::ProducerIds { .. });
                    apply(&mut controller, &record, offset)?;
                }
                Change::Upto(next) => applied = next,
            }
        }
        let image = controller.image();
        let was_held = state.hold.is_some();
        let hold = state.hold.take().filter(|hold| !hold.is_over(&image, applied));
        let is_held = hold.is_some();
        (state.controller, state.applied, state.hold) = (controller, applied, hold);
        if is_held {
            return Ok(());
        }
        if was_held {
            let (opener, image) = (self.opener.clone(), Arc::clone(&image));
            let swept = tokio::task::spawn_blocking(move || opener.remove_strays(&image)).await;
            swept.map_err(|_| CommandError::Stopping)?;
            self.is_held.store(false, Ordering::Release);
            of_note = true;
        }
        self.image.store(Arc::clone(&image));
        self.carry_out(&image, now).await;
        self.applied.send_replace(applied);
        if of_note {
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }

    /// Hands out a producer id that no other producer has, now or later.
    pub async fn next_producer_id(
        &self,
        block: &Mutex<ProducerIdBlock>,
        now: TimestampMs,
    ) -> Result<ProducerId, CommandError> {
        let mut block = block.lock().await;
        if block.next == block.end {
            let executed = self.executed(Command::AllocateProducerIds, now).await?;
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

    /// Closes the metadata log; commands are refused from now on.
    pub(crate) async fn close(&self) {
        // Commands keep the state while they wait for a majority, one after the other; there may be none any more.
        self.handle.load().stop_waiters();
        self.state.lock().await.take();
        // From here on nobody replaces it.
        let handle = self.handle();
        if let Err(error) = handle.close(Ending::Stopped).await {
            tracing::error!(%error, "the metadata log was not closed cleanly");
        }
    }
}

fn apply(controller: &mut Controller, record: &MetadataRecord, offset: Offset) -> Result<(), CommandError> {
    let applied: Result<(), ApplyError> = controller.apply(record);
    Ok(applied.map_err(|error| MetadataError::Apply { offset, error })?)
}

/// On a worker: an entry of the log is synced. `None` where the log has one replica, which is a majority of itself.
async fn begin_barrier(
    handle: &Arc<PartitionHandle>,
    now: TimestampMs,
) -> Result<Option<Barrier>, CommandError> {
    let begin = move |core: &mut Core| core.replica().map(|replica| replica.begin_barrier(now)).transpose();
    Ok(handle.with_on_worker(begin).await.ok_or(CommandError::Stopping)??)
}

fn plan_and_append(
    controller: &Controller,
    handle: &Arc<PartitionHandle>,
    command: &Command,
    now: TimestampMs,
) -> Result<(Vec<MetadataRecord>, Option<Awaited>), CommandError> {
    let records = controller.plan(command)?;
    if records.is_empty() {
        return Ok((records, None));
    }
    let awaited = append(handle, &records, now)?;
    Ok((records, Some(awaited)))
}

/// Appends records as one batch. Blocks on the disk.
fn append(
    handle: &Arc<PartitionHandle>,
    records: &[MetadataRecord],
    now: TimestampMs,
) -> Result<Awaited, CommandError> {
    let batch = log::batch_of(records, None, now)?;
    let append = |core: &mut Core| -> Result<Appended, CommandError> {
        core.leads().ok_or(CommandError::NotController)?;
        core.begin_epoch().map_err(AppendFailure::Refused)?;
        Ok(core.append(&batch.header, &batch.bytes, None, now)?)
    };
    let appended = handle.with_blocking(append).ok_or(CommandError::Stopping)??;
    Ok((&appended).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tailrace_metadata::{CreateTopic, Requester};
    use tailrace_types::TopicId;
    use tempfile::TempDir;

    use super::*;
    use crate::node::Node;
    use crate::start::RunningNode;
    use crate::testing::start_in;

    const ALL_GONE: &str = "All producer ids have been handed out.";

    /// Reserves all ids below `next`, as if they had been handed out over the ages.
    async fn reserve(node: &Node, next: i64) {
        let shell = &node.controller;
        let mut guard = Arc::clone(&shell.state).lock_owned().await;
        let first = shell.image().next_producer_id();
        let records = [MetadataRecord::ProducerIds { first, next: ProducerId(next) }];
        let (handle, now) = (shell.handle(), node.now());
        let appended = tokio::task::spawn_blocking(move || append(&handle, &records, now));
        shell.committed(appended.await.unwrap().unwrap()).await.unwrap();
        shell.apply_committed(&mut guard, now).await.unwrap();
    }

    async fn fresh_id(running: &RunningNode) -> Result<ProducerId, String> {
        let node = running.node();
        let id = node.controller.next_producer_id(&node.producer_ids, node.now()).await;
        id.map_err(|error| error.to_string())
    }

    /// Two blocks are left, and the server is started anew after half of the first: what was reserved is gone, and no id
    /// comes twice, or after the last.
    #[tokio::test(flavor = "multi_thread")]
    async fn producer_ids_end_and_never_come_again() {
        let folder = TempDir::new().unwrap();
        let mut ids = BTreeSet::new();
        let first = start_in(&folder, &[]).await;
        reserve(first.node(), i64::MAX - 2000).await;
        for _ in 0..500 {
            assert!(ids.insert(fresh_id(&first).await.unwrap()));
        }
        assert_eq!(first.stop().await, 0);

        let second = start_in(&folder, &[]).await;
        for _ in 0..1000 {
            assert!(ids.insert(fresh_id(&second).await.unwrap()), "an id came twice");
        }
        assert_eq!(ids.first(), Some(&ProducerId(i64::MAX - 2000)));
        assert_eq!(ids.last(), Some(&ProducerId(i64::MAX - 1)));
        for _ in 0..3 {
            assert_eq!(fresh_id(&second).await.unwrap_err(), ALL_GONE);
        }
        assert_eq!(second.stop().await, 0);
        let third = start_in(&folder, &[]).await;
        assert_eq!(fresh_id(&third).await.unwrap_err(), ALL_GONE);
        assert_eq!(third.node().image().next_producer_id(), ProducerId(i64::MAX));
    }

    /// On the node that is the controller, and on one that asks it.
    #[tokio::test(flavor = "multi_thread")]
    async fn who_waits_for_the_newest_metadata_has_them_and_reserves_nothing() {
        let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let first = start_in(&folders[0], &[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
        let seed = first.addresses().unwrap().cluster.unwrap().to_string();
        let own = [("node.id", "2"), ("cluster.listen", "127.0.0.1:0"), ("tailrace.cluster.seeds", &seed)];
        let second = start_in(&folders[1], &own).await;
        for number in 0..5 {
            let (made, now) = (&first.node().controller, first.node().now());
            let (name, id) = (format!("topic-{number}"), TopicId([number + 1; 16]));
            let create = CreateTopic::with_defaults(&name, id, now, Requester::Client);
            let unreserved = made.image().next_producer_id();
            made.execute(Command::CreateTopic(create), now).await.unwrap();
            for running in [&second, &first] {
                let node = running.node();
                node.controller.catch_up(node.now()).await.unwrap();
                let image = node.image();
                assert!(image.topic_by_id(id).is_some(), "{number}");
                assert_eq!(image.next_producer_id(), unreserved);
            }
        }
        second.stop().await;
        first.stop().await;
    }

    /// Also a node that only follows is slowed down when the disk cannot keep up.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_follower_writes_counts_as_dirty() {
        let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let first = start_in(&folders[0], &[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
        let seed = first.addresses().unwrap().cluster.unwrap().to_string();
        let own = [("node.id", "2"), ("cluster.listen", "127.0.0.1:0"), ("tailrace.cluster.seeds", &seed)];
        let second = start_in(&folders[1], &own).await;
        let node = second.node();
        node.controller.catch_up(node.now()).await.unwrap();
        let (before, end) = (node.dirty.appended_bytes(), node.controller.handle().reader.log_end());
        let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
        let (leader, now) = (&first.node().controller, node.now());
        leader.execute(Command::CreateTopic(create), now).await.unwrap();
        node.controller.catch_up(node.now()).await.unwrap();
        assert!(node.controller.handle().reader.log_end() > end, "it has taken the records over");
        assert!(node.dirty.appended_bytes() > before);
        second.stop().await;
        first.stop().await;
    }

    /// A command that waits for a majority keeps the others waiting, and all of them the end of the server, where there is none any more.
    #[tokio::test(flavor = "multi_thread")]
    async fn closing_ends_commands_that_wait_for_a_majority() {
        let folder = TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let shell = &running.node().controller;
        let guard = Arc::clone(&shell.state).lock_owned().await;
        let beyond = HighWatermark(shell.handle().reader.log_end().offset().get() + 1);
        let epoch = shell.handle().leads().unwrap();
        let waiting = async {
            let outcome = shell.committed(Awaited { at: beyond, epoch }).await;
            drop(guard);
            outcome
        };
        let both = async { tokio::join!(waiting, shell.close()) };
        let (outcome, ()) = tokio::time::timeout(PATIENCE / 2, both).await.expect("it closes");
        assert!(outcome.is_err());
        running.stop().await;
    }
}
