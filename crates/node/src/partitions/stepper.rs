//! The stepper: a bounded pool of threads that steps replicas. A step may block on the disk, for a vote or for what is cut off.

use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{task, time};

use bytes::Bytes;
use tailrace_replication::raft::{ChunkRequest, PeerMessage};

use crate::partitions::handle::{Core, PartitionHandle};
use crate::partitions::inbox::Received;
use crate::partitions::workers::Workers;
use tailrace_env::time::wall_clock;

/// Times that a chunk is asked for in vain, in a row.
const CHUNK_FAILURES_MAX: u32 = 20;

/// Pause after a chunk that did not come.
const CHUNK_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The pool.
pub(crate) struct Stepper(Workers<PartitionHandle>);

impl Stepper {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let runtime = task::Spawner::current();
        let step = move |partition: &Arc<PartitionHandle>| {
            if step(partition) && partition.inbox.begin_fetching() {
                runtime.spawn(fetch_snapshot(Arc::clone(partition)));
            }
            // It went to sleep relying on a node that was lost meanwhile.
            partition.must_wake()
        };
        let panicked = PartitionHandle::take_out_of_service;
        Workers::start("step", threads, |partition: &PartitionHandle| &partition.inbox.claim, step, panicked)
            .map(Self)
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

/// True if the replica is too far behind, and wants segments.
fn step(partition: &Arc<PartitionHandle>) -> bool {
    let received = partition.inbox.take();
    let stepped = partition.with_blocking(|core| step_core(partition, core, received));
    if stepped.is_none() {
        partition.sleep.set_gone();
    }
    stepped.unwrap_or(false)
}

fn step_core(partition: &PartitionHandle, core: &mut Core, received: Received) -> bool {
    let Some(replica) = core.replica() else { return false };
    let now = wall_clock();
    replica.set_lease(partition.lease());
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
    replica.wanted_chunk().is_some()
}

/// Fetches the snapshot that the replica wants, one chunk after the other, until it has it or wants none any more.
async fn fetch_snapshot(partition: Arc<PartitionHandle>) {
    tracing::info!(partition = %partition.id, "this replica is too far behind, or damaged: it fetches what it needs from another one");
    let mut failures = 0;
    while failures < CHUNK_FAILURES_MAX
        && let Some(request) = wanted_chunk(&partition).await
    {
        match partition.ask_chunk(&request).await {
            Ok(chunk) => {
                failures = 0;
                take_chunk(&partition, request, chunk).await;
            }
            // It is asked again. In the end its leader offers another one, or another node leads.
            Err(error) => {
                tracing::debug!(partition = %partition.id, %error, "a chunk did not come");
                failures += 1;
                time::sleep(CHUNK_RETRY_INTERVAL).await;
            }
        }
    }
    partition.inbox.end_fetching();
}

async fn wanted_chunk(partition: &PartitionHandle) -> Option<ChunkRequest> {
    partition.look(|core| core.as_replica()?.wanted_chunk()).await.flatten()
}

/// What has come is written, and at the end put in place. With the last chunk everything up to the snapshot is committed here,
/// perhaps without a word from the leader ever after.
async fn take_chunk(partition: &Arc<PartitionHandle>, request: ChunkRequest, chunk: Option<Bytes>) {
    partition.wrote(chunk.as_ref().map_or(0, Bytes::len));
    let take = move |core: &mut Core| {
        if let Some(replica) = core.replica() {
            replica.take_chunk(&request, chunk, wall_clock());
        }
    };
    partition.with_on_worker(take).await;
}
