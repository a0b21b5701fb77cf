//! A partition as the shell holds it: the deterministic core behind one short lock (`core`), what readers need beside it, and
//! those who wait for its high watermark or its last stable offset (`waiting`).

mod core;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use tailrace_log::LogConfig;
use tailrace_replication::raft::{ChunkRequest, Members, Replica};
use tailrace_replication::{PartitionReader, Policy};
use tailrace_types::{LeaderEpoch, Offset, RaftGroup, ReplicaId, TimestampMs, TopicPartition};

use self::core::CoreLock;
pub use self::core::{Core, Ending};
use self::waiting::Waiting;
pub use self::waiting::{Awaited, WaitOutcome};
use crate::cluster::{Links, Settled, Throttled};
use crate::dirty::DirtyPages;
use crate::partitions::flusher::Flusher;
use crate::partitions::inbox::Inbox;
use crate::partitions::sleep::Sleep;
use crate::partitions::workers::Claim;
use crate::taps::TapQueues;
use tailrace_peers::PeerError;
use tailrace_runtime::disk::ServerDisk;

/// Why a partition cannot be used at all.
#[derive(Clone, Debug)]
pub struct Offline {
    /// What was found, with file and position where known.
    pub reason: Arc<str>,
    /// The one of several replicas that was to be opened.
    pub(crate) replica: Option<ReplicaId>,
    /// It is damaged, or gone: another one may begin anew in its place.
    pub(crate) is_lost: bool,
    /// There was no room for what opening writes: it is tried again when there is.
    pub(crate) waits_for_room: bool,
}

/// What all partitions of a node work with.
#[derive(Clone)]
pub struct PartitionContext {
    pub(crate) links: Arc<Links>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) dirty: Arc<DirtyPages>,
}

/// One partition that is online.
pub struct PartitionHandle {
    /// Which one it is.
    pub id: TopicPartition,
    pub(crate) group: RaftGroup,
    core: CoreLock,
    /// Its log and what of it counts, without a lock.
    pub reader: PartitionReader<ServerDisk>,
    waiting: Waiting,
    /// So that it is in the flusher's queue, or with one of its threads, at most once.
    pub(super) syncs: Claim,
    /// What its replica has still to be stepped with.
    pub(crate) inbox: Inbox,
    /// Whether its replica sleeps.
    pub(crate) sleep: Sleep,
    /// The epoch in which this node leads it, or -1.
    leads: AtomicI32,
    /// It is one of several replicas, or was once.
    replica: Option<ReplicaId>,
    /// The members that its leader has found to be as they are wanted.
    settled: Settled,
    context: PartitionContext,
    throttled: ArcSwapOption<Throttled>,
    /// Its replica is there and has no vote.
    is_new: AtomicBool,
    /// A checkpoint is wanted with the next sync.
    pub(super) checkpoint_due: AtomicBool,
    /// The epoch of this start has been begun: the first append need not take the slow road.
    pub(super) epoch_begun: AtomicBool,
    /// Log end at the last request for a checkpoint.
    pub(super) checkpointed_at: AtomicI64,
    /// The last one found no room on the disk.
    pub(super) checkpoint_unwritten: AtomicBool,
    halted: AtomicBool,
    policy: Mutex<Policy>,
    /// What is still to be read for those who tap it.
    pub(crate) taps: TapQueues,
}

impl std::fmt::Debug for PartitionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PartitionHandle").field(&self.id).finish_non_exhaustive()
    }
}

impl PartitionHandle {
    pub(crate) fn new(id: TopicPartition, group: RaftGroup, core: Core, context: PartitionContext) -> Self {
        let reader = core.reader();
        let (log_end, policy) = (reader.log_end().get(), core.policy());
        let epoch_begun = AtomicBool::new(!core.needs_epoch());
        let leads = core.leads().unwrap_or(LeaderEpoch::UNKNOWN);
        let replica = core.as_replica().map(Replica::id);
        Self {
            id,
            group,
            core: CoreLock::new(core),
            reader,
            waiting: Waiting::default(),
            syncs: Claim::default(),
            inbox: Inbox::default(),
            sleep: Sleep::default(),
            leads: AtomicI32::new(leads.get()),
            replica,
            settled: Settled::default(),
            context,
            throttled: ArcSwapOption::empty(),
            is_new: AtomicBool::new(false),
            checkpoint_due: AtomicBool::new(false),
            epoch_begun,
            checkpointed_at: AtomicI64::new(log_end),
            checkpoint_unwritten: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            policy: Mutex::new(policy),
            taps: TapQueues::default(),
        }
    }

    /// What decides about its appends.
    pub(crate) fn policy(&self) -> Policy {
        *lock(&self.policy)
    }

    /// Takes over changed settings.
    pub(crate) async fn configure(self: &Arc<Self>, config: LogConfig, policy: Policy, now: TimestampMs) {
        *lock(&self.policy) = policy;
        self.with(|core| core.configure(config, policy, now)).await;
    }

