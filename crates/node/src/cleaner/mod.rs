//! The cleaner: its own threads, which compact the partitions of topics with `cleanup.policy=compact`.
//!
//! Each thread (`threads`) takes the partition with the largest dirty share that is worth cleaning, compacts
//! it, and checks again. If there is none it waits for `log.cleaner.backoff.ms`. Nothing here runs on an
//! event loop, and a partition's lock is held only to plan a round and to exchange segments. A partition that
//! cannot be compacted is skipped until the next start, or until its topic's policy changes to `compact`
//! again. It is logged once, counted, and named by `/healthz`.

mod budget;
mod pace;
mod pick;
mod round;
mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;
use tailrace_env::thread::{Bell, Thread};
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use tailrace_log::Trim;
use tailrace_types::{TopicId, TopicPartition};

use self::budget::Budget;
use crate::disk::NodeDisk;
use crate::partitions::PartitionHandle;

/// Maximum interval between two checks whether a thread should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A partition, with the topic's id because a topic may be created again under its name.
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
    /// Partitions that a thread is working on.
    taken: Vec<Which>,
    /// Why these partitions are skipped.
    uncleanable: BTreeMap<Which, String>,
    /// Earliest time of the next attempt, after the disk was full.
    retry_at: BTreeMap<Which, Instant>,
    /// Exchanges of segments that the log has made, but that could not become durable on a full disk.
    unfinished: Vec<(Arc<PartitionHandle>, Trim<NodeDisk>)>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Cleaner {
    /// Ends the threads. What a round has put in place stays, and the next start redoes the rest. Blocks for
    /// at most one read or write and one sync.
    pub(crate) fn stop(&self) {
        self.shared.stop.ring();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a cleaner thread panicked");
            }
        }
        // The next start removes their segments.
        self.shared.state.lock().unfinished.clear();
    }

    /// Lists partitions that cannot be compacted, with the reason.
    pub(crate) fn uncleanable(&self) -> Vec<(TopicPartition, String)> {
        let state = self.shared.state.lock();
        state.uncleanable.iter().map(|(which, reason)| (which.0.clone(), reason.clone())).collect()
    }
}
