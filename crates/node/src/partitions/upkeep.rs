//! Periodic work on partitions: retention, `flush.ms`, recovery checkpoints. Also their orderly end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{panics, task, time};

use tailrace_env::task::JoinSet;
use tailrace_env::time::{Interval, MissedTicks};
use tailrace_log::Trim;
use tailrace_replication::raft::Replica;
use tailrace_replication::{AppendError, Durability};
use tailrace_types::{LogEnd, Offset, RaftGroup};

use crate::caller::Caller;
use crate::controller::StopReason;
use crate::deadlines::LOG_START_TIMEOUT;
use crate::disk::NodeDisk;
use crate::node::Node;
use crate::partitions::TopicTable;
use crate::partitions::failure::AppendFailure;
use crate::partitions::handle::{Core, Ending, PartitionHandle};

/// Interval between two checks for replicas that a full disk has stopped.
const REVIVE_INTERVAL: Duration = Duration::from_secs(2);

/// They are opened again with at least this much room, in bytes.
const REVIVE_ROOM: u64 = 64 << 20;

/// Partitions that could not be opened are retried with at least this much room, in bytes. It is far more
/// than opening writes, so that opening does not fail again and again.
const OPEN_ROOM: u64 = 1 << 20;

/// Pause if there was no room in spite of that, most likely because of a quota.
const OPEN_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// How often `flush.ms` is checked: a record may wait this much longer.
const FLUSH_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How often to check for segments that are old enough to be closed: one may be that much older.
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until the task is dropped.
pub(crate) async fn keep_up(node: Arc<Node>) {
    let config = node.config();
    let mut retention = every(Duration::from_millis(config.log_retention_check_interval_ms));
    let mut checkpoint = every(Duration::from_millis(config.tailrace_checkpoint_interval_ms));
    let mut flush = every(FLUSH_CHECK_INTERVAL);
    let mut close = every(CLOSE_CHECK_INTERVAL);
    // The first tick of an interval comes at once.
    retention.tick().await;
    checkpoint.tick().await;
    loop {
        let next = [&retention, &checkpoint, &flush, &close].map(Interval::next_at);
        time::sleep_until(next.into_iter().min().expect("there are four")).await;
        // Each gets its turn, however long the others take.
        if retention.take_due() {
            retain_all(&node).await;
        }
        if checkpoint.take_due() {
            checkpoint_all(&node).await;
        }
        if flush.take_due() {
            flush_all(&node).await;
        }
        if close.take_due() {
            close_old_segments(&node).await;
        }
    }
}

