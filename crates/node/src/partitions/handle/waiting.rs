//! Those who wait for something of a partition: for its high watermark, its last stable offset, or what other replicas have.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};

use tailrace_replication::Appended;
use tailrace_replication::raft::Barrier;
use tailrace_types::{HighWatermark, LeaderEpoch, Offset};
use tokio::sync::{Notify, oneshot};

use super::{Core, PartitionHandle, lock};

/// What became of what somebody waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// It is committed.
    Committed,
    /// The partition stopped writing, or is deleted.
    Halted,
    /// Another node leads now. What was appended may be there or not.
    Deposed,
}

/// A point in a partition that somebody waits to be committed.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
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

/// All who wait for one partition.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    acks: Waiters,
    stable: Waiters,
    fetches: Mutex<WaitingFetches>,
    fetches_count: AtomicUsize,
    /// Rung when other replicas have taken over more, while somebody asks for that.
    replicated: Notify,
    asks_replicated: AtomicUsize,
}

impl Waiting {
    /// The replica was stepped: other replicas may have taken over more.
    pub(super) fn stepped(&self) {
        if self.asks_replicated.load(Ordering::Acquire) != 0 {
            self.replicated.notify_waiters();
        }
    }

    /// Another node leads.
    pub(super) fn answer_deposed(&self) {
        self.acks.answer_all(WaitOutcome::Deposed);
        self.stable.answer_all(WaitOutcome::Deposed);
    }

    pub(super) fn answer_halted(&self) {
        self.acks.answer_all(WaitOutcome::Halted);
        self.stable.answer_all(WaitOutcome::Halted);
    }

    /// Nothing of what is asked about other replicas holds any more.
    pub(super) fn end_asks(&self) {
        self.replicated.notify_waiters();
    }
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
    /// Waits, without a lock on the core, until what was appended is committed.
    ///
    /// `None` if it is already.
    pub fn wait_committed(&self, awaited: impl Into<Awaited>) -> Option<oneshot::Receiver<WaitOutcome>> {
        let awaited = awaited.into();
        let reached = self.reader.high_watermark() >= awaited.at;
        if reached && self.is_there(awaited.at.offset(), Some(awaited.epoch)) {
            return None;
        }
        let receiver = self.waiting.acks.insert(awaited.at.offset(), Some(awaited.epoch));
        self.look_again();
        if self.leads().is_none() {
            // Deposed between the append and the insertion.
            self.waiting.acks.answer_all(WaitOutcome::Deposed);
        }
        Some(receiver)
    }

    /// The same for the last stable offset: until everything below `upto` is committed and no transaction there is
    /// undecided.
    pub(crate) fn wait_stable(&self, upto: Offset) -> Option<oneshot::Receiver<WaitOutcome>> {
        if self.reader.last_stable_offset() >= upto {
            return None;
        }
        let receiver = self.waiting.stable.insert(upto, None);
        self.look_again();
        Some(receiver)
    }

    /// Waits until `count` replicas have everything before `at` durably: more than a majority, which the high watermark tells of.
    /// False if this node does not lead any more.
    pub async fn wait_replicated(&self, at: Offset, count: usize) -> bool {
        self.wait_for(|core| match core.as_replica() {
            None => (count <= 1).then_some(true),
            Some(replica) => replica.leads().and_then(|_| Some(replica.replicated_to(count).ok()? >= at)),
        })
        .await
    }

    /// Waits until the log start has moved to `to`. False if this node does not lead any more.
    pub(crate) async fn wait_log_start(&self, to: Offset) -> bool {
        self.wait_for(|core| match self.reader.log_start() >= to {
            true => Some(true),
            false => core.leads().map(|_| false),
        })
        .await
    }

    /// Waits until a barrier of its replica has passed. False if this node does not lead any more, or leads again.
    pub(crate) async fn wait_barrier(&self, barrier: &Barrier) -> bool {
        self.wait_for(|core| match self.is_halted() {
            true => None,
            false => core.as_replica()?.has_passed(barrier),
        })
        .await
    }

    /// Looks again whenever the replica was stepped, until `holds` says true, or `None`: it never will.
    async fn wait_for(&self, holds: impl Fn(&Core) -> Option<bool>) -> bool {
        self.waiting.asks_replicated.fetch_add(1, Ordering::AcqRel);
        let _asks = Asks(&self.waiting.asks_replicated);
        loop {
            let moved = self.waiting.replicated.notified();
            tokio::pin!(moved);
            // From here on nothing is missed.
            moved.as_mut().enable();
            match self.look(&holds).await.flatten() {
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

    /// The marks may have moved, or writing stopped, between the look before an insertion and the insertion.
    fn look_again(&self) {
        self.answer_committed();
        if self.is_halted() {
            self.waiting.answer_halted();
        }
    }

    /// Registers a fetch that wants to look again when the high watermark or the last stable offset moved. Look again after registering.
    pub fn register_fetch(&self, fetch: &Arc<Notify>) {
        let mut fetches = lock(&self.waiting.fetches);
        fetches.insert(fetch);
        self.waiting.fetches_count.store(fetches.by_address.len(), Ordering::Relaxed);
        drop(fetches);
        // Either this fetch's next look sees a moved watermark, or what moves it sees this fetch.
        fence(Ordering::SeqCst);
    }

    /// The high watermark, the last stable offset or the log start has moved, or none of them will. Without the core's lock.
    pub(super) fn marks_moved(&self) {
        self.answer_committed();
        fence(Ordering::SeqCst);
        if self.waiting.fetches_count.load(Ordering::Relaxed) != 0 {
            let waiting = {
                let mut fetches = lock(&self.waiting.fetches);
                self.waiting.fetches_count.store(0, Ordering::Relaxed);
                std::mem::take(&mut fetches.by_address)
            };
            for fetch in waiting.into_values() {
                fetch.notify_one();
            }
        }
    }

    pub(super) fn answer_committed(&self) {
        let (acks, stable) = (&self.waiting.acks, &self.waiting.stable);
        acks.reached(self.reader.high_watermark().offset(), |end, epoch| self.is_there(end, epoch));
        stable.reached(self.reader.last_stable_offset(), |_, _| true);
    }
}

/// Somebody who asks how far other replicas are.
struct Asks<'a>(&'a AtomicUsize);

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
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
