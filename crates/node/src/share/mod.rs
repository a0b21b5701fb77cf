//! Share groups (KIP-932) as the shell runs them: the records of a partition are handed out to the members of
//! a group, one member at a time, until one accepts them.
//!
//! - [`LivePartition`] is one share-partition in use: the deterministic core behind a lock, its waiters, and
//!   the task that keeps its state in `__share_group_state` before acknowledgements are answered.
//! - [`ShareGroups`] finds them. They are loaded from their kept state at first use, and dropped when their
//!   topic or group is gone, when keeping their state failed, or after a while without use.
//! - [`sessions`] are the clients' share sessions. `reading` looks for records and acquires them. `state`
//!   speaks to the share coordinator, and `crate::ask` to those of other nodes.
//!
//! Kafka's requests between brokers for that state (83 to 87) are not served: it is read and written within
//! the process, or over the links between nodes.
//!
//! Bounds: a share-partition holds at most twice as many runs of offsets as its group may have records in
//! flight. There are as many share-partitions as partitions that groups read. Sessions are bounded in number
//! and size.

mod deletion;
mod elsewhere;
mod failure;
mod groups;
mod keep;
mod live;
mod reading;
pub mod sessions;
mod settings;
mod start;
pub mod state;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_coordination::share::SharePartitionKey;
use tailrace_env::sync::OnceCell;

pub use deletion::{DeletionFailure, delete_states};
pub(crate) use deletion::{carry_out as carry_out_deletion, tell as tell_share_group};
pub use failure::{SessionFailure, ShareFailure};
pub use live::{AcknowledgeFailure, Keeping, LivePartition};
pub use reading::{Acquisition, acquirable_bytes, acquire};
pub use settings::GroupSettings;

use crate::coordinators::SteadyClock;
use crate::share::sessions::ShareSessions;

type Slot = Arc<OnceCell<Arc<LivePartition>>>;

/// The state of share groups in one server.
pub struct ShareGroups {
    slots: Mutex<HashMap<SharePartitionKey, Slot>>,
    /// Sessions of clients.
    pub sessions: ShareSessions,
    /// The clock for acquisition locks.
    clock: SteadyClock,
}

impl ShareGroups {
    pub(crate) fn new() -> Self {
        Self { slots: Mutex::default(), sessions: ShareSessions::default(), clock: SteadyClock::start() }
    }

    /// Returns the share-partition, if it is in use.
    pub fn get(&self, key: &SharePartitionKey) -> Option<Arc<LivePartition>> {
        self.slots.lock().get(key).and_then(|slot| slot.get().cloned())
    }

    fn remove(&self, key: &SharePartitionKey, slot: &Slot) {
        let mut slots = self.slots.lock();
        if slots.get(key).is_some_and(|present| Arc::ptr_eq(present, slot)) {
            slots.remove(key);
        }
    }

    /// Returns the share-partitions of a group that are in use.
    fn of_group(&self, group: &str) -> Vec<Arc<LivePartition>> {
        let slots = self.slots.lock();
        let of_group = slots.iter().filter(|(key, _)| &*key.group == group);
        of_group.filter_map(|(_, slot)| slot.get().cloned()).collect()
    }

    /// Invalidates a share-partition in use, because its state was reset or deleted.
    pub(crate) fn forget(&self, key: &SharePartitionKey) {
        let slot = self.slots.lock().remove(key);
        if let Some(live) = slot.as_ref().and_then(|slot| slot.get()) {
            live.give_up();
        }
    }
}
