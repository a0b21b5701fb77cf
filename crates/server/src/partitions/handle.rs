//! A partition as the shell holds it: the deterministic core behind one short lock, what readers need beside it, and
//! those who wait for its high watermark or its last stable offset.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use tailrace_log::LogConfig;
use tailrace_replication::raft::{Barrier, ChunkRequest, Members, Replica};
use tailrace_replication::{Appended, Partition, PartitionReader, Policy};
use tailrace_types::{GroupId, HighWatermark, LeaderEpoch, Offset, ReplicaId, TimestampMs, TopicPartition};
use tokio::sync::{Notify, oneshot};

use crate::broker::wall_clock;
use crate::cluster::{Links, Settled, Throttled};
use crate::disk::ServerDisk;
use crate::partitions::inbox::Inbox;
use crate::partitions::sleep::Sleep;
use crate::partitions::workers::Claim;
use crate::peers::PeerError;
use crate::taps::TapQueues;

/// Why a partition cannot be used at all.
#[derive(Clone, Debug)]
pub(crate) struct Offline {
    /// What was found, with file and position where known.
    pub(crate) reason: Arc<str>,
    /// The one of several replicas that was to be opened.
    pub(crate) replica: Option<ReplicaId>,
    /// It is damaged, or gone: another one may begin anew in its place.
    pub(crate) is_lost: bool,
    /// There was no room for what opening writes: it is tried again when there is.
    pub(crate) waits_for_room: bool,
}

/// What became of what somebody waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Committed,
    /// The partition stopped writing, or is deleted.
    Halted,
    /// Another node leads now. What was appended may be there or not.
    Deposed,
}

/// A point in a partition that somebody waits to be committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// What the high watermark has to reach.
    pub(crate) at: HighWatermark,
    /// Epoch of the last record before it: behind another leader something else may lie there.
    pub(crate) epoch: LeaderEpoch,
}

impl From<&Appended> for Awaited {
    fn from(appended: &Appended) -> Self {
        Self { at: appended.committed_at, epoch: appended.epoch }
    }
}

impl Awaited {
    /// The later one of two in the same partition.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }
}

/// One partition that is online.
#[derive(Debug)]
pub(crate) struct PartitionHandle {
    pub(crate) id: TopicPartition,
    pub(crate) group: GroupId,
    /// Taken for deciding and writing; tokio's, so that waiting for it never blocks an event loop. FIFO.
    pub(crate) core: Arc<tokio::sync::Mutex<Option<Partition<ServerDisk>>>>,
    pub(crate) reader: PartitionReader<ServerDisk>,
    acks: Waiters,
    stable: Waiters,
    fetches: Mutex<WaitingFetches>,
    fetches_waiting: AtomicUsize,
    /// So that it is in the flusher's queue, or with one of its threads, at most once.
    pub(crate) syncs: Claim,
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
    links: Arc<Links>,
    throttled: ArcSwapOption<Throttled>,
    /// Its replica is there and has no vote.
    is_new: AtomicBool,
    /// Rung when other replicas have taken over more, while somebody asks for that.
    replicated: Notify,
    asks_replicated: AtomicUsize,
    /// A checkpoint is wanted with the next sync.
    pub(crate) checkpoint_due: AtomicBool,
    /// The epoch of this start has been begun: the first append need not take the slow road.
    pub(crate) epoch_begun: AtomicBool,
    /// Log end at the last request for a checkpoint.
    pub(crate) checkpointed_at: AtomicI64,
    /// The last one found no room on the disk.
    pub(crate) checkpoint_unwritten: AtomicBool,
    /// Set once writing stopped for good.
    pub(crate) halted: AtomicBool,
    policy: Mutex<Policy>,
    /// What is still to be read for those who tap it.
    pub(crate) taps: TapQueues,
}

/// Fetches that wait for the high watermark, each once, by the address of its `Notify`.
#[derive(Debug, Default)]
struct WaitingFetches {
    by_address: HashMap<usize, Arc<Notify>>,
    /// At this number, those that have ended are looked for.
    tidy_at: usize,
}

impl WaitingFetches {
    const TIDY_MIN: usize = 64;

    fn insert(&mut self, fetch: &Arc<Notify>) {
        // Fetches that ended by their time limit leave their entry behind; those are dropped here.
        if self.by_address.len() >= self.tidy_at.max(Self::TIDY_MIN) {
            self.by_address.retain(|_, waiting| Arc::strong_count(waiting) > 1);
            self.tidy_at = self.by_address.len() * 2;
        }
        self.by_address.insert(Arc::as_ptr(fetch) as usize, Arc::clone(fetch));
    }
}

