//! Finds share-partitions, loads them at first use, drops unused ones, and releases what a member holds when
//! it is gone.

use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{select, time};

use tailrace_coordination::share::SharePartitionKey;
use tailrace_types::TimestampMs;

use super::failure::ShareFailure;
use super::live::LivePartition;
use super::{ShareGroups, keep};
use crate::caller::Caller;
use crate::node::Node;
use tailrace_env::task::stopped;

/// A share-partition with no held records that was not asked for in this time is dropped.
const IDLE_AFTER: Duration = Duration::from_secs(300);

/// Interval between two checks for share-partitions to drop.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

impl ShareGroups {
    /// Returns the share-partition, and loads it if it is not in use yet.
    ///
    /// # Errors
    /// The partition does not exist, or it or its state cannot be read now.
    pub async fn get_or_load(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        key: &SharePartitionKey,
    ) -> Result<Arc<LivePartition>, ShareFailure> {
        // A caller that finds an invalid one replaces it. Finding two in a row is very unlikely.
        for _ in 0..3 {
            let handle = keep::handle_of(node, key)?;
            let slot = Arc::clone(self.slots.lock().entry(key.clone()).or_default());
            let load = || LivePartition::load(node, caller, key, Arc::clone(&handle));
            let loaded = slot.get_or_try_init(load).await.map(Arc::clone);
            match loaded {
                Ok(live) if live.serves(&handle) => {
                    live.touch(node);
                    return Ok(live);
                }
                Ok(live) => {
                    live.give_up();
                    live.last_write_ended().await;
                    self.remove(key, &slot);
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(ShareFailure::NotLeader)
    }

    /// Releases everything that a member holds, because it left the group, was removed from it, or its
    /// session ended. The release is kept afterwards. Callers need not wait for that.
    pub(crate) fn release_member(&self, node: &Arc<Node>, caller: &Caller, group: &str, member: &str) {
        for live in self.of_group(group) {
            live.release_member(node, caller, member);
        }
    }

    /// Ends the session of a member that is gone, and releases what it held.
    pub fn member_left(&self, node: &Arc<Node>, caller: &Caller, group: &str, member: &str) {
        self.sessions.remove(group, member);
        self.release_member(node, caller, group, member);
    }

    /// Ends the sessions of a client that is gone, and releases what their members held.
    pub fn connection_closed(&self, node: &Arc<Node>, caller: &Caller, connection: u64) {
        for (group, member) in self.sessions.remove_of(connection) {
            self.release_member(node, caller, &group, &member);
        }
    }

    /// Periodically drops what is no longer used, until the server stops.
    pub(crate) async fn sweep(node: Arc<Node>) {
        let mut stopping = node.stopping.subscribe();
        loop {
            select! {
                () = time::sleep(SWEEP_INTERVAL) => {}
                () = stopped(&mut stopping) => return,
            }
            node.share.sweep_once(&node, node.share.clock.now());
        }
    }

    /// Drops what is no longer used at this time.
    pub(super) fn sweep_once(&self, node: &Node, now: TimestampMs) {
        let topics = node.topics();
        // A share-partition that is being loaded or used stays: there must never be two of one key.
        self.slots.lock().retain(|key, slot| {
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
