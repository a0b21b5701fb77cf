//! The snapshots that a leader has offered.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_log::Disk;

use crate::raft::ballot::Point;
use crate::raft::chunk::Source;

/// Election timeouts after which an idle offer is forgotten once its files were read, and an idle fetch is
/// abandoned. Longer than the slowest chunk takes.
pub(crate) const IDLE_TIMEOUTS: usize = 20;

/// A snapshot that was offered to a replica. It can be read as long as it is remembered.
pub(crate) struct Offer<D: Disk> {
    pub(crate) snapshot: Point,
    pub(crate) source: Arc<Source<D>>,
    pub(crate) idle_ticks: usize,
    pub(crate) was_read: bool,
}

/// Offers by receiver. No more than the group's members, and some that have left it recently.
pub(crate) type Offers<D> = BTreeMap<u64, Offer<D>>;
