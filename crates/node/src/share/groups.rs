//! Share-partitions are found, loaded at first use, and dropped when nobody uses them; what a member holds is released when it is gone.

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

/// A share-partition that nobody holds records of, and nobody asked for, is dropped after this time.
const IDLE_AFTER: Duration = Duration::from_secs(300);

/// Time between two looks for share-partitions to be dropped.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

impl ShareGroups {
    /// The share-partition, loaded if it is not in use yet.
    ///
    /// # Errors
    /// There is no such partition, or it or its state cannot be read now.
    pub async fn get_or_load(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        key: &SharePartitionKey,
    ) -> Result<Arc<LivePartition>, ShareFailure> {
        // Whoever finds one that is of no use any more puts a fresh one into its place; twice is very bad luck.
        for _ in 0..3 {
            let handle = keep::handle_of(node, key)?;
            let slot = Arc::clone(self.lock().entry(key.clone()).or_default());
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

    /// Releases everything that a member holds: it left the group, was removed from it, or its session ended. What was
    /// released is kept afterwards; nobody need wait for it.
    pub(crate) fn release_member(&self, node: &Arc<Node>, caller: &Caller, group: &str, member: &str) {
        for live in self.of_group(group) {
            live.release_member(node, caller, member);
        }
    }

    /// A member is gone: its session ends, and what it held is released.
    pub fn member_left(&self, node: &Arc<Node>, caller: &Caller, group: &str, member: &str) {
        self.sessions.remove(group, member);
        self.release_member(node, caller, group, member);
    }

    /// A client is gone: its sessions end, and what their members held is released.
    pub fn connection_closed(&self, node: &Arc<Node>, caller: &Caller, connection: u64) {
        for (group, member) in self.sessions.remove_of(connection) {
            self.release_member(node, caller, &group, &member);
        }
    }

    /// Drops what is not used any more, from time to time, until the server stops.
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

    /// Drops what is not used any more at this time.
    pub(super) fn sweep_once(&self, node: &Node, now: TimestampMs) {
        let topics = node.topics();
        // One that somebody else holds, to load it or to use it, stays: there must never be two of one key.
        self.lock().retain(|key, slot| {
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
