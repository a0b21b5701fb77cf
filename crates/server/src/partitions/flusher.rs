//! The flusher: a bounded pool of threads that makes appends durable, for all partitions together.
//!
//! Group commit: while one sync runs, appends gather, and the next sync serves all of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tailrace_replication::SyncOutcome;

use crate::broker::wall_clock;
use crate::metrics::Metrics;
use crate::partitions::handle::PartitionHandle;
use crate::partitions::workers::Workers;

/// The pool. Dropping it without [`Flusher::stop`] leaves the threads waiting.
pub(crate) struct Flusher(Workers);

impl Flusher {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn start(threads: usize, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let sync = move |partition: &Arc<PartitionHandle>| sync(partition, &metrics);
        Workers::start(("flush", threads), |partition| &partition.syncs, sync).map(Self)
    }

    /// Schedules a sync of everything appended to `partition` so far.
    pub(crate) fn schedule(&self, partition: &Arc<PartitionHandle>) {
        self.0.schedule(partition);
    }

    /// Lets the queue run empty and ends the threads.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

/// True if another sync is due already.
pub(crate) fn sync(partition: &PartitionHandle, metrics: &Metrics) -> bool {
    let checkpoint = partition.checkpoint_due.swap(false, Ordering::AcqRel);
    let ticket = {
        let mut core = partition.core.blocking_lock();
        core.as_mut().and_then(|core| core.begin_sync(checkpoint))
    };
    let Some(ticket) = ticket else { return false };
    let started = Instant::now();
    let result = ticket.run();
    metrics.synced(started.elapsed(), result.is_ok());
    let outcome = {
        let mut core = partition.core.blocking_lock();
        // Deleted meanwhile: nobody waits for this sync, and its failure is no news.
        let Some(core) = core.as_mut() else { return false };
        let outcome = core.finish_sync(&ticket, &result, wall_clock());
        partition.stepped(core);
        outcome
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
