//! Appending a validated batch: on the event loop where that is quick, on a worker thread where the disk may block.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailrace_records::Validated;
use tailrace_replication::{AppendError, Appended, Solo};
use tailrace_types::TimestampMs;

use crate::broker::Broker;
use crate::disk::ServerDisk;
use crate::nats::live::{self, LiveRange};
use crate::partitions::handle::PartitionHandle;

/// Why nothing was appended.
#[derive(Debug)]
pub(crate) enum AppendFailure {
    /// The partition was deleted, or the server is stopping.
    Gone,
    /// See the error.
    Refused(AppendError),
}

/// Who else wants to know what is in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// Nobody, or they know it already.
    Nowhere,
    /// NATS subscribers, once it is committed.
    ToNats,
}

/// Appends `batch` and sets off what follows from it: a sync if one is due, and word to those who wait.
///
/// What was appended is followed up even if the caller is dropped meanwhile.
pub(crate) async fn append(
    broker: &Arc<Broker>,
    partition: &Arc<PartitionHandle>,
    batch: Validated,
    now: TimestampMs,
    onward: Onward,
) -> Result<Appended, AppendFailure> {
    let may_block = !partition.epoch_begun.load(Ordering::Acquire) || broker.dirty.writes_may_block();
    if may_block {
        return append_on_worker(broker, partition, batch, now, onward).await;
    }
    let mut core = partition.core.lock().await;
    let result = append_locked(&mut core, partition, &batch, now);
    pass_on(broker, partition, (&batch, &result), onward);
    drop(core);
    follow_up(broker, partition, &result);
    if onward == Onward::ToNats {
        live::wake(broker, partition);
    }
    result
}

/// Called under the partition's lock, so that NATS subscribers get the log's order. A repeated batch was passed on before.
fn pass_on(
    broker: &Broker,
    partition: &PartitionHandle,
    (batch, result): (&Validated, &Result<Appended, AppendFailure>),
    onward: Onward,
) {
    if let Ok(appended) = result
        && onward == Onward::ToNats
        && appended.duplicate.is_none()
    {
        let to = appended.base_offset.plus(i64::from(batch.header.last_offset_delta) + 1);
        let range = LiveRange::new(appended.base_offset, to, batch.bytes.len());
        let skipped = partition.live.push(range, &broker.nats.live().budget);
        if skipped > 0 {
            broker.nats.metrics().live.skipped.inc_by(skipped);
        }
    }
}

fn follow_up(broker: &Broker, partition: &Arc<PartitionHandle>, result: &Result<Appended, AppendFailure>) {
    match result {
        Ok(appended) => {
            if appended.checkpoint_due {
                partition.checkpoint_due.store(true, Ordering::Release);
            }
            if appended.sync_due || appended.checkpoint_due {
                broker.flusher.schedule(partition);
            }
            if partition.reader.high_watermark() >= appended.committed_at {
                partition.watermark_moved();
            }
        }
        Err(AppendFailure::Refused(AppendError::Log(error))) => {
            tracing::error!(partition = %partition.id, %error, "the partition takes no more writes");
            partition.stop_waiters();
        }
        Err(_) => {}
    }
}

async fn append_on_worker(
    broker: &Arc<Broker>,
    partition: &Arc<PartitionHandle>,
    batch: Validated,
    now: TimestampMs,
    onward: Onward,
) -> Result<Appended, AppendFailure> {
    broker.metrics.deferred_writes.inc();
    let mut core = Arc::clone(&partition.core).lock_owned().await;
    let (broker, partition) = (Arc::clone(broker), Arc::clone(partition));
    let work = move || {
        let begun = match core.as_mut() {
            Some(core) => core.begin_epoch().map_err(AppendFailure::Refused),
            None => Err(AppendFailure::Gone),
        };
        let result = begun.and_then(|()| {
            partition.epoch_begun.store(true, Ordering::Release);
            append_locked(&mut core, &partition, &batch, now)
        });
        pass_on(&broker, &partition, (&batch, &result), onward);
        drop(core);
        follow_up(&broker, &partition, &result);
        if onward == Onward::ToNats {
            live::wake(&broker, &partition);
        }
        result
    };
    // A worker that panicked has poisoned nothing but its own batch; the partition's invariants are asserted inside.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(AppendFailure::Gone))
}

/// A broken invariant costs this partition, not the process: nobody may touch a core that panicked half-way.
fn append_locked(
    slot: &mut Option<Solo<ServerDisk>>,
    partition: &PartitionHandle,
    batch: &Validated,
    now: TimestampMs,
) -> Result<Appended, AppendFailure> {
    let core = slot.as_mut().ok_or(AppendFailure::Gone)?;
    let appended = catch_unwind(AssertUnwindSafe(|| core.append(&batch.header, &batch.bytes, now)));
    appended.map_or_else(
        |_| {
            tracing::error!(partition = %partition.id, "an append panicked: the partition is taken out of service");
            *slot = None;
            partition.stop_waiters();
            Err(AppendFailure::Gone)
        },
        |appended| appended.map_err(AppendFailure::Refused),
    )
}