/// Those who wait for a mark that only rises, by where they want it.
#[derive(Debug, Default)]
struct Waiters(Mutex<VecDeque<Waiter>>);

#[derive(Debug)]
struct Waiter {
    wanted: Offset,
    /// Epoch of the last record before `wanted`, where it matters.
    epoch: Option<LeaderEpoch>,
    answer: oneshot::Sender<WaitOutcome>,
}

impl Waiters {
    fn insert(&self, wanted: Offset, epoch: Option<LeaderEpoch>) -> oneshot::Receiver<WaitOutcome> {
        let (answer, receiver) = oneshot::channel();
        let mut waiting = lock(&self.0);
        let at = waiting.partition_point(|waiter| waiter.wanted <= wanted);
        waiting.insert(at, Waiter { wanted, epoch, answer });
        receiver
    }

    fn reached(&self, mark: Offset, is_there: impl Fn(Offset, Option<LeaderEpoch>) -> bool) {
        let ready = {
            let mut waiting = lock(&self.0);
            let count = waiting.partition_point(|waiter| waiter.wanted <= mark);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        for Waiter { wanted, epoch, answer } in ready {
            let committed = is_there(wanted, epoch);
            // The receiver may have given up at its time limit.
            let _ = answer.send(if committed { WaitOutcome::Committed } else { WaitOutcome::Deposed });
        }
    }

    fn answer_all(&self, outcome: WaitOutcome) {
        let all = std::mem::take(&mut *lock(&self.0));
        for waiter in all {
            let _ = waiter.answer.send(outcome);
        }
    }
}

impl PartitionHandle {
    pub(crate) fn new(
        (id, group): (TopicPartition, GroupId),
        mut core: Partition<ServerDisk>,
        links: Arc<Links>,
    ) -> Self {
        let reader = core.reader();
        let (log_end, policy) = (reader.log_end().get(), core.policy());
        let epoch_begun = AtomicBool::new(!core.needs_epoch());
        let leads = core.leads().unwrap_or(LeaderEpoch::UNKNOWN);
        let replica = core.replica().map(|replica| replica.id());
        Self {
            id,
            group,
            core: Arc::new(tokio::sync::Mutex::new(Some(core))),
            reader,
            acks: Waiters::default(),
            stable: Waiters::default(),
            fetches: Mutex::default(),
            fetches_waiting: AtomicUsize::new(0),
            syncs: Claim::default(),
            inbox: Inbox::default(),
            sleep: Sleep::default(),
            leads: AtomicI32::new(leads.get()),
            replica,
            settled: Settled::default(),
            links,
            throttled: ArcSwapOption::empty(),
            is_new: AtomicBool::new(false),
            replicated: Notify::new(),
            asks_replicated: AtomicUsize::new(0),
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
    pub(crate) async fn configure(&self, config: LogConfig, policy: Policy, now: TimestampMs) {
        *lock(&self.policy) = policy;
        if let Some(core) = self.core.lock().await.as_mut() {
            core.configure(config, policy, now);
            self.stepped(core);
        }
        self.watermark_moved();
    }

    /// Asks another replica for a chunk of a snapshot; `None` if it has no such snapshot any more. What is throttled comes late.
    pub(crate) async fn ask_chunk(&self, request: &ChunkRequest) -> Result<Option<Bytes>, PeerError> {
        let chunk = self.links.ask_chunk(self.group, request).await?;
        if let Some(chunk) = chunk.as_ref().filter(|_| self.takes_slowly()) {
            self.links.inbound().pay(chunk.len()).await;
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

    /// True of one of several replicas; false of a partition that has and had one.
    pub(crate) fn is_replica(&self) -> bool {
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
        self.acks.answer_all(WaitOutcome::Deposed);
        self.stable.answer_all(WaitOutcome::Deposed);
        self.replicated.notify_waiters();
        self.watermark_moved();
    }

    /// The members that its leader last found to be as they are wanted.
    pub(crate) fn settled(&self) -> &Settled {
        &self.settled
    }

    /// To be called under the core's lock after everything that may have moved a replica: sends its messages, in their order,
    /// and tells of leadership won or lost.
    pub(crate) fn stepped(&self, core: &mut Partition<ServerDisk>) {
        let Some(replica) = core.replica() else { return };
        self.send(replica);
        self.inbox.set_due(replica.ticks_until_due());
        self.note_sleep(replica);
        let leads = replica.leads();
        let now = leads.unwrap_or(LeaderEpoch::UNKNOWN).get();
        let before = self.leads.swap(now, Ordering::AcqRel);
        if self.asks_replicated.load(Ordering::Acquire) != 0 {
            self.replicated.notify_waiters();
        }
        if before == now {
            return;
        }
        if before != LeaderEpoch::UNKNOWN.get() {
            self.answer_committed();
            self.acks.answer_all(WaitOutcome::Deposed);
            self.stable.answer_all(WaitOutcome::Deposed);
        }
        self.links.leadership_changed(self.group, replica.id(), leads);
    }

    fn send(&self, replica: &mut Replica<ServerDisk>) {
        let throttled = self.throttled.load();
        let throttled = throttled.as_deref();
        let sends_slowly = self.sends_slowly();
        replica.pace(|id| sends_slowly || throttled.is_some_and(|throttled| throttled.takes(id.node())));
        self.is_new.store(!replica.votes(), Ordering::Relaxed);
        for message in replica.take_messages() {
            let to = message.to();
            match message.append_bytes().filter(|_| sends_slowly && replica.is_paced(to)) {
                None => self.links.send(self.group, message),
                Some(bytes) if self.links.send_slowly(self.group, message, bytes) => {}
                Some(_) => replica.unreachable(to, wall_clock()),
            }
        }
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
            self.links.vouching().renew();
        }
        self.links.vouching().woke(self.group);
    }

    /// To be called before a sleeping leader is asked for something that may block.
    pub(crate) fn rouse(&self) {
        if self.sleep.hibernates() && self.leads().is_some() {
            self.inbox.wake(0);
            self.links.vouching().woke(self.group);
        }
    }

    /// True if the replica sleeps and must not: a node that it relies on is gone. It wakes with the next step.
    pub(crate) fn must_wake(&self) -> bool {
        let must =
            self.sleep.hibernates() && self.sleep.relies(|nodes| !self.links.vouching().vouch_for(nodes));
        if must {
            self.inbox.wake(0);
        }
        must
    }

    /// With what its node vouches for it while it sleeps.
    pub(crate) fn voucher(&self) -> Option<u64> {
        self.links.vouching().own()
    }

    /// Waits, without a lock on the core, until what was appended is committed.
    ///
    /// `None` if it is already.
    pub(crate) fn wait_committed(
        &self,
        awaited: impl Into<Awaited>,
    ) -> Option<oneshot::Receiver<WaitOutcome>> {
        let awaited = awaited.into();
        let reached = self.reader.high_watermark() >= awaited.at;
        if reached && self.is_there(awaited.at.offset(), Some(awaited.epoch)) {
            return None;
        }
        let receiver = self.acks.insert(awaited.at.offset(), Some(awaited.epoch));
        self.look_again();
        if self.leads().is_none() {
            // Deposed between the append and the insertion.
            self.acks.answer_all(WaitOutcome::Deposed);
        }
        Some(receiver)
    }

    /// Waits until `count` replicas have everything before `at` durably: more than a majority, which the high watermark tells of.
    /// False if this node does not lead any more.
    pub(crate) async fn wait_replicated(&self, at: Offset, count: usize) -> bool {
        self.asks_replicated.fetch_add(1, Ordering::AcqRel);
        let _asks = Asks(&self.asks_replicated);
        loop {
            let moved = self.replicated.notified();
            tokio::pin!(moved);
            // From here on nothing is missed.
            moved.as_mut().enable();
            let reached = {
                let mut core = self.core.lock().await;
                let Some(core) = core.as_mut() else { return false };
                let Some(replica) = core.replica() else { return count <= 1 };
                replica.leads().and_then(|_| replica.replicated_to(count).ok())
            };
            match reached {
                None => return false,
                Some(reached) if reached >= at => return true,
                Some(_) => moved.await,
            }
        }
    }

    /// The members of its group; `None` of a partition that has one replica only.
    pub(crate) async fn members(&self) -> Option<Members> {
        Some(self.core.lock().await.as_mut()?.replica()?.members())
    }

    /// One past the last record that each of these replicas has, of those of which it is known.
    pub(crate) async fn stored_by(&self, replicas: &[ReplicaId]) -> Vec<(ReplicaId, Offset)> {
        let mut core = self.core.lock().await;
        let Some(replica) = core.as_mut().and_then(|core| core.replica()) else { return Vec::new() };
        let stored = |id: &ReplicaId| Some((*id, replica.stored_by(*id).ok()??));
        replicas.iter().filter_map(stored).collect()
    }

    /// Waits until the log start has moved to `to`. False if this node does not lead any more.
    pub(crate) async fn wait_log_start(&self, to: Offset) -> bool {
        self.asks_replicated.fetch_add(1, Ordering::AcqRel);
        let _asks = Asks(&self.asks_replicated);
        loop {
            let moved = self.replicated.notified();
            tokio::pin!(moved);
            // From here on nothing is missed.
            moved.as_mut().enable();
            if self.reader.log_start() >= to {
                return true;
            }
            if self.leads().is_none() {
                return false;
            }
            moved.await;
        }
    }

    /// Waits until a barrier of its replica has passed. False if this node does not lead any more, or leads again.
    pub(crate) async fn wait_barrier(&self, barrier: &Barrier) -> bool {
        self.asks_replicated.fetch_add(1, Ordering::AcqRel);
        let _asks = Asks(&self.asks_replicated);
        loop {
            let moved = self.replicated.notified();
            tokio::pin!(moved);
            // From here on nothing is missed.
            moved.as_mut().enable();
            if self.halted.load(Ordering::Acquire) {
                return false;
            }
            let passed = {
                let mut core = self.core.lock().await;
                core.as_mut().and_then(|core| core.replica()).and_then(|replica| replica.has_passed(barrier))
            };
            match passed {
                None => return false,
                Some(true) => return true,
                Some(false) => moved.await,
            }
        }
    }

    /// True if what ends at `end`, below the high watermark, is of that epoch.
    fn is_there(&self, end: Offset, epoch: Option<LeaderEpoch>) -> bool {
        epoch.is_none_or(|epoch| end <= Offset(0) || self.reader.log().epoch_at(end.plus(-1)) == Some(epoch))
    }

    /// The same for the last stable offset: until everything below `upto` is committed and no transaction there is
    /// undecided.
    pub(crate) fn wait_stable(&self, upto: Offset) -> Option<oneshot::Receiver<WaitOutcome>> {
        if self.reader.last_stable_offset() >= upto {
            return None;
        }
        let receiver = self.stable.insert(upto, None);
        self.look_again();
        Some(receiver)
    }

    /// The marks may have moved, or writing stopped, between the look before an insertion and the insertion.
    fn look_again(&self) {
        self.answer_committed();
        if self.halted.load(Ordering::Acquire) {
            self.answer_halted();
        }
    }

    /// Registers a fetch that wants to look again when the high watermark or the last stable offset moved. Look again after registering.
    pub(crate) fn register_fetch(&self, fetch: &Arc<Notify>) {
        let mut fetches = lock(&self.fetches);
        fetches.insert(fetch);
        self.fetches_waiting.store(fetches.by_address.len(), Ordering::Relaxed);
        drop(fetches);
        // Either this fetch's next look sees a moved watermark, or whoever moves it sees this fetch.
        fence(Ordering::SeqCst);
    }

    /// To be called after anything that may have moved the high watermark or the last stable offset, without the core's lock.
    pub(crate) fn watermark_moved(&self) {
        self.answer_committed();
        fence(Ordering::SeqCst);
        if self.fetches_waiting.load(Ordering::Relaxed) != 0 {
            let waiting = {
                let mut fetches = lock(&self.fetches);
                self.fetches_waiting.store(0, Ordering::Relaxed);
                std::mem::take(&mut fetches.by_address)
            };
            for fetch in waiting.into_values() {
                fetch.notify_one();
            }
        }
    }

    /// Marks the partition as no longer writable and tells everyone who waits.
    pub(crate) fn stop_waiters(&self) {
        self.halted.store(true, Ordering::Release);
        self.awake(true);
        self.answer_committed();
        self.answer_halted();
        self.replicated.notify_waiters();
        self.watermark_moved();
    }

    fn answer_committed(&self) {
        self.acks.reached(self.reader.high_watermark().offset(), |end, epoch| self.is_there(end, epoch));
        self.stable.reached(self.reader.last_stable_offset(), |_, _| true);
    }

    fn answer_halted(&self) {
        self.acks.answer_all(WaitOutcome::Halted);
        self.stable.answer_all(WaitOutcome::Halted);
    }
}

/// Somebody who asks how far other replicas are.
struct Asks<'a>(&'a AtomicUsize);

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section above leaves its queue consistent even if it were to panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_waits_in_one_place_however_often_it_looks() {
        let (mut waiting, fetch) = (WaitingFetches::default(), Arc::new(Notify::new()));
        (0..1000).for_each(|_| waiting.insert(&fetch));
        assert_eq!(waiting.by_address.len(), 1);
    }

    #[test]
    fn fetches_that_ended_are_forgotten() {
        let mut waiting = WaitingFetches::default();
        let alive: Vec<_> = (0..200).map(|_| Arc::new(Notify::new())).collect();
        for fetch in &alive {
            waiting.insert(fetch);
            (0..50).for_each(|_| waiting.insert(&Arc::new(Notify::new())));
        }
        assert!(waiting.by_address.len() <= 2 * alive.len() + WaitingFetches::TIDY_MIN);
        assert!(alive.iter().all(|fetch| waiting.by_address.contains_key(&(Arc::as_ptr(fetch) as usize))));
    }
}
