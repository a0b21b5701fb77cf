//! Appends a validated batch, or the marker that ends a transaction: on the event loop where that is quick,
//! on a worker thread where the disk may block.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailrace_records::{BatchHeader, Validated};
use tailrace_replication::{Appended, ProducerState, TransactionMarker, VerificationGuard};
use tailrace_types::{HighWatermark, LeaderEpoch, Offset, ProducerId, TimestampMs};

use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::failure::AppendFailure;
use crate::partitions::handle::{Awaited, Core, PartitionHandle};
use crate::taps::{TapRange, WantedBy};

/// A partition under its lock, for an append whose batch depends on what was appended before.
pub(crate) struct Appending<'a> {
    core: &'a mut Core,
    node: &'a Arc<Node>,
    partition: &'a Arc<PartitionHandle>,
}

impl Appending<'_> {
    /// The epoch in which this node leads the partition.
    pub(crate) fn leads(&self) -> Option<LeaderEpoch> {
        self.core.leads()
    }

    /// The offset of the next record.
    pub(crate) fn log_end(&self) -> Offset {
        self.partition.reader.log_end().offset()
    }

    /// What has to be committed so that everything is that was appended so far. `None` if nothing was.
    pub(crate) fn end(&self) -> Option<Awaited> {
        let end = self.log_end();
        let epoch = self.partition.reader.log().epoch_at(end.plus(-1)).filter(|_| end > Offset(0))?;
        Some(Awaited { at: HighWatermark(end.get()), epoch })
    }

    /// The batches that are remembered of a producer, and its last sequence.
    pub(crate) fn producer(&self, id: ProducerId) -> Option<&ProducerState> {
        self.core.producers().get(id)
    }

    /// Appends a batch. Watches do not hear of it.
    pub(crate) fn append(
        &mut self,
        batch: Validated,
        wanted: WantedBy,
        now: TimestampMs,
    ) -> Result<Appended, AppendFailure> {
        let what = What::Batch { batch, guard: None, wanted };
        append_unwatched(self.core, self.node, self.partition, &Entry { what, only_in: None, now })
    }
}

/// Works on a partition under its lock: on a thread that may block, or, if the work is short, on the event
/// loop. Work that was started completes even if the caller is dropped meanwhile.
pub(crate) async fn appending<R: Send + 'static>(
    node: &Arc<Node>,
    partition: &Arc<PartitionHandle>,
    is_short: bool,
    work: impl FnOnce(&mut Appending<'_>) -> R + Send + 'static,
) -> Result<R, AppendFailure> {
    partition.wake_up();
    let has_begun = partition.epoch_begun.load(Ordering::Acquire);
    if is_short && has_begun && !node.dirty.writes_may_block() {
        let done = partition.with(|core| work(&mut Appending { core, node, partition })).await;
        return done.ok_or_else(|| partition.absent());
    }
    let own = (Arc::clone(node), Arc::clone(partition));
    let work = move |core: &mut Core| {
        let (node, partition) = &own;
        core.begin_epoch().map_err(AppendFailure::Refused)?;
        partition.epoch_begun.store(true, Ordering::Release);
        Ok(work(&mut Appending { core, node, partition }))
    };
    partition.with_on_worker(work).await.unwrap_or_else(|| Err(partition.absent()))
}

/// What to append, and the only epoch in which to append it, if that matters.
struct Entry {
    what: What,
    only_in: Option<LeaderEpoch>,
    now: TimestampMs,
}

enum What {
    Batch { batch: Validated, guard: Option<VerificationGuard>, wanted: WantedBy },
    Marker(TransactionMarker),
}

impl Entry {
    fn append_to(&self, core: &mut Core) -> Result<Appended, AppendFailure> {
        let epoch = core.leads().ok_or(AppendFailure::NotLeader)?;
        if self.only_in.is_some_and(|only| only != epoch) {
            return Err(AppendFailure::NotLeader);
        }
        Ok(match &self.what {
            What::Batch { batch, guard, .. } => core.append(&batch.header, &batch.bytes, *guard, self.now)?,
            What::Marker(marker) => core.append_marker(marker, self.now)?,
        })
    }
}

/// Appends `batch` and starts what follows: a sync if one is due, and waking waiters.
///
/// This happens even if the caller is dropped meanwhile.
pub async fn append(
    node: &Arc<Node>,
    caller: &Caller,
    partition: &Arc<PartitionHandle>,
    batch: Validated,
    now: TimestampMs,
    wanted: WantedBy,
) -> Result<Appended, AppendFailure> {
    let what = What::Batch { batch, guard: None, wanted };
    append_entry(node, caller, partition, Entry { what, only_in: None, now }).await
}

/// Appends a coordinator's batch, which is valid only in the epoch in which the coordinator was loaded.
pub(crate) async fn append_in_epoch(
    node: &Arc<Node>,
    caller: &Caller,
    partition: &Arc<PartitionHandle>,
    batch: Validated,
    epoch: LeaderEpoch,
    now: TimestampMs,
) -> Result<Appended, AppendFailure> {
    let what = What::Batch { batch, guard: None, wanted: WantedBy::NOBODY };
    append_entry(node, caller, partition, Entry { what, only_in: Some(epoch), now }).await
}

