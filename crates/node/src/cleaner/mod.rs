//! The cleaner: threads of its own that compact the partitions of topics with `cleanup.policy=compact`.
//!
//! Each thread (`threads`) takes the partition with the largest dirty share that is worth it, compacts it, and looks again; when there
//! is none it waits for `log.cleaner.backoff.ms`. Nothing here runs on an event loop, and a partition's lock is held only to
//! plan a round and to exchange segments. A partition that cannot be compacted is left alone until the next start (or until
//! its topic's policy is `compact` anew), is logged once, counted, and named by `/healthz`.

mod budget;
mod pace;
mod pick;
mod round;
mod threads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tailrace_env::thread::{Bell, Thread};
use tailrace_env::time::{Duration, Instant};

use tailrace_log::Trim;
use tailrace_types::{TopicId, TopicPartition};

use self::budget::Budget;
use crate::disk::NodeDisk;
use crate::partitions::PartitionHandle;

/// How often a thread looks whether it is still wanted, at least.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A partition of a topic that may come again under its name.
type Which = (TopicPartition, TopicId);

/// The cleaner of one server.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Thread>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<CleanerState>,
    stop: Bell,
    budget: Budget,
}

#[derive(Default)]
struct CleanerState {
    /// Partitions that a thread has taken.
    taken: Vec<Which>,
    /// Why they are left alone.
    uncleanable: BTreeMap<Which, String>,
    /// Not to be tried again before: the disk was full.
    retry_at: BTreeMap<Which, Instant>,
    /// Exchanges that the log has made and that found no space to become durable.
    unfinished: Vec<(Arc<PartitionHandle>, Trim<NodeDisk>)>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Cleaner {
    /// Ends the threads: what a round has put in place stays, the rest is done again after the next start. Blocks for as long
    /// as one read or write and a sync take.
    pub(crate) fn stop(&self) {
        self.shared.stop.ring();
        let threads = std::mem::take(&mut *self.lock_threads());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a cleaner thread panicked");
            }
        }
        // Their segments go at the next start.
        self.shared.lock().unfinished.clear();
    }

    /// Partitions that cannot be compacted, and why.
    pub(crate) fn uncleanable(&self) -> Vec<(TopicPartition, String)> {
        let state = self.shared.lock();
        state.uncleanable.iter().map(|(which, reason)| (which.0.clone(), reason.clone())).collect()
    }

    fn lock_threads(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, CleanerState> {
        // Every critical section leaves the state consistent even if it were to panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
