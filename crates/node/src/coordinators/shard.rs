//! The coordinator of one partition: its core behind a lock, the callers that wait for it, and its timer.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{panics, select, task, time};

use tailrace_coordination::coordinator::{
    Coordinator, Effects, Generations, Moment, Replayed, Token, TransactionalProducer,
};
use tailrace_env::sync::oneshot;
use tailrace_metadata::MetadataImage;
use tailrace_replication::{AppendError, TransactionMarker};
use tailrace_types::{HighWatermark, LeaderEpoch, TimestampMs, usize_of};

use super::CoordinatorFailure;
use super::batch::build;
use super::cores::{Loaded, NEVER, Shard, ShardState};
use super::perform::Perform;
use super::replay::{ReplayFailure, replay};
use crate::caller::Caller;
use crate::deadlines::CATCH_UP_TIMEOUT;
use crate::node::Node;
use crate::partitions::{
    AppendFailure, Awaited, NotHere, PartitionHandle, WaitOutcome, append_in_epoch, append_marker,
};
use tailrace_env::task::stopped;

/// Milliseconds after which a core that could not be loaded is retried.
const RELOAD_MS: i64 = 1000;

/// Milliseconds for which a core refuses requests after its log could not be written. It has to be loaded
/// again, from all of its log.
const REFUSED_MS: i64 = 100;

/// The same after its log turned out to be damaged, or replaying it panicked. Each attempt logs the damage or
/// the panic.
const DAMAGED_MS: i64 = 10_000;

/// An answer that is due.
#[derive(Debug)]
pub struct Pending<R>(oneshot::Receiver<R>);

impl<R> Pending<R> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The coordinator was evicted meanwhile, or the server stops.
    pub async fn reply(self) -> Result<R, CoordinatorFailure> {
        self.0.await.map_err(|_| CoordinatorFailure::Reloaded)
    }
}

impl<C: Coordinator> Loaded<C> {
    fn step(
        &mut self,
        answer: oneshot::Sender<C::Reply>,
        event: impl FnOnce(Token) -> C::Event,
        moment: &Moment<'_>,
    ) -> Effects<C> {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.waiting.insert(token, answer);
        self.core.step(event(token), moment)
    }
}

/// Answers and work that are released once the log is committed up to a point.
struct Release<C: Coordinator> {
    handle: Arc<PartitionHandle>,
    committed_at: Awaited,
    replies: Vec<(oneshot::Sender<C::Reply>, C::Reply)>,
    work: Vec<C::Work>,
}

impl<C: Perform> Shard<C> {
    /// Submits an event. Returns once it is decided and written. The event takes effect even if the caller is
    /// dropped, but not if the caller's deadline has passed when its turn comes.
    pub(super) async fn submit(
        self: &Arc<Self>,
        node: &Arc<Node>,
        caller: &Caller,
        event: impl FnOnce(Token) -> C::Event + Send + 'static,
    ) -> Result<Pending<C::Reply>, CoordinatorFailure> {
        let (answer, pending) = oneshot::channel();
        let step = move |loaded: &mut Loaded<C>, moment: &Moment<'_>| loaded.step(answer, event, moment);
        self.act(node, caller, step).await?;
        Ok(Pending(pending))
    }

