//! Share groups (KIP-932) as the shell runs them: the records of a partition handed out to the members of a group, one
//! member at a time, until somebody accepts them.
//!
//! - [`LivePartition`] is one share-partition in use: the deterministic core behind a lock, those who wait for it, and the
//!   one who keeps its state in `__share_group_state` before acknowledgements are answered.
//! - [`ShareGroups`] finds them: loaded from their kept state at first use, dropped when their topic or group is gone, when
//!   keeping their state failed, or after [`IDLE_AFTER`].
//! - [`sessions`] are the clients' share sessions; `reading` looks for records and acquires them; `state` speaks to the
//!   share coordinator, `crate::ask` to those of other nodes.
//!
//! Kafka's requests between brokers for that state (83 to 87) are not served: it is asked for within the process, or over the links
//! between nodes.
//!
//! Bounds: a share-partition holds as many runs of offsets as its group may have records in flight, twice; share-partitions
//! are as many as groups read partitions; sessions are bounded in number and size.

mod elsewhere;
mod failure;
mod live;
mod reading;
pub mod sessions;
mod settings;
mod start;
pub mod state;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tailrace_coordination::share::SharePartitionKey;
use tokio::sync::OnceCell;

pub use failure::{SessionFailure, ShareFailure};
pub use live::{AcknowledgeFailure, Keeping, LivePartition};
pub use reading::{Acquisition, acquirable_bytes, acquire};
pub use settings::GroupSettings;

use crate::coordinators::SteadyClock;
use crate::node::Node;
use crate::share::sessions::ShareSessions;
use tailrace_runtime::stopped;

/// A share-partition that nobody holds records of, and nobody asked for, is dropped after this time.
const IDLE_AFTER: Duration = Duration::from_secs(300);

/// Time between two looks for share-partitions to be dropped.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

type Slot = Arc<OnceCell<Arc<LivePartition>>>;

/// Everything about share groups that one server holds.
pub struct ShareGroups {
    slots: Mutex<HashMap<SharePartitionKey, Slot>>,
    /// Sessions of clients.
    pub sessions: ShareSessions,
    /// What acquisition locks are timed by.
    clock: SteadyClock,
}

impl ShareGroups {
    pub(crate) fn new() -> Self {
        Self { slots: Mutex::default(), sessions: ShareSessions::default(), clock: SteadyClock::start() }
    }

    /// The share-partition, loaded if it is not in use yet.
    ///
    /// # Errors
    /// There is no such partition, or it or its state cannot be read now.
    pub async fn get_or_load(
        &self,
        node: &Arc<Node>,
        key: &SharePartitionKey,
    ) -> Result<Arc<LivePartition>, ShareFailure> {
        // Whoever finds one that is of no use any more puts a fresh one into its place; twice is very bad luck.
        for _ in 0..3 {
            let handle = live::handle_of(node, key)?;
            let slot = Arc::clone(self.lock().entry(key.clone()).or_default());
            let load = || LivePartition::load(node, key, Arc::clone(&handle));
            let loaded = slot.get_or_try_init(load).await.map(Arc::clone);
            match loaded {
                Ok(live) if live.serves(&handle) => {
                    live.touch(node);
                    return Ok(live);
                }
                Ok(live) => {
                    live.give_up();
                    self.remove(key, &slot);
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(ShareFailure::NotLeader)
    }

    /// The share-partition, if it is in use.
    pub fn get(&self, key: &SharePartitionKey) -> Option<Arc<LivePartition>> {
        self.lock().get(key).and_then(|slot| slot.get().cloned())
    }

    fn remove(&self, key: &SharePartitionKey, slot: &Slot) {
        let mut slots = self.lock();
        if slots.get(key).is_some_and(|present| Arc::ptr_eq(present, slot)) {
            slots.remove(key);
        }
    }

    /// Those of a group that are in use.
    fn of_group(&self, group: &str) -> Vec<Arc<LivePartition>> {
        let slots = self.lock();
        let of_group = slots.iter().filter(|(key, _)| &*key.group == group);
        of_group.filter_map(|(_, slot)| slot.get().cloned()).collect()
    }

    /// Releases everything that a member holds: it left the group, was removed from it, or its session ended. What was
    /// released is kept afterwards; nobody need wait for it.
    pub(crate) fn release_member(&self, node: &Arc<Node>, group: &str, member: &str) {
        for live in self.of_group(group) {
            live.release_member(node, member);
        }
    }

    /// A member is gone: its session ends, and what it held is released.
    pub fn member_left(&self, node: &Arc<Node>, group: &str, member: &str) {
        self.sessions.remove(group, member);
        self.release_member(node, group, member);
    }

    /// A client is gone: its sessions end, and what their members held is released.
    pub fn connection_closed(&self, node: &Arc<Node>, connection: u64) {
        for (group, member) in self.sessions.remove_of(connection) {
            self.release_member(node, &group, &member);
        }
    }

    /// The state of a share-partition is about to be set anew or deleted: what is in use now counts no more.
    pub(crate) fn forget(&self, key: &SharePartitionKey) {
        let slot = self.lock().remove(key);
        if let Some(live) = slot.as_ref().and_then(|slot| slot.get()) {
            live.give_up();
        }
    }

    /// As [`ShareGroups::forget`], for all share-partitions of a group.
    pub(crate) fn forget_group(&self, group: &str) {
        let mut slots = self.lock();
        slots.retain(|key, slot| {
            if &*key.group != group {
                return true;
            }
            if let Some(live) = slot.get() {
                live.give_up();
            }
            false
        });
    }

    /// Drops what is not used any more, from time to time, until the server stops.
    pub(crate) async fn sweep(node: Arc<Node>) {
        let mut stopping = node.stopping.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
                () = stopped(&mut stopping) => return,
            }
            let now = node.share.clock.now();
            let topics = node.topics();
            // One that somebody else holds, to load it or to use it, stays: there must never be two of one key.
            node.share.lock().retain(|key, slot| {
                if Arc::strong_count(slot) > 1 {
                    return true;
                }
                let Some(live) = slot.get() else { return false };
                if topics.by_id(key.topic.0).is_none() {
                    live.give_up();
                    return false;
                }
                Arc::strong_count(live) > 1 || !live.is_idle_since(now, IDLE_AFTER)
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SharePartitionKey, Slot>> {
        // Nothing under this lock leaves the table half-changed by a panic.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
