//! A partition as the shell holds it: the deterministic core behind one short lock, and what readers need beside it.
//!
//! - `lock`: the core and its lock. `core`: how it is changed, and what follows from a change.
//! - `waiters`: those who wait for its marks. `waiting`: how they wait, and are answered.
//! - `waking`: when its replica sleeps and wakes. `replicas`: what it knows of the other replicas.

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
use tailrace_replication::raft::{ChunkRequest, Replica};
use tailrace_replication::{PartitionReader, Policy};
use tailrace_types::{LeaderEpoch, RaftGroup, ReplicaId, TopicPartition};

pub(crate) use self::core::Ending;
pub use self::lock::Core;
use self::lock::CoreLock;
pub use self::waiters::{Awaited, WaitOutcome};
use self::waiters::{Waiting, lock};
use crate::cluster::{Links, Settled, Throttled};
use crate::dirty::DirtyPages;
use crate::disk::NodeDisk;
use crate::partitions::inbox::Inbox;
use crate::partitions::sleep::Sleep;
use crate::partitions::workers::{Claim, Workers};
use crate::sync::Mutex;
use crate::taps::TapQueues;
use tailrace_peers::PeerError;

/// The threads that make appends durable, for all partitions together.
pub(crate) type Flusher = Workers<PartitionHandle>;

/// What all partitions of a node work with.
#[derive(Clone)]
pub(crate) struct PartitionContext {
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
    pub reader: PartitionReader<NodeDisk>,
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
    /// With what it panicked, if it did.
    panic: OnceLock<String>,
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
            panic: OnceLock::new(),
            policy: Mutex::new(policy),
            taps: TapQueues::default(),
        }
    }

    /// What decides about its appends.
    pub(crate) fn policy(&self) -> Policy {
        *lock(&self.policy)
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
    pub(crate) fn leads(&self) -> Option<LeaderEpoch> {
        let epoch = LeaderEpoch(self.leads.load(Ordering::Acquire));
        (epoch != LeaderEpoch::UNKNOWN).then_some(epoch)
    }

    /// As if another node had led, and this one did again.
    #[cfg(test)]
    pub(crate) fn lead_again(&self) {
        self.leads.fetch_add(2, Ordering::AcqRel);
    }

    /// True of one of several replicas; false of a partition that has and had one.
    pub(crate) fn is_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Its id among several replicas.
    pub(crate) fn replica(&self) -> Option<ReplicaId> {
        self.replica
    }

    /// The members that its leader last found to be as they are wanted.
    pub(crate) fn settled(&self) -> &Settled {
        &self.settled
    }

    /// Bytes were written for it that are not in its log yet.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.context.dirty.appended(bytes as u64);
    }

    /// Writing has stopped for good.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }
}
