//! The queues of waiters of a partition.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use tailrace_env::sync::{Notify, oneshot};
use tailrace_replication::Appended;
use tailrace_types::{HighWatermark, LeaderEpoch, Offset};

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The records are committed.
    Committed,
    /// The partition stopped writing, or is deleted.
    Halted,
    /// Another node leads now. The appended records may exist or not.
    Deposed,
}

/// A point in a partition whose commit is awaited.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// What the high watermark has to reach.
    pub(crate) at: HighWatermark,
    /// Epoch of the last record before that point. Under another leader, other records may be at the same
    /// offsets.
    pub(crate) epoch: LeaderEpoch,
}

impl From<&Appended> for Awaited {
    fn from(appended: &Appended) -> Self {
        Self { at: appended.committed_at, epoch: appended.epoch }
    }
}

impl Awaited {
    /// Returns the later one of two points in the same partition.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }
}

/// All waiters of one partition.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) acks: Waiters,
    pub(super) stable: Waiters,
    fetches: Mutex<WaitingFetches>,
    fetches_count: AtomicUsize,
    /// Notified when other replicas may have stored more, while someone waits for that.
    pub(super) replicated: Notify,
    pub(super) asks_replicated: AtomicUsize,
}

impl Waiting {
    /// Registers a fetch to be woken when a mark moves. Callers look at the mark after registering.
    pub(super) fn register_fetch(&self, fetch: &Arc<Notify>) {
        let mut fetches = lock(&self.fetches);
        fetches.insert(fetch);
        self.fetches_count.store(fetches.by_address.len(), Ordering::Relaxed);
        drop(fetches);
        // Either this fetch's next look sees the moved watermark, or the code that moves it sees this fetch.
        fence(Ordering::SeqCst);
    }

    /// Wakes fetches because a mark has moved.
    pub(super) fn wake_fetches(&self) {
        fence(Ordering::SeqCst);
        if self.fetches_count.load(Ordering::Relaxed) != 0 {
            let waiting = {
                let mut fetches = lock(&self.fetches);
                self.fetches_count.store(0, Ordering::Relaxed);
                std::mem::take(&mut fetches.by_address)
            };
            for fetch in waiting.into_values() {
                fetch.notify_one();
            }
        }
    }

    /// Wakes waiters because the replica was stepped: other replicas may have stored more.
    pub(super) fn stepped(&self) {
        if self.asks_replicated.load(Ordering::Acquire) != 0 {
            self.replicated.notify_waiters();
        }
    }

    /// Answers because another node leads.
    pub(super) fn answer_deposed(&self) {
        self.acks.answer_all(WaitOutcome::Deposed);
        self.stable.answer_all(WaitOutcome::Deposed);
    }

    pub(super) fn answer_halted(&self) {
        self.acks.answer_all(WaitOutcome::Halted);
        self.stable.answer_all(WaitOutcome::Halted);
    }

    /// Wakes waiters for other replicas' progress, because none of it will come.
    pub(super) fn end_asks(&self) {
        self.replicated.notify_waiters();
    }
}

/// Fetches that wait for the high watermark, each once, keyed by the address of its `Notify`.
#[derive(Debug, Default)]
struct WaitingFetches {
    by_address: HashMap<usize, Arc<Notify>>,
    /// At this number of entries, entries of ended fetches are removed.
    tidy_at: usize,
}

impl WaitingFetches {
    const TIDY_MIN: usize = 64;

    fn insert(&mut self, fetch: &Arc<Notify>) {
        // Fetches that end at their time limit leave their entry behind. Those are removed here.
        if self.by_address.len() >= self.tidy_at.max(Self::TIDY_MIN) {
            self.by_address.retain(|_, waiting| Arc::strong_count(waiting) > 1);
            self.tidy_at = self.by_address.len() * 2;
        }
        self.by_address.insert(Arc::as_ptr(fetch) as usize, Arc::clone(fetch));
    }
}

/// Waiters for a mark that only rises, ordered by the offset they want.
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
            // The receiver may have timed out.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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

#[cfg(all(test, shuttle))]
mod models {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::sync::explore;
    use shuttle::thread;

    /// A partition's high watermark and the waiters for it.
    #[derive(Default)]
    struct Model {
        waiting: Waiting,
        mark: AtomicUsize,
        is_deposed: AtomicUsize,
    }

    impl Model {
        fn reached(&self) {
            let mark = Offset(self.mark.load(Ordering::SeqCst) as i64);
            self.waiting.acks.reached(mark, |_, _| true);
        }

        /// As `PartitionHandle::marks_moved`.
        fn commit(&self) {
            self.mark.fetch_add(1, Ordering::SeqCst);
            self.reached();
            self.waiting.wake_fetches();
        }

        fn depose(&self) {
            self.is_deposed.store(1, Ordering::SeqCst);
            self.waiting.answer_deposed();
        }

        /// As `PartitionHandle::wait_committed`.
        fn wait(&self, wanted: usize) -> Option<oneshot::Receiver<WaitOutcome>> {
            if self.mark.load(Ordering::SeqCst) >= wanted {
                return None;
            }
            let receiver = self.waiting.acks.insert(Offset(wanted as i64), None);
            self.reached();
            if self.is_deposed.load(Ordering::SeqCst) == 1 {
                self.waiting.acks.answer_all(WaitOutcome::Deposed);
            }
            Some(receiver)
        }
    }

    fn is_rung(fetch: &Notify) -> bool {
        pin!(fetch.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_fetch_sees_the_mark_that_moves_or_is_woken() {
        explore(|| {
            let model = Arc::new(Model::default());
            let fetches = (0..2).map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    let fetch = Arc::new(Notify::new());
                    model.waiting.register_fetch(&fetch);
                    (model.mark.load(Ordering::SeqCst), fetch)
                })
            });
            let fetches: Vec<_> = fetches.collect();
            let mover = Arc::clone(&model);
            let mover = thread::spawn(move || (0..2).for_each(|_| mover.commit()));
            mover.join().unwrap();
            for fetch in fetches {
                let (seen, fetch) = fetch.join().unwrap();
                assert!(seen == 2 || is_rung(&fetch), "it saw {seen} of 2, and nobody wakes it");
            }
        });
    }

    #[test]
    fn who_waits_for_a_commit_is_answered() {
        explore(|| {
            let model = Arc::new(Model::default());
            let waiters = (1..=2).map(|wanted| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wait(wanted))
            });
            let waiters: Vec<_> = waiters.collect();
            let mover = Arc::clone(&model);
            let mover = thread::spawn(move || (0..2).for_each(|_| mover.commit()));
            mover.join().unwrap();
            // Each of them may answer the others.
            let answers: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
            for answer in answers {
                let answer = answer.map(|mut answer| answer.try_recv());
                assert!(matches!(answer, None | Some(Ok(WaitOutcome::Committed))), "{answer:?}");
            }
        });
    }

    #[test]
    fn who_waits_when_another_one_leads_is_answered() {
        explore(|| {
            let model = Arc::new(Model::default());
            let waiter = Arc::clone(&model);
            let waiter = thread::spawn(move || waiter.wait(2));
            let mover = Arc::clone(&model);
            let mover = thread::spawn(move || mover.commit());
            let other = Arc::clone(&model);
            let other = thread::spawn(move || other.depose());
            mover.join().unwrap();
            other.join().unwrap();
            let answer = waiter.join().unwrap().map(|mut answer| answer.try_recv());
            assert!(matches!(answer, Some(Ok(WaitOutcome::Deposed))), "{answer:?}");
        });
    }
}
