//! The queues of those who wait for something of a partition.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailrace_env::sync::{Notify, oneshot};
use tailrace_replication::Appended;
use tailrace_types::{HighWatermark, LeaderEpoch, Offset};

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
    pub(super) acks: Waiters,
    pub(super) stable: Waiters,
    pub(super) fetches: Mutex<WaitingFetches>,
    pub(super) fetches_count: AtomicUsize,
    /// Rung when other replicas have taken over more, while somebody asks for that.
    pub(super) replicated: Notify,
    pub(super) asks_replicated: AtomicUsize,
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
pub(super) struct WaitingFetches {
    pub(super) by_address: HashMap<usize, Arc<Notify>>,
    /// At this number, those that have ended are looked for.
    tidy_at: usize,
}

impl WaitingFetches {
    const TIDY_MIN: usize = 64;

    pub(super) fn insert(&mut self, fetch: &Arc<Notify>) {
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
pub(super) struct Waiters(Mutex<VecDeque<Waiter>>);

#[derive(Debug)]
struct Waiter {
    wanted: Offset,
    /// Epoch of the last record before `wanted`, where it matters.
    epoch: Option<LeaderEpoch>,
    answer: oneshot::Sender<WaitOutcome>,
}

impl Waiters {
    pub(super) fn insert(
        &self,
        wanted: Offset,
        epoch: Option<LeaderEpoch>,
    ) -> oneshot::Receiver<WaitOutcome> {
        let (answer, receiver) = oneshot::channel();
        let mut waiting = lock(&self.0);
        let at = waiting.partition_point(|waiter| waiter.wanted <= wanted);
        waiting.insert(at, Waiter { wanted, epoch, answer });
        receiver
    }

    pub(super) fn reached(&self, mark: Offset, is_there: impl Fn(Offset, Option<LeaderEpoch>) -> bool) {
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

    pub(super) fn answer_all(&self, outcome: WaitOutcome) {
        let all = std::mem::take(&mut *lock(&self.0));
        for waiter in all {
            let _ = waiter.answer.send(outcome);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section leaves its queue consistent even if it were to panic.
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
