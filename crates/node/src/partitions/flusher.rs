//! The flusher: a bounded pool of threads that makes appends durable, for all partitions together.
//!
//! Group commit: appends gather while one sync runs, and the next sync serves all of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::Instant;

use tailrace_log::LogError;
use tailrace_replication::SyncOutcome;

use crate::metrics::NodeMetrics;
use crate::partitions::handle::{Flusher, PartitionHandle};
use crate::partitions::workers::Workers;
use tailrace_env::time::wall_clock;

/// Starts the pool with `threads` threads.
///
/// # Errors
/// The operating system's error if it cannot create a thread.
pub(crate) fn start_flusher(threads: usize, metrics: Arc<NodeMetrics>) -> std::io::Result<Flusher> {
    let sync = move |partition: &Arc<PartitionHandle>| sync(partition, &metrics);
    let panicked = PartitionHandle::take_out_of_service;
    Workers::start("flush", threads, |partition: &PartitionHandle| &partition.syncs, sync, panicked)
}

/// Runs one sync. Returns true if another one is already due.
fn sync(partition: &Arc<PartitionHandle>, metrics: &NodeMetrics) -> bool {
    let checkpoint = partition.checkpoint_due.swap(false, Ordering::AcqRel);
    let Some(ticket) = partition.begin_sync(checkpoint) else { return false };
    let started = Instant::now();
    let result = ticket.run();
    // The records were synced. Only the checkpoint, or the snapshot beside it, did not fit on the disk.
    let is_unwritten = result.as_ref().is_err_and(LogError::is_no_space);
    metrics.synced(started.elapsed(), result.is_ok() || is_unwritten);
    let finished = partition.with_blocking(|core| core.finish_sync(&ticket, &result, wall_clock()));
    // The partition was closed meanwhile: nothing waits for this sync, and its failure does not matter.
    let Some(outcome) = finished else { return false };
    let was_unwritten = partition.checkpoint_unwritten.load(Ordering::Relaxed);
    match &result {
        Ok(()) if checkpoint => partition.checkpoint_unwritten.store(false, Ordering::Relaxed),
        Ok(()) => {}
        Err(error) if is_unwritten => {
            // The next round of checkpoints retries silently.
            partition.checkpoint_unwritten.store(true, Ordering::Relaxed);
            partition.checkpointed_at.store(-1, Ordering::Relaxed);
            if !was_unwritten {
                tracing::warn!(partition = %partition.id, %error, "could not write a checkpoint. No record is missing");
            }
        }
        Err(error) => tracing::error!(partition = %partition.id, %error, ?outcome, "a sync failed"),
    }
    outcome == SyncOutcome::Again
}