/// Appends a batch whose transaction's coordinator was asked after the guard was issued.
pub async fn append_verified(
    node: &Arc<Node>,
    caller: &Caller,
    partition: &Arc<PartitionHandle>,
    batch: Validated,
    guard: VerificationGuard,
    now: TimestampMs,
    wanted: WantedBy,
) -> Result<Appended, AppendFailure> {
    let what = What::Batch { batch, guard: Some(guard), wanted };
    append_entry(node, caller, partition, Entry { what, only_in: None, now }).await
}

/// Appends the marker that ends a producer's transaction, and starts what follows, like [`append`].
///
/// Readers see the transaction as decided once the marker is committed: see
/// [`PartitionHandle::wait_committed`]. A coordinator's own partition accepts the marker only in the epoch in
/// which the coordinator was loaded.
pub async fn append_marker(
    node: &Arc<Node>,
    caller: &Caller,
    partition: &Arc<PartitionHandle>,
    marker: TransactionMarker,
    only_in: Option<LeaderEpoch>,
) -> Result<Appended, AppendFailure> {
    let entry = Entry { what: What::Marker(marker), only_in, now: node.now() };
    let appended = append_entry(node, caller, partition, entry).await;
    if appended.is_ok() {
        node.metrics.transaction_marker(marker.committed);
    }
    appended
}

/// Issues the guard for a batch that would start a transaction here, before its coordinator is asked
/// (KIP-890). `epochs_are_bumped`: the producer's epoch is raised with each transaction.
pub async fn begin_verification(
    caller: &Caller,
    partition: &Arc<PartitionHandle>,
    header: &BatchHeader,
    epochs_are_bumped: bool,
    now: TimestampMs,
) -> Result<VerificationGuard, AppendFailure> {
    let begun = partition.with(|core| core.begin_verification(header, epochs_are_bumped, now));
    begun.await.ok_or_else(|| unverifiable(caller, partition))
}

/// Issues the guard if the batch needs verification.
pub async fn begin_verification_if_needed(
    caller: &Caller,
    partition: &Arc<PartitionHandle>,
    header: &BatchHeader,
    epochs_are_bumped: bool,
    now: TimestampMs,
) -> Option<VerificationGuard> {
    let begun =
        partition.with(|core| core.begin_verification_if_needed(header, epochs_are_bumped, now)).await;
    if begun.is_none() {
        unverifiable(caller, partition);
    }
    begun.flatten()
}

fn unverifiable(caller: &Caller, partition: &PartitionHandle) -> AppendFailure {
    let failure = partition.absent();
    tracing::debug!(%caller, partition = %partition.id, ?failure, "cannot start a verification");
    failure
}

async fn append_entry(
    node: &Arc<Node>,
    caller: &Caller,
    partition: &Arc<PartitionHandle>,
    entry: Entry,
) -> Result<Appended, AppendFailure> {
    partition.wake_up();
    let may_block = !partition.epoch_begun.load(Ordering::Acquire) || node.dirty.writes_may_block();
    let appended = if may_block {
        append_on_worker(node, partition, entry).await
    } else {
        let appended = partition.with(|core| append_to(core, node, partition, &entry));
        appended.await.unwrap_or_else(|| Err(partition.absent()))
    };
    if let Err(AppendFailure::Refused(error)) = &appended {
        tracing::debug!(%caller, partition = %partition.id, %error, "refused an append");
    }
    appended
}

async fn append_on_worker(
    node: &Arc<Node>,
    partition: &Arc<PartitionHandle>,
    entry: Entry,
) -> Result<Appended, AppendFailure> {
    node.metrics.deferred_writes.inc();
    let own = (Arc::clone(node), Arc::clone(partition));
    let work = move |core: &mut Core| {
        let (node, partition) = &own;
        core.begin_epoch().map_err(AppendFailure::Refused)?;
        partition.epoch_begun.store(true, Ordering::Release);
        append_to(core, node, partition, &entry)
    };
    partition.with_on_worker(work).await.unwrap_or_else(|| Err(partition.absent()))
}

/// Appends under the partition's lock, so that taps get the log's order. A duplicate batch was tapped before.
fn append_to(
    core: &mut Core,
    node: &Arc<Node>,
    partition: &Arc<PartitionHandle>,
    entry: &Entry,
) -> Result<Appended, AppendFailure> {
    let appended = append_unwatched(core, node, partition, entry)?;
    if let What::Batch { batch, .. } = &entry.what
        && appended.duplicate.is_none()
    {
        partition.tell_watch(batch, &appended);
    }
    Ok(appended)
}

fn append_unwatched(
    core: &mut Core,
    node: &Arc<Node>,
    partition: &Arc<PartitionHandle>,
    entry: &Entry,
) -> Result<Appended, AppendFailure> {
    let appended = entry.append_to(core)?;
    if let What::Batch { batch, wanted, .. } = &entry.what
        && appended.duplicate.is_none()
    {
        let to = appended.base_offset.plus(i64::from(batch.header.last_offset_delta) + 1);
        let range = TapRange::new(appended.epoch, appended.base_offset, to, batch.bytes.len());
        node.taps.appended(node, partition, *wanted, range);
    }
    Ok(appended)
}
