//! What a partition tells the log about compaction: how far it may go, and which producers must stay
//! readable.

use tailrace_log::{Cleanable, CompactionLimits, Disk, LastOfProducer};
use tailrace_types::{ProducerId, TimestampMs};

use crate::producers::Producers;
use crate::reader::PartitionReader;

/// The settings of a round of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// `min.compaction.lag.ms`: segments with a younger record are not compacted.
    pub min_lag_ms: i64,
    /// `max.compaction.lag.ms`: an older uncompacted segment is due, however small its dirty share.
    pub max_lag_ms: i64,
    /// `delete.retention.ms`: how long tombstones and transaction markers are kept once they are no longer
    /// needed.
    pub delete_retention_ms: i64,
    /// Bytes per read and per write.
    pub io_bytes: usize,
}

impl<D: Disk> PartitionReader<D> {
    pub(crate) fn compaction_limits(&self, policy: &CompactionPolicy, now: TimestampMs) -> CompactionLimits {
        CompactionLimits {
            stable: self.last_stable_offset(),
            min_lag_ms: policy.min_lag_ms,
            max_lag_ms: policy.max_lag_ms,
            now,
        }
    }

    /// Returns what could be compacted now. Takes no lock and reads no file.
    pub fn cleanable(&self, policy: &CompactionPolicy, now: TimestampMs) -> Cleanable {
        self.log().cleanable(&self.compaction_limits(policy, now))
    }
}

impl Producers {
    /// Returns, per producer, where its state can be read off the log.
    pub(crate) fn last_records(&self) -> impl Iterator<Item = (ProducerId, LastOfProducer)> {
        self.iter().map(|(id, state)| {
            let last_data_offset = state.batches.back().map(|batch| batch.last_offset);
            (id, LastOfProducer { last_data_offset, epoch: state.epoch })
        })
    }
}
