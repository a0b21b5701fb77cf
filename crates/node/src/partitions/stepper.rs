//! The stepper: a bounded pool of threads that steps replicas. A step may block on the disk, for a vote or a
//! truncation.

use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{task, time};

use bytes::Bytes;
use tailrace_replication::raft::{ChunkRequest, PeerMessage};

use crate::partitions::handle::{Core, PartitionHandle};
use crate::partitions::inbox::Received;
use crate::partitions::workers::Workers;
use tailrace_env::time::wall_clock;

/// Consecutive failures after which a fetch of chunks ends.
const CHUNK_FAILURES_MAX: u32 = 20;

/// Pause after a chunk that did not arrive.
const CHUNK_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The pool.
pub(crate) struct Stepper(Workers<PartitionHandle>);

impl Stepper {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The operating system's error if it cannot create a thread.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let runtime = task::Spawner::current();
        let step = move |partition: &Arc<PartitionHandle>| {
            if step(partition) && partition.inbox.begin_fetching() {
                runtime.spawn(fetch_snapshot(Arc::clone(partition)));
            }
            // The replica may have gone to sleep relying on a node that was lost meanwhile.
            partition.must_wake()
        };
        let panicked = PartitionHandle::take_out_of_service;
        Workers::start("step", threads, |partition: &PartitionHandle| &partition.inbox.claim, step, panicked)
            .map(Self)
    }

    /// Queues a message for the replica. False if it was dropped because too many are waiting.
    pub(crate) fn receive(&self, partition: &Arc<PartitionHandle>, message: PeerMessage) -> bool {
        let taken = partition.inbox.put(message);
        if taken {
            self.0.schedule(partition);
        }
        taken
    }

    /// Steps the replica with the contents of its inbox.
    pub(crate) fn schedule(&self, partition: &Arc<PartitionHandle>) {
        self.0.schedule(partition);
    }

    /// Returns how many replicas wait to be stepped.
    pub(crate) fn queued(&self) -> usize {
        self.0.queued()
    }

    /// Returns one number per thread, which changes whenever the thread starts or finishes a replica. It is
    /// odd in between.
    pub(crate) fn progress(&self) -> impl ExactSizeIterator<Item = u64> {
        self.0.progress()
    }

    /// Drains the queue and ends the threads.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

/// Steps the replica once. True if it is too far behind and wants segments.
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

/// Fetches the snapshot that the replica wants, one chunk after the other, until it has the snapshot or no
/// longer wants one.
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
            // The loop asks again. In the end the leader offers another snapshot, or another node leads.
            Err(error) => {
                tracing::debug!(partition = %partition.id, %error, "a chunk did not arrive");
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

/// Writes the chunk, and puts the snapshot in place with the last one. After the last chunk, everything up to
/// the snapshot is committed here, even if the leader never sends another message.
async fn take_chunk(partition: &Arc<PartitionHandle>, request: ChunkRequest, chunk: Option<Bytes>) {
    partition.wrote(chunk.as_ref().map_or(0, Bytes::len));
    let take = move |core: &mut Core| {
        if let Some(replica) = core.replica() {
            replica.take_chunk(&request, chunk, wall_clock());
        }
    };
    partition.with_on_worker(take).await;
}
