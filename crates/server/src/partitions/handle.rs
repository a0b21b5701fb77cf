//! A partition as the shell holds it: the deterministic core behind one short lock, what readers need beside it, and
//! those who wait for its high watermark or its last stable offset.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailrace_log::LogConfig;
use tailrace_replication::{PartitionReader, Policy, Solo};
use tailrace_types::{HighWatermark, Offset, TopicPartition};
use tokio::sync::{Notify, oneshot};

use crate::disk::ServerDisk;
use crate::nats::live::LiveQueue;

/// Why a partition cannot be used at all.
#[derive(Clone, Debug)]
pub(crate) struct Offline {
    /// What was found, with file and position where known.
    pub(crate) reason: Arc<str>,
}

/// Sent to those who wait for the high watermark when the partition stops writing or is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Committed,
    Halted,
}

/// One partition that is online.
#[derive(Debug)]
pub(crate) struct PartitionHandle {
    pub(crate) id: TopicPartition,
    /// Taken for deciding and writing; tokio's, so that waiting for it never blocks an event loop. FIFO.
    pub(crate) core: Arc<tokio::sync::Mutex<Option<Solo<ServerDisk>>>>,
    pub(crate) reader: PartitionReader<ServerDisk>,
    acks: Waiters,
    stable: Waiters,
    fetches: Mutex<WaitingFetches>,
    fetches_waiting: AtomicUsize,
    sync_state: AtomicU8,
    /// A checkpoint is wanted with the next sync.
    pub(crate) checkpoint_due: AtomicBool,
    /// The epoch of this start has been begun: the first append need not take the slow road.
    pub(crate) epoch_begun: AtomicBool,
    /// Log end at the last request for a checkpoint.
    pub(crate) checkpointed_at: AtomicI64,
    /// Set once writing stopped for good.
    pub(crate) halted: AtomicBool,
    policy: Mutex<Policy>,
    /// What is still to be delivered to NATS subscribers.
    pub(crate) live: LiveQueue,
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
struct Waiters(Mutex<VecDeque<(Offset, oneshot::Sender<WaitOutcome>)>>);

impl Waiters {
    fn insert(&self, wanted: Offset) -> oneshot::Receiver<WaitOutcome> {
        let (answer, receiver) = oneshot::channel();
        let mut waiting = lock(&self.0);
        let at = waiting.partition_point(|waiter| waiter.0 <= wanted);
        waiting.insert(at, (wanted, answer));
        receiver
    }

    fn reached(&self, mark: Offset) {
        let ready = {
            let mut waiting = lock(&self.0);
            let count = waiting.partition_point(|waiter| waiter.0 <= mark);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        for (_, answer) in ready {
            // The receiver may have given up at its time limit.
            let _ = answer.send(WaitOutcome::Committed);
        }
    }

    fn halted(&self) {
        let all = std::mem::take(&mut *lock(&self.0));
        for (_, answer) in all {
            let _ = answer.send(WaitOutcome::Halted);
        }
    }
}

/// States of a partition's sync, so that it is in the flusher's queue, or with one of its threads, at most once.
const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const RUNNING_AND_WANTED: u8 = 3;

impl PartitionHandle {
    pub(crate) fn new(id: TopicPartition, core: Solo<ServerDisk>) -> Self {
        let reader = core.reader();
        let (log_end, policy) = (reader.log_end().get(), core.policy());
        let epoch_begun = AtomicBool::new(!core.needs_epoch());
        Self {
            id,
            core: Arc::new(tokio::sync::Mutex::new(Some(core))),
            reader,
            acks: Waiters::default(),
            stable: Waiters::default(),
            fetches: Mutex::default(),
            fetches_waiting: AtomicUsize::new(0),
            sync_state: AtomicU8::new(IDLE),
            checkpoint_due: AtomicBool::new(false),
            epoch_begun,
            checkpointed_at: AtomicI64::new(log_end),
            halted: AtomicBool::new(false),
            policy: Mutex::new(policy),
            live: LiveQueue::default(),
        }
    }

    /// What decides about its appends.
    pub(crate) fn policy(&self) -> Policy {
        *lock(&self.policy)
    }

    /// Takes over changed settings.
    pub(crate) async fn configure(&self, config: LogConfig, policy: Policy) {
        *lock(&self.policy) = policy;
        if let Some(core) = self.core.lock().await.as_mut() {
            core.configure(config, policy);
        }
        self.watermark_moved();
    }

    /// Waits, without a lock on the core, until the high watermark reaches `committed_at`.
    ///
    /// `None` if it has already.
    pub(crate) fn wait_committed(
        &self,
        committed_at: HighWatermark,
    ) -> Option<oneshot::Receiver<WaitOutcome>> {
        if self.reader.high_watermark() >= committed_at {
            return None;
        }
        let receiver = self.acks.insert(committed_at.offset());
        self.look_again();
        Some(receiver)
    }

    /// The same for the last stable offset: until everything below `upto` is committed and no transaction there is
    /// undecided.
    pub(crate) fn wait_stable(&self, upto: Offset) -> Option<oneshot::Receiver<WaitOutcome>> {
        if self.reader.last_stable_offset() >= upto {
            return None;
        }
        let receiver = self.stable.insert(upto);
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
        self.answer_committed();
        self.answer_halted();
        self.watermark_moved();
    }

    /// True if the caller has to queue a sync; false if one is queued, or will be queued, that sees the caller's append.
    pub(crate) fn claim_sync(&self) -> bool {
        let next = |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(RUNNING_AND_WANTED),
            _ => None,
        };
        self.sync_state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// The flusher took the partition out of its queue. Appends from here on need another sync.
    pub(crate) fn sync_started(&self) {
        self.sync_state.store(RUNNING, Ordering::Release);
    }

    /// The flusher is done with the partition; true if it has to be queued again.
    pub(crate) fn sync_ended(&self, wanted: bool) -> bool {
        let next = |state| Some(if wanted || state == RUNNING_AND_WANTED { QUEUED } else { IDLE });
        let before = self.sync_state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        wanted || before == Ok(RUNNING_AND_WANTED)
    }

    fn answer_committed(&self) {
        self.acks.reached(self.reader.high_watermark().offset());
        self.stable.reached(self.reader.last_stable_offset());
    }

    fn answer_halted(&self) {
        self.acks.halted();
        self.stable.halted();
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
