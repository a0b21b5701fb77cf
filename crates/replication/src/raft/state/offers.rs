//! The snapshots that a leader has offered.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_log::Disk;

use crate::raft::ballot::Point;
use crate::raft::chunk::Source;

/// Times the election timeout after which an offer whose files were read is forgotten, and so is what is fetched. Longer than the
/// slowest chunk takes.
pub(crate) const IDLE_TIMEOUTS: usize = 20;

/// A snapshot that was offered to a replica, and can be read as long as it is remembered.
pub(crate) struct Offer<D: Disk> {
    pub(crate) snapshot: Point,
    pub(crate) source: Arc<Source<D>>,
    pub(crate) idle_ticks: usize,
    pub(crate) was_read: bool,
}

/// By the replica that it was offered to. No more than the group has members, but for some that have left it lately.
pub(crate) type Offers<D> = BTreeMap<u64, Offer<D>>;
