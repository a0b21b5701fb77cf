//! Leader epochs as clients are told them.
//!
//! A partition's epoch is raised at every start, but the log learns of it only with the first append. Until then the
//! log's newest epoch is an older one; clients must not notice.

use tailrace_types::{LeaderEpoch, Offset};

use tailrace_node::NodeDisk;

type Reader = tailrace_replication::PartitionReader<NodeDisk>;

/// The epoch of the record at `offset`, or the one that the next record will get.
pub(crate) fn epoch_at(reader: &Reader, offset: Offset) -> LeaderEpoch {
    if offset >= reader.log_end().offset() {
        return reader.epoch();
    }
    reader.log().epoch_at(offset).unwrap_or(LeaderEpoch::UNKNOWN)
}

/// The largest epoch up to `epoch` that has records, and one past its last offset. `None` for an epoch that is yet to
/// come, and for "unknown".
pub(crate) fn epoch_end(reader: &Reader, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
    let current = reader.epoch();
    if epoch.get() < 0 || epoch > current {
        return None;
    }
    let log_end = reader.log_end().offset();
    if epoch == current {
        return Some((current, log_end));
    }
    let known = reader.log().epoch_end(epoch, log_end);
    // Older than the current epoch, younger than all that have records: it ended where the newest of those did.
    known.or_else(|| match reader.log().epochs().last() {
        Some(&(newest, _)) if newest < epoch => Some((newest, log_end)),
        _ => Some((epoch, reader.log_start())),
    })
}
