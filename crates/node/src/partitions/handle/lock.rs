//! The core of a partition and its lock. Only the files beside this one can reach the core (`core`).

use std::sync::Arc;

use tailrace_env::sync::{Mutex, OwnedMutexGuard};
use tailrace_replication::Partition;

use crate::disk::NodeDisk;

/// A partition with its log on a disk of this server.
pub type Core = Partition<NodeDisk>;

pub(super) type Guard = OwnedMutexGuard<Option<Core>>;

/// The core. `None` once the partition is closed, deleted or out of service.
///
/// The lock is tokio's, so that waiting for it never blocks an event loop. It is FIFO.
pub(super) struct CoreLock(pub(super) Arc<Mutex<Option<Core>>>);

impl CoreLock {
    pub(super) fn new(core: Core) -> Self {
        Self(Arc::new(Mutex::new(Some(core))))
    }
}
