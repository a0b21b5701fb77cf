//! The flusher: a bounded pool of threads that makes appends durable, for all partitions together.
//!
//! Group commit: while one sync runs, appends gather, and the next sync serves all of them. A partition is in the
//! queue at most once, so the queue is bounded by the number of partitions.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tailrace_replication::SyncOutcome;

use crate::metrics::Metrics;
use crate::partitions::handle::PartitionHandle;

/// The pool. Dropping it without [`Flusher::stop`] leaves the threads waiting.
#[derive(Debug)]
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Queue {
    partitions: VecDeque<Arc<PartitionHandle>>,
    stopping: bool,
}

impl Flusher {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn start(threads: usize, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new(), metrics });
        let mut handles = Vec::with_capacity(threads);
        for number in 0..threads {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("flush-{number}"));
            handles.push(builder.spawn(move || shared.work())?);
        }
        Ok(Self { shared, threads: Mutex::new(handles) })
    }

    /// Schedules a sync of everything appended to `partition` so far.
    pub(crate) fn schedule(&self, partition: &Arc<PartitionHandle>) {
        if partition.claim_sync() {
            self.shared.push(Arc::clone(partition));
        }
    }

    /// Lets the queue run empty and ends the threads.
    pub(crate) fn stop(&self) {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a flusher thread panicked");
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, partition: Arc<PartitionHandle>) {
        self.lock().partitions.push_back(partition);
        self.wake.notify_one();
    }

    fn work(&self) {
        while let Some(partition) = self.next() {
            self.sync(&partition);
        }
    }

    fn next(&self) -> Option<Arc<PartitionHandle>> {
        let mut queue = self.lock();
        loop {
            if let Some(partition) = queue.partitions.pop_front() {
                return Some(partition);
            }
            if queue.stopping {
                return None;
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn sync(&self, partition: &Arc<PartitionHandle>) {
        partition.sync_started();
        let wanted = self.sync_once(partition);
        if partition.sync_ended(wanted) {
            self.push(Arc::clone(partition));
        }
    }

    /// Returns true if another sync is due.
    fn sync_once(&self, partition: &PartitionHandle) -> bool {
        let checkpoint = partition.checkpoint_due.swap(false, Ordering::AcqRel);
        let ticket = {
            let mut core = partition.core.blocking_lock();
            core.as_mut().and_then(|core| core.begin_sync(checkpoint))
        };
        let Some(ticket) = ticket else { return false };
        let started = Instant::now();
        let result = ticket.run();
        self.metrics.synced(started.elapsed(), result.is_ok());
        let outcome = {
            let mut core = partition.core.blocking_lock();
            // Deleted meanwhile: nobody waits for this sync, and its failure is no news.
            let Some(core) = core.as_mut() else { return false };
            core.finish_sync(&ticket, &result)
        };
        if let Err(error) = &result {
            tracing::error!(partition = %partition.id, %error, ?outcome, "a sync failed");
        }
        match outcome {
            SyncOutcome::Halted => partition.stop_waiters(),
            SyncOutcome::Done | SyncOutcome::Again => partition.watermark_moved(),
        }
        outcome == SyncOutcome::Again
    }
}
