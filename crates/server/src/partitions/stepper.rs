//! The stepper: a bounded pool of threads that steps replicas. A step may block on the disk, for a vote or for what is cut off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tailrace_replication::Partition;
use tailrace_replication::raft::{ChunkRequest, PeerMessage};

use crate::broker::wall_clock;
use crate::disk::ServerDisk;
use crate::partitions::flusher::Flusher;
use crate::partitions::handle::PartitionHandle;
use crate::partitions::inbox::Received;
use crate::partitions::workers::Workers;

/// Times that a chunk is asked for in vain, in a row.
const CHUNK_FAILURES_MAX: u32 = 20;

/// Pause after a chunk that did not come.
const CHUNK_PAUSE: Duration = Duration::from_millis(200);

/// The pool.
pub(crate) struct Stepper(Workers);

impl Stepper {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn start(threads: usize, flusher: Arc<Flusher>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Handle::current();
        let step = move |partition: &Arc<PartitionHandle>| {
            let due = step(partition);
            if due.sync {
                flusher.schedule(partition);
            }
            if due.fetch && partition.inbox.begin_fetching() {
                runtime.spawn(fetch_snapshot(Arc::clone(partition), Arc::clone(&flusher)));
            }
            due.again
        };
        Workers::start(("step", threads), |partition| &partition.inbox.claim, step).map(Self)
    }

    /// Takes a message for the replica. False if it was dropped, as too many wait already.
    pub(crate) fn receive(&self, partition: &Arc<PartitionHandle>, message: PeerMessage) -> bool {
        let taken = partition.inbox.put(message);
        if taken {
            self.0.schedule(partition);
        }
        taken
    }

    /// Steps the replica with what is in its inbox.
    pub(crate) fn schedule(&self, partition: &Arc<PartitionHandle>) {
        self.0.schedule(partition);
    }

    /// How many replicas wait to be stepped.
    pub(crate) fn queued(&self) -> usize {
        self.0.queued()
    }

    /// For each thread a number that changes whenever it begins or ends with a replica; odd in between.
    pub(crate) fn progress(&self) -> impl ExactSizeIterator<Item = u64> {
        self.0.progress()
    }

    /// Lets the queue run empty and ends the threads.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

/// What a step leaves to be done.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    sync: bool,
    /// The replica is too far behind, and wants segments.
    fetch: bool,
    /// It went to sleep relying on a node that was lost meanwhile.
    again: bool,
}

fn step(partition: &Arc<PartitionHandle>) -> Due {
    let received = partition.inbox.take();
    let before = partition.reader.high_watermark();
    let mut slot = partition.core.blocking_lock();
    let Some(core) = slot.as_mut() else {
        partition.sleep.set_gone();
        return Due::default();
    };
    let stepped = catch_unwind(AssertUnwindSafe(|| step_core(partition, core, received)));
    let Ok((mut due, halted)) = stepped else {
        tracing::error!(partition = %partition.id, "a replica's step panicked: it is taken out of service");
        *slot = None;
        drop(slot);
        partition.stop_waiters();
        return Due::default();
    };
    drop(slot);
    if let Some(reason) = halted {
        if !partition.halted.load(std::sync::atomic::Ordering::Acquire) {
            tracing::error!(partition = %partition.id, %reason, "the replica has stopped");
            partition.stop_waiters();
        }
    } else if partition.reader.high_watermark() > before {
        partition.watermark_moved();
    }
    due.again = partition.must_wake();
    due
}

fn step_core(
    partition: &PartitionHandle,
    core: &mut Partition<ServerDisk>,
    received: Received,
) -> (Due, Option<String>) {
    let Some(replica) = core.replica() else { return (Due::default(), None) };
    let now = wall_clock();
    replica.set_voucher(partition.voucher());
    if let Some(spread_ticks) = received.wakes {
        replica.wake(spread_ticks);
    }
    for _ in 0..received.ticks_before {
        replica.tick(now);
    }
    for message in received.messages {
        replica.receive(message, now);
    }
    for _ in 0..received.ticks {
        replica.tick(now);
    }
    if replica.leader().is_some() {
        partition.inbox.set_eager(false);
    } else if received.asks {
        replica.campaign(now);
    }
    let due = Due { sync: replica.sync_due(), fetch: replica.wanted_chunk().is_some(), again: false };
    let outcome = (due, replica.halted().map(str::to_owned));
    partition.stepped(core);
    outcome
}

/// Fetches the snapshot that the replica wants, one chunk after the other, until it has it or wants none any more.
async fn fetch_snapshot(partition: Arc<PartitionHandle>, flusher: Arc<Flusher>) {
    tracing::info!(partition = %partition.id, "this replica is too far behind, or damaged: it fetches what it needs from another one");
    let mut failures = 0;
    while failures < CHUNK_FAILURES_MAX
        && let Some(request) = wanted_chunk(&partition).await
    {
        match partition.ask_chunk(&request).await {
            Ok(chunk) => {
                failures = 0;
                take_chunk(&partition, request, chunk).await;
                flusher.schedule(&partition);
            }
            // It is asked again. In the end its leader offers another one, or another node leads.
            Err(error) => {
                tracing::debug!(partition = %partition.id, %error, "a chunk did not come");
                failures += 1;
                tokio::time::sleep(CHUNK_PAUSE).await;
            }
        }
    }
    partition.inbox.end_fetching();
}

async fn wanted_chunk(partition: &PartitionHandle) -> Option<ChunkRequest> {
    partition.core.lock().await.as_mut()?.replica()?.wanted_chunk()
}

/// On a worker: what has come is written, and at the end put in place.
async fn take_chunk(partition: &Arc<PartitionHandle>, request: ChunkRequest, chunk: Option<Bytes>) {
    let mut core = Arc::clone(&partition.core).lock_owned().await;
    let partition = Arc::clone(partition);
    let work = move || {
        if let Some(core) = core.as_mut()
            && let Some(replica) = core.replica()
        {
            replica.take_chunk(&request, chunk, wall_clock());
            partition.stepped(core);
        }
        drop(core);
        // With the last chunk everything up to the snapshot is committed here, perhaps without a word from the leader ever after.
        partition.watermark_moved();
    };
    if tokio::task::spawn_blocking(work).await.is_err() {
        tracing::error!("putting a snapshot in place panicked");
    }
}