    /// Submits an event if `holds` is true of the core, and of the epoch in which it was loaded, when the
    /// event's turn comes. Otherwise does nothing.
    pub(super) async fn submit_if(
        self: &Arc<Self>,
        node: &Arc<Node>,
        caller: &Caller,
        holds: impl FnOnce(&C, LeaderEpoch) -> bool + Send + 'static,
        event: impl FnOnce(Token) -> C::Event + Send + 'static,
    ) -> Result<Option<Pending<C::Reply>>, CoordinatorFailure> {
        let (answer, pending) = oneshot::channel();
        let (submitted, held) = oneshot::channel();
        let step = move |loaded: &mut Loaded<C>, moment: &Moment<'_>| {
            let holds = holds(&loaded.core, loaded.epoch);
            // The caller may be gone. Its event still takes effect.
            let _ = submitted.send(holds);
            if !holds {
                return Effects::default();
            }
            loaded.step(answer, event, moment)
        };
        self.act(node, caller, step).await?;
        Ok(held.await.unwrap_or(false).then_some(Pending(pending)))
    }

    /// Calls the core because time has passed or topics have changed.
    pub(super) async fn nudge(
        self: &Arc<Self>,
        node: &Arc<Node>,
        step: fn(&mut C, &Moment<'_>) -> Effects<C>,
    ) -> Result<(), CoordinatorFailure> {
        self.act(node, Caller::internal(), move |loaded, moment| step(&mut loaded.core, moment)).await
    }

    /// Loads the core, unless it is loaded.
    pub(super) async fn load(self: &Arc<Self>, node: &Arc<Node>) -> Result<(), CoordinatorFailure> {
        self.act(node, Caller::internal(), |_, _| Effects::default()).await
    }

    /// Loads the core if this node leads its partition, and unloads it if not.
    pub(super) async fn follow_leader(self: &Arc<Self>, here: &Arc<Node>) {
        let leads = self.handle(here).ok().and_then(|handle| handle.leads());
        if leads.is_some() {
            // Clients may wait for what the core finds in its log, without asking again.
            if self.load(here).await.is_err() {
                self.deadline.store(self.clock.now().0 + RELOAD_MS, Ordering::Release);
                self.deadline_changed.notify_one();
            }
            return;
        }
        let mut state = self.state.lock().await;
        if matches!(*state, ShardState::Loaded(_)) {
            tracing::info!(
                coordinator = self.kind.name,
                partition = self.partition,
                "another node coordinates this now"
            );
            *state = ShardState::Unloaded;
            self.deadline.store(NEVER, Ordering::Release);
        }
        self.set_panic(None);
    }

    /// Reports whether the core is in memory.
    pub(super) async fn is_loaded(&self) -> bool {
        matches!(*self.state.lock().await, ShardState::Loaded(_))
    }

    /// Looks at the core, if it is loaded and not busy.
    pub(super) fn look<T>(&self, look: impl FnOnce(&C) -> T) -> Option<T> {
        match &*self.state.try_lock().ok()? {
            ShardState::Loaded(loaded) => Some(look(&loaded.core)),
            ShardState::Unloaded | ShardState::Closed => None,
        }
    }

    /// Looks at the core and the epoch in which it was loaded, after waiting for its turn. By the time the
    /// result is used, the core may have changed, and what was seen may not be committed.
    pub(super) async fn peek<T>(&self, look: impl FnOnce(&C, LeaderEpoch) -> T) -> Option<T> {
        match &*self.state.lock().await {
            ShardState::Loaded(loaded) => Some(look(&loaded.core, loaded.epoch)),
            ShardState::Unloaded | ShardState::Closed => None,
        }
    }

    /// Appends the marker that ends a transaction, and passes it to the core. Returns the point at which it
    /// is committed.
    pub(crate) async fn append_marker(
        self: &Arc<Self>,
        node: &Arc<Node>,
        caller: &Caller,
        marker: TransactionMarker,
    ) -> Result<Awaited, MarkerFailure> {
        let (shard, node, caller) = (Arc::clone(self), Arc::clone(node), caller.clone());
        let work = async move {
            let mut state = shard.state.lock().await;
            let mut loaded = shard.take(&mut state, &node).await?;
            let appended = append_marker(&node, &caller, &loaded.handle, marker, Some(loaded.epoch)).await;
            if let Ok(appended) = &appended {
                loaded.appended_to = loaded.appended_to.max(appended.into());
                let producer = TransactionalProducer { id: marker.producer_id, epoch: marker.producer_epoch };
                let (coordinator_epoch, committed) = (marker.coordinator_epoch, marker.committed);
                // The core must accept a marker that is in its log.
                let _ = loaded.core.replay(Replayed::Marker { producer, coordinator_epoch, committed });
            }
            shard.put_back(&mut state, loaded);
            Ok((&appended.map_err(MarkerFailure::Refused)?).into())
        };
        task::spawn(work).await.unwrap_or_else(|_| Err(CoordinatorFailure::Reloaded.into()))
    }

    /// Runs one step in a task of its own, so that a client that goes away cannot leave it half done.
    async fn act(
        self: &Arc<Self>,
        node: &Arc<Node>,
        caller: &Caller,
        step: impl FnOnce(&mut Loaded<C>, &Moment<'_>) -> Effects<C> + Send + 'static,
    ) -> Result<(), CoordinatorFailure> {
        let (shard, node, caller) = (Arc::clone(self), Arc::clone(node), caller.clone());
        let (decided, wait) = oneshot::channel();
        task::spawn(async move {
            match shard.act_locked(&node, &caller, step).await {
                Ok(release) => {
                    let _ = decided.send(Ok(()));
                    release.run(&node, &shard).await;
                }
                Err(failure) => {
                    let (coordinator, partition) = (shard.kind.name, shard.partition);
                    tracing::debug!(%caller, coordinator, partition, %failure, "could not ask a coordinator");
                    let _ = decided.send(Err(failure));
                }
            }
        });
        wait.await.unwrap_or(Err(CoordinatorFailure::Reloaded))
    }

    async fn act_locked(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        step: impl FnOnce(&mut Loaded<C>, &Moment<'_>) -> Effects<C> + Send + 'static,
    ) -> Result<Release<C>, CoordinatorFailure> {
        let mut state = self.state.lock().await;
        if caller.is_late() {
            return Err(CoordinatorFailure::Late);
        }
        // Takes the core out while it steps. If anything fails, even by a panic, the core is left unloaded.
        let mut loaded = self.take(&mut state, node).await?;
        let image = node.image();
        let epoch = loaded.epoch;
        let effects = step(&mut loaded, &self.moment(&image, epoch));
        let release = self.carry_out(node, caller, &mut loaded, effects).await?;
        self.put_back(&mut state, loaded);
        Ok(release)
    }

    fn moment<'a>(&'a self, image: &'a Arc<MetadataImage>, epoch: LeaderEpoch) -> Moment<'a> {
        Moment { now: self.clock.now(), image, generations: Generations::new(epoch, &self.generations) }
    }

    async fn take(
        &self,
        state: &mut ShardState<C>,
        node: &Arc<Node>,
    ) -> Result<Box<Loaded<C>>, CoordinatorFailure> {
        match std::mem::replace(state, ShardState::Unloaded) {
            ShardState::Loaded(loaded) if loaded.handle.leads() == Some(loaded.epoch) => Ok(loaded),
            ShardState::Unloaded if self.clock.now().0 < self.refuses_until.load(Ordering::Acquire) => {
                Err(CoordinatorFailure::Unavailable(
                    "its log could not be read or written a moment ago".to_owned(),
                ))
            }
            // Dropping the senders tells the waiting callers.
            ShardState::Loaded(_) | ShardState::Unloaded => self.read(node).await,
            ShardState::Closed => {
                *state = ShardState::Closed;
                Err(CoordinatorFailure::Stopping)
            }
        }
    }

    /// Refuses requests for a while, because the log could not be written or read.
    fn rest(&self, ms: i64) {
        self.refuses_until.store(self.clock.now().0 + ms, Ordering::Release);
    }

    /// The log makes the core panic, and will do so again. Returns the reason to report.
    fn panicked(&self, panic: &str) -> String {
        self.rest(DAMAGED_MS);
        let reason = format!("a bug in the server, loading it panicked: {panic}");
        self.set_panic(Some(reason.clone()));
        reason
    }

    fn put_back(&self, state: &mut ShardState<C>, loaded: Box<Loaded<C>>) {
        let deadline = loaded.core.deadline().map_or(NEVER, |deadline| deadline.0);
        *state = ShardState::Loaded(loaded);
        if self.deadline.swap(deadline, Ordering::AcqRel) != deadline {
            self.deadline_changed.notify_one();
        }
    }

    /// Replays the log into a new core.
    async fn read(&self, node: &Arc<Node>) -> Result<Box<Loaded<C>>, CoordinatorFailure> {
        let handle = self.handle(node)?;
        let epoch = handle.leads().ok_or(CoordinatorFailure::Elsewhere)?;
        // The core treats topics that are missing in the metadata as deleted, and drops its state for them.
        let caught_up = time::timeout(CATCH_UP_TIMEOUT, node.controller.catch_up(node.now())).await;
        match caught_up {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(CoordinatorFailure::Unavailable(error.to_string())),
            Err(_) => return Err(CoordinatorFailure::Unavailable("no controller answers".to_owned())),
        }
        // The semaphore is never closed.
        let _permit = node.coordinators.loads.acquire().await;
        let (mut core, began) = ((self.kind.new)(), Instant::now());
        let source = Arc::clone(&handle);
        let bytes_max = usize_of(node.config().tailrace_decompressed_bytes_max);
        let replayed = task::spawn_blocking(move || {
            catch(move || {
                let report = replay(&mut core, &source, bytes_max)?;
                Ok::<_, ReplayFailure>((core, report))
            })
        });
        let unavailable = |reason: String| {
            tracing::error!(partition = %handle.id, %reason, "could not load a coordinator");
            CoordinatorFailure::Unavailable(reason)
        };
        let (core, report) = match replayed.await {
            Ok(Ok(Ok(replayed))) => replayed,
            Ok(Ok(Err(error))) => {
                // Only a repair, or an operator's decision, changes that.
                if error.is_damage() {
                    self.rest(DAMAGED_MS);
                }
                return Err(unavailable(error.to_string()));
            }
            Ok(Err(panic)) => return Err(unavailable(self.panicked(&panic))),
            // The task was dropped before its end.
            Err(_) => return Err(CoordinatorFailure::Stopping),
        };
        if report.records > 0 {
            tracing::info!(
                partition = %handle.id, records = report.records, skipped = report.skipped,
                ms = began.elapsed().as_millis(), "loaded a coordinator"
            );
        }
        let mut loaded = Box::new(Loaded {
            core,
            handle: Arc::clone(&handle),
            next_token: 0,
            waiting: HashMap::new(),
            epoch,
            appended_to: Awaited {
                at: HighWatermark(report.end.get()),
                epoch: handle.reader.log().epoch_at(report.end.plus(-1)).unwrap_or(epoch),
            },
        });
        let image = node.image();
        let effects = catch(|| loaded.core.loaded(&self.moment(&image, epoch)));
        let effects = effects.map_err(|panic| unavailable(self.panicked(&panic)))?;
        self.set_panic(None);
        let release = self.carry_out(node, Caller::internal(), &mut loaded, effects).await?;
        let (node, partition) = (Arc::clone(node), self.partition);
        task::spawn(async move { release.perform(&node, partition).await });
        Ok(loaded)
    }

    fn handle(&self, node: &Node) -> Result<Arc<PartitionHandle>, CoordinatorFailure> {
        let unavailable = |reason: &str| CoordinatorFailure::Unavailable(reason.to_owned());
        let topic = node.topics().by_name(self.kind.topic);
        let topic = topic.ok_or_else(|| unavailable("its topic does not exist"))?;
        topic.here(self.partition).map(Arc::clone).map_err(|absent| match absent {
            NotHere::Offline(offline) => unavailable(&offline.reason),
            NotHere::Elsewhere => CoordinatorFailure::Elsewhere,
            NotHere::NoSuchPartition => unavailable("its partition does not exist"),
        })
    }

    /// Appends the records of a step.
    async fn carry_out(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        loaded: &mut Loaded<C>,
        effects: Effects<C>,
    ) -> Result<Release<C>, CoordinatorFailure> {
        let failed = |reason: String| {
            tracing::error!(coordinator = self.kind.name, partition = self.partition, %reason, "an append failed");
            self.rest(REFUSED_MS);
            CoordinatorFailure::Unavailable(reason)
        };
        let full = || {
            tracing::warn!(
                coordinator = self.kind.name,
                partition = self.partition,
                "no space for an append"
            );
            self.rest(REFUSED_MS);
            CoordinatorFailure::Unavailable("the disk is full".to_owned())
        };
        for wanted in &effects.appends {
            // The wall clock, because people see these times in the log.
            let now = node.now();
            let batch = build(wanted, now).map_err(|error| failed(error.to_string()))?;
            let appended = append_in_epoch(node, caller, &loaded.handle, batch, loaded.epoch, now).await;
            let appended = match appended {
                Err(AppendFailure::NotLeader) => return Err(CoordinatorFailure::Elsewhere),
                // The partition resumes by itself when there is room again.
                Err(AppendFailure::Refused(AppendError::Full)) => return Err(full()),
                appended => appended.map_err(|failure| failed(format!("{failure:?}")))?,
            };
            loaded.appended_to = loaded.appended_to.max((&appended).into());
        }
        let waiting = &mut loaded.waiting;
        let addressed = |(token, reply)| Some((waiting.remove(&token)?, reply));
        Ok(Release {
            handle: Arc::clone(&loaded.handle),
            committed_at: loaded.appended_to,
            replies: effects.replies.into_iter().filter_map(addressed).collect(),
            work: effects.work,
        })
    }

    /// Calls the core when its deadline has come, until the server stops.
    pub(super) async fn run_timer(self: Arc<Self>, node: Arc<Node>) {
        let mut stopping = node.stopping.subscribe();
        loop {
            let deadline = self.deadline.load(Ordering::Acquire);
            let due = async {
                match deadline {
                    NEVER => std::future::pending().await,
                    deadline => time::sleep(self.clock.until(TimestampMs(deadline))).await,
                }
            };
            select! {
                () = stopped(&mut stopping) => return,
                () = self.deadline_changed.notified() => continue,
                () = due => {}
            }
            let ticked = self.nudge(&node, C::tick).await;
            if ticked == Err(CoordinatorFailure::Elsewhere) {
                self.deadline.store(NEVER, Ordering::Release);
            } else if ticked.is_err() {
                // The disk may be full for a while, and each attempt reads the log.
                time::sleep(FAILURE_RETRY_INTERVAL).await;
            } else if self.deadline.load(Ordering::Acquire) == deadline {
                // The core may have been called early.
                time::sleep(TICK_INTERVAL_MIN).await;
            }
        }
    }

    /// Drops the core, which tells all waiting callers that there will be no answer.
    pub(super) async fn close(&self) {
        *self.state.lock().await = ShardState::Closed;
    }
}

/// Minimum time between two calls of a core that does not change its deadline.
const TICK_INTERVAL_MIN: Duration = Duration::from_millis(5);

/// Time after which a failed core is retried when its deadline has come.
const FAILURE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Why the marker of a transaction was not written.
#[derive(Debug, thiserror::Error)]
pub enum MarkerFailure {
    /// The coordinator could not be told.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorFailure),
    /// The partition refuses the marker.
    #[error("the partition refuses the marker: {0:?}")]
    Refused(AppendFailure),
}

impl<C: Perform> Release<C> {
    async fn run(self, node: &Arc<Node>, shard: &Arc<Shard<C>>) {
        self.perform(node, shard.partition).await;
    }

    /// Waits for the commit, then answers and does the work.
    async fn perform(self, node: &Arc<Node>, partition: i32) {
        if (self.replies.is_empty() && self.work.is_empty())
            || !committed_to(&self.handle, self.committed_at).await
        {
            // Dropping the senders tells the waiting callers that the coordinator is gone.
            return;
        }
        for (answer, reply) in self.replies {
            // The client may have gone.
            let _ = answer.send(reply);
        }
        for work in self.work {
            C::perform(Arc::clone(node), partition, work).await;
        }
    }
}

/// Runs `work`. The error is the panic message. After a panic, what `work` owned is not used again.
fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panics::reason_of(&*panic).to_owned())
}

async fn committed_to(handle: &PartitionHandle, committed_at: Awaited) -> bool {
    match handle.wait_committed(committed_at) {
        None => true,
        Some(wait) => matches!(wait.await, Ok(WaitOutcome::Committed)),
    }
}