    /// Asks another replica for a chunk of a snapshot; `None` if it has no such snapshot any more. What is throttled comes late.
    pub(crate) async fn ask_chunk(&self, request: &ChunkRequest) -> Result<Option<Bytes>, PeerError> {
        let chunk = self.context.links.ask_chunk(self.group, request).await?;
        if let Some(chunk) = chunk.as_ref().filter(|_| self.takes_slowly()) {
            self.context.links.inbound().pay(chunk.len()).await;
        }
        Ok(chunk)
    }

    /// Which of its replicas are throttled from now on.
    pub(crate) fn set_throttled(&self, throttled: Option<Arc<Throttled>>) {
        self.throttled.store(throttled);
    }

    /// What this node's replica sends to new ones is throttled.
    pub(crate) fn sends_slowly(&self) -> bool {
        let throttled = self.throttled.load();
        self.replica.zip(throttled.as_ref()).is_some_and(|(own, throttled)| throttled.sends(own.node()))
    }

    /// What this node's replica takes is throttled, and it has no vote.
    pub(crate) fn takes_slowly(&self) -> bool {
        let throttled = self.throttled.load();
        self.is_new.load(Ordering::Relaxed)
            && self
                .replica
                .zip(throttled.as_ref())
                .is_some_and(|(own, throttled)| throttled.takes(own.node()))
    }

    /// The epoch in which this node leads the partition and takes appends. `None` if another one does, or none.
    pub fn leads(&self) -> Option<LeaderEpoch> {
        let epoch = LeaderEpoch(self.leads.load(Ordering::Acquire));
        (epoch != LeaderEpoch::UNKNOWN).then_some(epoch)
    }

    /// True of one of several replicas; false of a partition that has and had one.
    pub fn is_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Its id among several replicas.
    pub(crate) fn replica(&self) -> Option<ReplicaId> {
        self.replica
    }

    /// Tells everybody who waits that the partition goes on elsewhere, or under another handle.
    pub(crate) fn retire(&self) {
        self.leads.store(LeaderEpoch::UNKNOWN.get(), Ordering::Release);
        self.awake(true);
        self.sleep.set_gone();
        self.answer_committed();
        self.waiting.answer_deposed();
        self.waiting.end_asks();
        self.marks_moved();
    }

    /// The members that its leader last found to be as they are wanted.
    pub(crate) fn settled(&self) -> &Settled {
        &self.settled
    }

    fn note_sleep(&self, replica: &Replica<ServerDisk>) {
        if replica.hibernates() {
            self.sleep.begin(replica.leads().is_some(), replica.relies_on());
        } else if self.sleep.hibernates() {
            self.awake(replica.halted().is_some());
        }
    }

    /// The replica is awake. One that led in its sleep and does so no more, without a word to its members, has these woken.
    fn awake(&self, ceases: bool) {
        if self.sleep.end() && ceases {
            self.context.links.vouching().renew();
        }
        self.context.links.vouching().woke(self.group);
    }

    /// To be called before a sleeping leader is asked for something that may block.
    pub(crate) fn rouse(&self) {
        if self.sleep.hibernates() && self.leads().is_some() {
            self.inbox.wake(0);
            self.context.links.vouching().woke(self.group);
        }
    }

    /// True if the replica sleeps and must not: a node that it relies on is gone. It wakes with the next step.
    pub(crate) fn must_wake(&self) -> bool {
        let must = self.sleep.hibernates()
            && self.sleep.relies(|nodes| !self.context.links.vouching().vouch_for(nodes));
        if must {
            self.inbox.wake(0);
        }
        must
    }

    /// With what its node vouches for it while it sleeps.
    pub(crate) fn voucher(&self) -> Option<u64> {
        self.context.links.vouching().own()
    }

    /// Bytes were written for it that are not in its log yet.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.context.dirty.appended(bytes as u64);
    }

    /// The members of its group; `None` of a partition that has one replica only.
    pub(crate) async fn members(&self) -> Option<Members> {
        self.look(|core| Some(core.as_replica()?.members())).await.flatten()
    }

    /// One past the last record that each of these replicas has, of those of which it is known.
    pub async fn stored_by(&self, replicas: &[ReplicaId]) -> Vec<(ReplicaId, Offset)> {
        let stored = self.look(|core| {
            let replica = core.as_replica()?;
            let stored = |id: &ReplicaId| Some((*id, replica.stored_by(*id).ok()??));
            Some(replicas.iter().filter_map(stored).collect())
        });
        stored.await.flatten().unwrap_or_default()
    }

    /// Writing has stopped for good.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Why writing has stopped. Somebody who writes at this moment keeps the reason back until the next look.
    pub(crate) fn halted(&self) -> Option<String> {
        let reason = || self.try_look(|core| core.halted().map(str::to_owned)).flatten();
        self.is_halted().then(|| reason().unwrap_or_else(|| "stopped".to_owned()))
    }

    /// Marks the partition as no longer writable and tells everyone who waits.
    pub(crate) fn stop_waiters(&self) {
        self.halted.store(true, Ordering::Release);
        self.awake(true);
        self.answer_committed();
        self.waiting.answer_halted();
        self.waiting.end_asks();
        self.marks_moved();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section above leaves its queue consistent even if it were to panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
