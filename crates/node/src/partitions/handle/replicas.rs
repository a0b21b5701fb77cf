//! What a partition's replica knows about the others: its members and their progress, and waiting for that
//! progress.

use tailrace_replication::raft::{Barrier, Members};
use tailrace_types::{Offset, ReplicaId};

use super::PartitionHandle;
use super::lock::Core;
use crate::sync::{AtomicUsize, Ordering};

impl PartitionHandle {
    /// Returns the members of its group. `None` for a partition with a single replica.
    pub(crate) async fn members(&self) -> Option<Members> {
        self.look(|core| Some(core.as_replica()?.members())).await.flatten()
    }

    /// Returns one past the last record that each of these replicas has stored, as far as it is known.
    pub async fn stored_by(&self, replicas: &[ReplicaId]) -> Vec<(ReplicaId, Offset)> {
        let stored = self.look(|core| {
            let replica = core.as_replica()?;
            let stored = |id: &ReplicaId| Some((*id, replica.stored_by(*id).ok()??));
            Some(replicas.iter().filter_map(stored).collect())
        });
        stored.await.flatten().unwrap_or_default()
    }

    /// Waits until `count` replicas have everything before `at` durably. For more than a majority, which the
    /// high watermark covers. False if this node no longer leads.
    pub async fn wait_replicated(&self, at: Offset, count: usize) -> bool {
        self.wait_for(|core| match core.as_replica() {
            None => (count <= 1).then_some(true),
            Some(replica) => replica.leads().and_then(|_| Some(replica.replicated_to(count).ok()? >= at)),
        })
        .await
    }

    /// Waits until the log start has moved to `to`. False if this node no longer leads.
    pub(crate) async fn wait_log_start(&self, to: Offset) -> bool {
        self.wait_for(|core| match self.reader.log_start() >= to {
            true => Some(true),
            false => core.leads().map(|_| false),
        })
        .await
    }

    /// Waits until a barrier of its replica has passed. False if this node no longer leads, or leads again.
    pub(crate) async fn wait_barrier(&self, barrier: &Barrier) -> bool {
        self.wait_for(|core| match self.is_halted() {
            true => None,
            false => core.as_replica()?.has_passed(barrier),
        })
        .await
    }

    /// Checks again whenever the replica was stepped, until `holds` returns true, or `None`, which means that
    /// it never will.
    async fn wait_for(&self, holds: impl Fn(&Core) -> Option<bool>) -> bool {
        self.waiting.asks_replicated.fetch_add(1, Ordering::AcqRel);
        let _asks = Asks(&self.waiting.asks_replicated);
        loop {
            let moved = self.waiting.replicated.notified();
            let mut moved = std::pin::pin!(moved);
            // From here on no notification is missed.
            moved.as_mut().enable();
            match self.look(&holds).await.flatten() {
                None => return false,
                Some(true) => return true,
                Some(false) => moved.await,
            }
        }
    }
}

/// Counts a waiter for the progress of other replicas.
struct Asks<'a>(&'a AtomicUsize);

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
