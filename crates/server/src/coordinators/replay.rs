//! Reading a coordinator's log back into its core.

use std::sync::Arc;

use tailrace_broker::coordinator::{Coordinator, Replayed, TransactionalProducer};
use tailrace_log::LogError;
use tailrace_records::{
    BatchError, BatchHeader, ControlError, DecodedBatch, EndTransactionMarker, split_batches,
};
use tailrace_types::Offset;

use crate::partitions::PartitionHandle;

/// Bytes that are read at a time, unless a batch is larger.
const PIECE_BYTES: u64 = 1024 * 1024;

/// Records that were not understood and are logged one by one; the rest is only counted.
const LOGGED_MAX: u64 = 10;

/// Why a log could not be read back.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayFailure {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Disk(#[from] std::io::Error),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// What was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayReport {
    pub(super) records: u64,
    pub(super) skipped: u64,
    pub(super) end: Offset,
}

/// Hands everything that the partition holds to `core`, in order. Blocks on the disk.
pub(super) fn replay<C: Coordinator>(
    core: &mut C,
    handle: &Arc<PartitionHandle>,
    decompressed_bytes_max: usize,
) -> Result<ReplayReport, ReplayFailure> {
    let log = handle.reader.log();
    let mut report = ReplayReport { end: handle.reader.log_end().offset(), ..ReplayReport::default() };
    let mut at = handle.reader.log_start();
    while at < report.end {
        let Some(slice) = log.read(at, report.end, PIECE_BYTES, true)? else { break };
        let bytes = slice.read()?;
        for batch in split_batches(&bytes) {
            let (header, batch) = batch?;
            // A batch may begin below the log start.
            replay_batch(core, handle, (&header, batch, at), decompressed_bytes_max, &mut report)?;
        }
        at = slice.next_offset;
    }
    Ok(report)
}

fn replay_batch<C: Coordinator>(
    core: &mut C,
    handle: &PartitionHandle,
    (header, batch, from): (&BatchHeader, &[u8], Offset),
    decompressed_bytes_max: usize,
    report: &mut ReplayReport,
) -> Result<(), ReplayFailure> {
    let decoded = DecodedBatch::trusted(*header, batch, decompressed_bytes_max)?;
    let transactional = header.attributes.is_transactional();
    let producer = transactional
        .then_some(TransactionalProducer { id: header.producer_id, epoch: header.producer_epoch });
    for record in decoded.records() {
        let record = record?;
        if record.offset < from {
            continue;
        }
        let entry = if header.attributes.is_control() {
            let Some(producer) = producer else { continue };
            let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
            let Some(EndTransactionMarker { committed, coordinator_epoch }) =
                EndTransactionMarker::from_record(key, value)?
            else {
                continue;
            };
            Replayed::Marker { producer, coordinator_epoch, committed }
        } else {
            let (offset, timestamp) = (record.offset, record.timestamp);
            Replayed::Record {
                key: record.key.unwrap_or_default(),
                value: record.value,
                timestamp,
                offset,
                producer,
            }
        };
        report.records += 1;
        if let Err(error) = core.replay(entry) {
            report.skipped += 1;
            if report.skipped <= LOGGED_MAX {
                tracing::warn!(partition = %handle.id, offset = %record.offset, %error, "a record was not understood");
            }
        }
    }
    Ok(())
}
