//! Leader epochs as readers see them.
//!
//! A partition's epoch is raised at every start, but the log learns of it only with the first append. Until
//! then the log's newest epoch is an older one. Readers must not notice that.

use tailrace_replication::PartitionReader;
use tailrace_types::{LeaderEpoch, Offset};

use crate::disk::NodeDisk;
use crate::partitions::handle::PartitionHandle;

impl PartitionHandle {
    /// Returns the epoch of the record at `offset`, or the epoch of the next record if `offset` is the log
    /// end or beyond.
    pub fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        if offset >= self.reader.log_end().offset() {
            return self.reader.epoch();
        }
        self.reader.log().epoch_at(offset).unwrap_or(LeaderEpoch::UNKNOWN)
    }

    /// Returns the largest epoch up to `epoch` that has records, and one past its last offset. `None` for a
    /// future epoch, and for "unknown".
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        epoch_end(&self.reader, epoch, self.reader.log_end().offset())
    }
}

/// Like [`PartitionHandle::epoch_end`], for a log that ends at `log_end`.
pub(super) fn epoch_end(
    reader: &PartitionReader<NodeDisk>,
    epoch: LeaderEpoch,
    log_end: Offset,
) -> Option<(LeaderEpoch, Offset)> {
    let current = reader.epoch();
    if epoch.get() < 0 || epoch > current {
        return None;
    }
    if epoch == current {
        return Some((current, log_end));
    }
    let known = reader.log().epoch_end(epoch, log_end);
    // `epoch` is older than the current one and newer than all with records: it ended where the newest of
    // those did.
    known.or_else(|| match reader.log().epochs().last() {
        Some(&(newest, _)) if newest < epoch => Some((newest, log_end)),
        _ => Some((epoch, reader.log_start())),
    })
}
