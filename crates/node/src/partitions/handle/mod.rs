//! A partition as the shell holds it: the deterministic core behind one short lock, and what readers need
//! beside it.
//!
//! - `lock`: the core and its lock. `core`: how it is changed, and what follows from a change.
//! - `waiters`: the queues of waiters for its marks. `waiting`: how they wait, and are answered.
//! - `waking`: when its replica sleeps and wakes. `replicas`: what it knows about the other replicas.

mod core;
mod lock;
mod replicas;
#[cfg(test)]
mod tests;
mod waiters;
mod waiting;
mod waking;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use parking_lot::Mutex;
use tailrace_records::Validated;
use tailrace_replication::raft::{ChunkRequest, Replica};
use tailrace_replication::{Appended, PartitionReader, Policy};
use tailrace_types::{LeaderEpoch, RaftGroup, ReplicaId, TopicPartition};

pub(crate) use self::core::Ending;
pub use self::lock::Core;
use self::lock::CoreLock;
use self::waiters::Waiting;
pub use self::waiters::{Awaited, WaitOutcome};
use crate::cluster::{Links, Settled, Throttled};
use crate::dirty::DirtyPages;
use crate::disk::NodeDisk;
use crate::partitions::inbox::Inbox;
use crate::partitions::sleep::Sleep;
use crate::partitions::workers::{Claim, Workers};
use crate::taps::TapQueues;
use tailrace_peers::PeerError;

/// The threads that make appends durable, for all partitions together.
pub(crate) type Flusher = Workers<PartitionHandle>;

/// What all partitions of a node share.
#[derive(Clone)]
pub(crate) struct PartitionContext {
    pub(crate) links: Arc<Links>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) dirty: Arc<DirtyPages>,
}

/// Hears of every batch that is appended by `append` and its siblings, under the partition's lock. Returns
/// false if it wants to hear no more.
pub(crate) type AppendWatch = Box<dyn Fn(&Validated, &Appended) -> bool + Send + Sync>;

/// One online partition.
pub struct PartitionHandle {
    /// Its topic and number.
    pub id: TopicPartition,
    pub(crate) group: RaftGroup,
    core: CoreLock,
    /// Its log and its watermarks, readable without a lock.
    pub reader: PartitionReader<NodeDisk>,
    waiting: Waiting,
    /// Keeps it at most once in the flusher's queue or with one of its threads.
    pub(super) syncs: Claim,
    /// The work that its replica has yet to be stepped with.
    pub(crate) inbox: Inbox,
    /// Whether its replica sleeps.
    pub(crate) sleep: Sleep,
    /// The epoch in which this node leads it, or -1.
    leads: AtomicI32,
    /// Set if it is one of several replicas, or ever was.
    replica: Option<ReplicaId>,
    /// Whether its leader has found the members to match the metadata.
    settled: Settled,
    context: PartitionContext,
    throttled: ArcSwapOption<Throttled>,
    /// Its replica has no vote yet.
    is_new: AtomicBool,
    /// The next sync has to write a checkpoint.
    pub(super) checkpoint_due: AtomicBool,
    /// The epoch of this start has begun, so the first append need not take the slow path.
    pub(super) epoch_begun: AtomicBool,
    /// Log end at the last request for a checkpoint.
    pub(super) checkpointed_at: AtomicI64,
    /// The last checkpoint did not fit on the disk.
    pub(super) checkpoint_unwritten: AtomicBool,
    halted: AtomicBool,
    /// The message of its panic, if it panicked.
    panic: OnceLock<String>,
    policy: Mutex<Policy>,
    /// Ranges that its taps have yet to read.
    pub(crate) taps: TapQueues,
    /// Hears of each append, if somebody wants that.
    watch: ArcSwapOption<AppendWatch>,
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
            panic: OnceLock::new(),
            policy: Mutex::new(policy),
            taps: TapQueues::default(),
            watch: ArcSwapOption::empty(),
        }
    }

    /// Lets `watch` hear of each append from now on, instead of an earlier one. Called under the lock.
    pub(crate) fn set_watch(&self, watch: AppendWatch) {
        self.watch.store(Some(Arc::new(watch)));
    }

    /// Tells of an append. Called under the lock.
    pub(crate) fn tell_watch(&self, batch: &Validated, appended: &Appended) {
        let watch = self.watch.load();
        if watch.as_ref().is_some_and(|watch| !watch(batch, appended)) {
            self.watch.store(None);
        }
    }

    /// Returns the policy for its appends.
    pub(crate) fn policy(&self) -> Policy {
        *self.policy.lock()
    }

    /// Asks another replica for a chunk of a snapshot. `None` if it no longer has that snapshot. The throttle
    /// may delay the result.
    pub(crate) async fn ask_chunk(&self, request: &ChunkRequest) -> Result<Option<Bytes>, PeerError> {
        let chunk = self.context.links.ask_chunk(self.group, request).await?;
        if let Some(chunk) = chunk.as_ref().filter(|_| self.takes_slowly()) {
            self.context.links.inbound().pay(chunk.len()).await;
        }
        Ok(chunk)
    }

    /// Sets which of its replicas are throttled.
    pub(crate) fn set_throttled(&self, throttled: Option<Arc<Throttled>>) {
        self.throttled.store(throttled);
    }

    /// Reports whether data that this node's replica sends to new ones is throttled.
    pub(crate) fn sends_slowly(&self) -> bool {
        let throttled = self.throttled.load();
        self.replica.zip(throttled.as_ref()).is_some_and(|(own, throttled)| throttled.sends(own.node()))
    }

    /// Reports whether data that this node's replica receives is throttled, which requires that it has no
    /// vote.
    pub(crate) fn takes_slowly(&self) -> bool {
        let throttled = self.throttled.load();
        self.is_new.load(Ordering::Relaxed)
            && self
                .replica
                .zip(throttled.as_ref())
                .is_some_and(|(own, throttled)| throttled.takes(own.node()))
    }

    /// Returns the epoch in which this node leads the partition and accepts appends. `None` if another node
    /// leads, or none.
    pub(crate) fn leads(&self) -> Option<LeaderEpoch> {
        let epoch = LeaderEpoch(self.leads.load(Ordering::Acquire));
        (epoch != LeaderEpoch::UNKNOWN).then_some(epoch)
    }

    /// Pretends that another node led in between, and this one leads again.
    #[cfg(test)]
    pub(crate) fn lead_again(&self) {
        self.leads.fetch_add(2, Ordering::AcqRel);
    }

    /// Reports whether this is one of several replicas. False for a partition that has only ever had one.
    pub(crate) fn is_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Returns its id among several replicas.
    pub(crate) fn replica(&self) -> Option<ReplicaId> {
        self.replica
    }

    /// Returns the result of its leader's last check of the members.
    pub(crate) fn settled(&self) -> &Settled {
        &self.settled
    }

    /// Counts bytes written for it that are not in its log yet.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.context.dirty.appended(bytes as u64);
    }

    /// Reports whether writing has stopped for good.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }
}