/// Opens what a full disk has stopped, or kept from being opened, once there is room. Runs until the task is
/// dropped. It starts before the node knows the cluster's metadata, because their log may be what has
/// stopped.
pub(crate) async fn keep_open(node: Arc<Node>) {
    let mut open_at = Instant::now();
    loop {
        time::sleep(REVIVE_INTERVAL).await;
        revive_all(&node).await;
        open_with_newest_metadata(&node).await;
        if Instant::now() >= open_at && !open_waiting(&node).await {
            open_at = Instant::now() + OPEN_RETRY_INTERVAL;
        }
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = time::interval(period);
    interval.set_missed(MissedTicks::Delay);
    interval
}

/// Removes what has outlived its retention, one partition after the other, so that this never crowds out
/// requests.
async fn retain_all(node: &Arc<Node>) {
    let handles: Vec<_> = node.topics().online().cloned().collect();
    for handle in handles {
        let now = node.now();
        match trim(&handle, move |core| core.retain(now).map_err(AppendFailure::Refused)).await {
            Ok(Some(trim)) => tracing::info!(
                partition = %handle.id, segments = trim.segments().len(), log_start = %trim.log_start(), "retention"
            ),
            Err(AppendFailure::Refused(error)) if !matches!(error, AppendError::Halted { .. }) => {
                tracing::error!(%error, "retention failed");
            }
            Ok(None) | Err(_) => {}
        }
    }
}

/// Plans a trim under the partition's lock and runs it without the lock.
async fn trim(
    handle: &Arc<PartitionHandle>,
    plan: impl FnOnce(&mut Core) -> Result<Option<Trim<NodeDisk>>, AppendFailure> + Send + 'static,
) -> Result<Option<Trim<NodeDisk>>, AppendFailure> {
    // On a worker, because a replica first records durably what it drops of raft's log.
    let planned = handle.with_on_worker(plan).await.ok_or_else(|| handle.absent())??;
    let Some(trim) = planned else { return Ok(None) };
    let own = Arc::clone(handle);
    let run = move || match catch_unwind(AssertUnwindSafe(|| trim.run())) {
        Ok(result) => Some((trim, result)),
        Err(panic) => {
            own.take_out_of_service(panics::reason_of(&*panic));
            None
        }
    };
    let ran = task::spawn_blocking(run).await.ok().flatten();
    let (trim, result) = ran.ok_or_else(|| handle.absent())?;
    // A full disk is temporary. Any other failure halts the partition.
    handle.with(|core| core.finish_trim(&trim, &result)).await;
    match result {
        Ok(()) => Ok(Some(trim)),
        Err(error) => Err(AppendFailure::Refused(AppendError::Log(error))),
    }
}

/// Asks for a recovery checkpoint where there are new records that are durable anyway. Leaves relaxed topics
/// to their own settings: their checkpoints are written when a segment is closed.
async fn checkpoint_all(node: &Arc<Node>) {
    for handle in node.topics().online() {
        let end = handle.reader.log_end();
        if handle.checkpointed_at.load(Ordering::Relaxed) == end.get() {
            continue;
        }
        let strict = matches!(handle.policy().durability, Durability::Strict);
        if strict && !handle.is_halted() {
            handle.checkpointed_at.store(end.get(), Ordering::Relaxed);
            handle.checkpoint_due.store(true, Ordering::Release);
            node.flusher.schedule(handle);
        }
    }
}

async fn flush_all(node: &Arc<Node>) {
    let topics = node.topics();
    let now = node.now();
    for handle in topics.online() {
        let relaxed = matches!(handle.policy().durability, Durability::Relaxed { flush_ms: Some(_), .. });
        if relaxed && handle.look(|core| core.flush_ms_due(now)).await.unwrap_or(false) {
            node.flusher.schedule(handle);
        }
    }
}

/// Closes segments by age in partitions without appends, so that retention and compaction reach them.
/// Checking whether one is due takes no lock, so idle partitions cost next to nothing.
async fn close_old_segments(node: &Arc<Node>) {
    let now = node.now();
    let is_due =
        |handle: &&Arc<PartitionHandle>| handle.reader.log().is_closing_due(now) && !handle.is_halted();
    let due: Vec<_> = node.topics().online().filter(is_due).cloned().collect();
    for handle in due {
        // On a worker, because preallocated blocks are released.
        handle.with_on_worker(move |core| core.close_old_segment(now)).await;
    }
}

/// Opens partitions for which there was no room at the start, or when they were created, once there is room.
/// Returns false at the first one that still finds none, because there is none for the others either.
async fn open_waiting(node: &Arc<Node>) -> bool {
    if node.space.free_bytes().is_none_or(|free| free < OPEN_ROOM) {
        return true;
    }
    let topics = Arc::clone(&node.topics());
    for topic in topics.iter() {
        for (id, offline) in topic.offline() {
            let group = RaftGroup { topic: topic.id, partition: id.partition };
            if offline.waits_for_room && !node.controller.open_waiting(group, node.now()).await {
                return false;
            }
        }
    }
    true
}

/// Opens partitions that were not opened because their folder was missing or belonged to another topic of the
/// same name, as far as the metadata of that time could tell.
async fn open_with_newest_metadata(node: &Arc<Node>) {
    let waiting = |topics: &TopicTable| -> Vec<RaftGroup> {
        let all = topics.iter().flat_map(|topic| {
            let waiting = topic.offline().filter(|(_, offline)| offline.waits_for_metadata);
            waiting.map(|(id, _)| RaftGroup { topic: topic.id, partition: id.partition })
        });
        all.collect()
    };
    if waiting(&node.topics()).is_empty() || node.controller.catch_up(node.now()).await.is_err() {
        return;
    }
    for group in waiting(&node.topics()) {
        node.controller.open_waiting(group, node.now()).await;
    }
}

/// Opens replicas again that a full disk has stopped, once there is room. A partition with a single replica
/// resumes by itself.
async fn revive_all(node: &Arc<Node>) {
    if node.space.free_bytes().is_some_and(|free| free < REVIVE_ROOM) {
        return;
    }
    let halted = |handle: &&Arc<PartitionHandle>| handle.is_replica() && handle.is_halted();
    let halted: Vec<_> = node.topics().online().filter(halted).cloned().collect();
    for handle in halted {
        let ran_out_of_room = |core: &Core| core.as_replica().is_some_and(Replica::ran_out_of_room);
        if handle.look(ran_out_of_room).await.unwrap_or(false) {
            node.controller.reopen(&handle, node.now()).await;
        }
    }
    if node.controller.handle().is_halted() {
        node.controller.reopen_log(StopReason::NoRoom, node.now()).await;
    }
}

/// Moves a partition's log start forward (DeleteRecords). Durable on return. Once started, it completes even
/// if the caller is dropped meanwhile.
pub async fn advance_log_start(
    node: &Arc<Node>,
    caller: &Caller,
    handle: &Arc<PartitionHandle>,
    to: Offset,
) -> Result<Offset, AppendFailure> {
    tracing::debug!(%caller, partition = %handle.id, %to, "deleting records");
    let (handle, flusher) = (Arc::clone(handle), Arc::clone(&node.flusher));
    let now = node.now();
    let work = async move {
        let trimmed = trim(&handle, move |core| Ok(core.advance_log_start(to, now)?)).await?;
        if let Some(trim) = trimmed {
            return Ok(trim.log_start());
        }
        // One of several replicas: the log start moves once a majority has recorded it.
        flusher.schedule(&handle);
        match time::timeout(LOG_START_TIMEOUT, handle.wait_log_start(to)).await {
            Ok(true) => Ok(handle.reader.log_start()),
            Ok(false) => Err(AppendFailure::NotLeader),
            Err(_) => Err(AppendFailure::TooFewReplicas),
        }
    };
    task::spawn(work).await.unwrap_or(Err(AppendFailure::Gone))
}

/// Closes every partition cleanly, several at a time. Returns how many could not be.
pub(crate) async fn close_all(node: &Arc<Node>) -> usize {
    /// Number closed concurrently. Each waits for a few syncs.
    const AT_ONCE: usize = 16;

    let mut handles: Vec<_> = node.topics().online().cloned().collect();
    let mut closing = JoinSet::new();
    let mut failed = 0;
    loop {
        while closing.len() < AT_ONCE {
            let Some(handle) = handles.pop() else { break };
            closing.spawn(close(handle));
        }
        match closing.join_next().await {
            None => return failed,
            Some(Ok(true)) => {}
            Some(Ok(false) | Err(_)) => failed += 1,
        }
    }
}

async fn close(handle: Arc<PartitionHandle>) -> bool {
    let end: LogEnd = handle.reader.log_end();
    match handle.close(Ending::Stopped).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(partition = %handle.id, log_end = %end, %error, "the partition was not closed cleanly");
            false
        }
    }
}
