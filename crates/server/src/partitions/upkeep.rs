//! What time brings to partitions: retention, `flush.ms`, recovery checkpoints; and their orderly end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tailrace_log::Trim;
use tailrace_replication::{AppendError, Durability, Solo};
use tailrace_types::{LogEnd, Offset};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::broker::Broker;
use crate::disk::ServerDisk;
use crate::partitions::append::AppendFailure;
use crate::partitions::handle::PartitionHandle;

type Core = Solo<ServerDisk>;

/// How often `flush.ms` is looked at: a record may wait this much longer.
const FLUSH_LOOK: Duration = Duration::from_millis(50);

/// Runs until the task is dropped.
pub(crate) async fn keep_up(broker: Arc<Broker>) {
    let config = broker.config();
    let mut retention = interval(config.log_retention_check_interval_ms);
    let mut checkpoint = interval(config.tailrace_checkpoint_interval_ms);
    let mut flush = tokio::time::interval(FLUSH_LOOK);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick of an interval comes at once.
    retention.tick().await;
    checkpoint.tick().await;
    loop {
        tokio::select! {
            _ = retention.tick() => retain_all(&broker).await,
            _ = checkpoint.tick() => checkpoint_all(&broker).await,
            _ = flush.tick() => flush_all(&broker).await,
        }
    }
}

fn interval(ms: u64) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(Duration::from_millis(ms));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Removes what has outlived its retention, one partition after the other, so that this never crowds out requests.
async fn retain_all(broker: &Arc<Broker>) {
    let handles: Vec<_> = broker.topics().online().cloned().collect();
    for handle in handles {
        let now = broker.now();
        match trim(&handle, move |core| core.retain(now)).await {
            Ok(Some(trim)) => tracing::info!(
                partition = %handle.id, segments = trim.segments().len(), log_start = %trim.log_start(), "retention"
            ),
            Ok(None) | Err(AppendFailure::Gone | AppendFailure::Refused(AppendError::Halted { .. })) => {}
            Err(AppendFailure::Refused(error)) => tracing::error!(%error, "retention failed"),
        }
    }
}

/// Plans a trim under the partition's lock and carries it out without.
///
/// The lock is never waited for on a worker thread: an append may hold it while it waits for such a thread.
async fn trim(
    handle: &Arc<PartitionHandle>,
    plan: impl FnOnce(&mut Core) -> Result<Option<Trim<ServerDisk>>, AppendError>,
) -> Result<Option<Trim<ServerDisk>>, AppendFailure> {
    let planned = match handle.core.lock().await.as_mut() {
        Some(core) => plan(core).map_err(AppendFailure::Refused)?,
        None => return Err(AppendFailure::Gone),
    };
    let Some(trim) = planned else { return Ok(None) };
    let (trim, result) = tokio::task::spawn_blocking(move || {
        let result = trim.run();
        (trim, result)
    })
    .await
    .map_err(|_| AppendFailure::Gone)?;
    if let Some(core) = handle.core.lock().await.as_mut() {
        core.finish_trim(&trim, &result);
    }
    handle.watermark_moved();
    match result {
        Ok(()) => Ok(Some(trim)),
        Err(error) => {
            // A full disk is passing trouble; any other failure has halted the partition.
            if !error.is_no_space() {
                handle.stop_waiters();
            }
            Err(AppendFailure::Refused(AppendError::Log(error)))
        }
    }
}

/// Asks for a recovery checkpoint where there is something new that is durable anyway. A relaxed topic is left to its
/// own settings: its checkpoints come when a segment is closed.
async fn checkpoint_all(broker: &Arc<Broker>) {
    for handle in broker.topics().online() {
        let end = handle.reader.log_end();
        if handle.checkpointed_at.load(Ordering::Relaxed) == end.get() {
            continue;
        }
        let strict = matches!(handle.policy().durability, Durability::Strict);
        if strict && !handle.halted.load(Ordering::Acquire) {
            handle.checkpointed_at.store(end.get(), Ordering::Relaxed);
            handle.checkpoint_due.store(true, Ordering::Release);
            broker.flusher.schedule(handle);
        }
    }
}

async fn flush_all(broker: &Arc<Broker>) {
    let topics = broker.topics();
    let now = broker.now();
    for handle in topics.online() {
        let relaxed = matches!(handle.policy().durability, Durability::Relaxed { flush_ms: Some(_), .. });
        if relaxed && handle.core.lock().await.as_ref().is_some_and(|core| core.flush_ms_due(now)) {
            broker.flusher.schedule(handle);
        }
    }
}

/// Moves a partition's log start forward (DeleteRecords); durable when it returns. What was begun is carried out even if
/// the caller is dropped meanwhile.
pub(crate) async fn advance_log_start(
    handle: &Arc<PartitionHandle>,
    to: Offset,
) -> Result<Offset, AppendFailure> {
    let handle = Arc::clone(handle);
    let work = async move { trim(&handle, |core| core.advance_log_start(to).map(Some)).await };
    match tokio::spawn(work).await {
        Ok(trimmed) => Ok(trimmed?.map_or(to, |trim| trim.log_start())),
        Err(_) => Err(AppendFailure::Gone),
    }
}

/// Closes every partition cleanly, several at a time. Returns how many could not be.
pub(crate) async fn close_all(broker: &Arc<Broker>) -> usize {
    /// Closed at once; each waits for a few syncs.
    const AT_ONCE: usize = 16;

    let mut handles: Vec<_> = broker.topics().online().cloned().collect();
    let mut closing = JoinSet::new();
    let mut failed = 0;
    loop {
        while closing.len() < AT_ONCE {
            let Some(handle) = handles.pop() else { break };
            // Not on the worker: an append may hold the lock while it waits for one.
            let core = handle.core.lock().await.take();
            closing.spawn_blocking(move || core.is_none_or(|core| close(&handle, core)));
        }
        match closing.join_next().await {
            None => return failed,
            Some(Ok(true)) => {}
            Some(Ok(false) | Err(_)) => failed += 1,
        }
    }
}

fn close(handle: &PartitionHandle, core: Core) -> bool {
    let end: LogEnd = handle.reader.log_end();
    let closed = core.close();
    handle.stop_waiters();
    match closed {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(partition = %handle.id, log_end = %end, %error, "the partition was not closed cleanly");
            false
        }
    }
}
