//! Reads a coordinator's log back into its core.

use std::sync::Arc;

use tailrace_coordination::coordinator::{Coordinator, Replayed, TransactionalProducer};
use tailrace_log::DamagedRange;
use tailrace_records::{BatchError, ControlError, DecodedBatch, EndTransactionMarker, split_batches};
use tailrace_types::Offset;

use crate::caller::Caller;
use crate::partitions::{Isolation, PartitionHandle, ReadFailure, ReadTerms};

/// Bytes per read, unless a batch is larger.
const PIECE_BYTES: u64 = 1024 * 1024;

/// Undecodable records that are logged one by one. The rest is only counted.
const LOGGED_MAX: u64 = 10;

/// Why a log could not be read back.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayFailure {
    #[error(transparent)]
    Read(ReadFailure),
    /// Replay skips nothing: a group would go back to an older position, or to none, and a transaction would
    /// be decided twice.
    #[error(
        "{0}; what it coordinates is out of service until this is repaired from another replica, or `tailrace log repair` has restored or \
         removed it"
    )]
    Damaged(DamagedRange),
    #[error(transparent)]
    Disk(#[from] std::io::Error),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error("the batch at offset {0} is damaged: {1}")]
    BadBatch(Offset, BatchError),
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl From<ReadFailure> for ReplayFailure {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Damaged(range) => Self::Damaged(range),
            failure => Self::Read(failure),
        }
    }
}

impl ReplayFailure {
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::BadBatch(..))
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayReport {
    pub(super) records: u64,
    pub(super) skipped: u64,
    pub(super) end: Offset,
}

/// Passes everything in the partition to `core`, in order. Blocks on the disk.
pub(super) fn replay<C: Coordinator>(
    core: &mut C,
    handle: &Arc<PartitionHandle>,
    decompressed_bytes_max: usize,
) -> Result<ReplayReport, ReplayFailure> {
    let bounds = handle.bounds();
    let mut report = ReplayReport { end: bounds.log_end, ..ReplayReport::default() };
    let mut at = bounds.log_start;
    while at < report.end {
        let terms = ReadTerms::new(at, Isolation::LogEnd, PIECE_BYTES);
        let read = handle.read(Caller::internal(), &ReadTerms { upto: Some(report.end), ..terms })?;
        let Some(slice) = read.slice else { break };
        let bytes = slice.read()?;
        for batch in split_batches(&bytes) {
            let (header, batch) = batch?;
            // Checks the checksum: the batch may not have been read since it was written, and the coordinator
            // acts on it.
            let decoded = DecodedBatch::new(batch, decompressed_bytes_max)
                .map_err(|error| ReplayFailure::BadBatch(header.base_offset, error))?;
            replay_batch(core, handle, &decoded, at, &mut report)?;
        }
        at = slice.next_offset;
    }
    Ok(report)
}

/// Skips records below `from`, because a batch may start below the log start.
fn replay_batch<C: Coordinator>(
    core: &mut C,
    handle: &PartitionHandle,
    batch: &DecodedBatch<'_>,
    from: Offset,
    report: &mut ReplayReport,
) -> Result<(), ReplayFailure> {
    let header = batch.header();
    let transactional = header.attributes.is_transactional();
    let producer = transactional
        .then_some(TransactionalProducer { id: header.producer_id, epoch: header.producer_epoch });
    for record in batch.records() {
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
                tracing::warn!(partition = %handle.id, offset = %record.offset, %error, "could not decode a record");
            }
        }
    }
    Ok(())
}
