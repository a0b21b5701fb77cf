//! What a partition's replica knows of the others: its members, and how far they are; and waiting until they are further.

use tailrace_replication::raft::{Barrier, Members};
use tailrace_types::{Offset, ReplicaId};

use super::PartitionHandle;
use super::lock::Core;
use crate::sync::{AtomicUsize, Ordering};

impl PartitionHandle {
    /// The members of its group; `None` of a partition that has one replica only.
    pub(crate) async fn members(&self) -> Option<Members> {
        self.look(|core| Some(core.as_replica()?.members())).await.flatten()
    }

    /// One past the last record that each of these replicas has, of those of which it is known.
    pub async fn stored_by(&self, replicas: &[ReplicaId]) -> Vec<(ReplicaId, Offset)> {
        let stored = self.look(|core| {
            let replica = core.as_replica()?;
            let stored = |id: &ReplicaId| Some((*id, replica.stored_by(*id).ok()??));
            Some(replicas.iter().filter_map(stored).collect())
        });
        stored.await.flatten().unwrap_or_default()
    }

    /// Waits until `count` replicas have everything before `at` durably: more than a majority, which the high watermark tells of.
    /// False if this node does not lead any more.
    pub async fn wait_replicated(&self, at: Offset, count: usize) -> bool {
        self.wait_for(|core| match core.as_replica() {
            None => (count <= 1).then_some(true),
            Some(replica) => replica.leads().and_then(|_| Some(replica.replicated_to(count).ok()? >= at)),
        })
        .await
    }

    /// Waits until the log start has moved to `to`. False if this node does not lead any more.
    pub(crate) async fn wait_log_start(&self, to: Offset) -> bool {
        self.wait_for(|core| match self.reader.log_start() >= to {
            true => Some(true),
            false => core.leads().map(|_| false),
        })
        .await
    }

    /// Waits until a barrier of its replica has passed. False if this node does not lead any more, or leads again.
    pub(crate) async fn wait_barrier(&self, barrier: &Barrier) -> bool {
        self.wait_for(|core| match self.is_halted() {
            true => None,
            false => core.as_replica()?.has_passed(barrier),
        })
        .await
    }

    /// Looks again whenever the replica was stepped, until `holds` says true, or `None`: it never will.
    async fn wait_for(&self, holds: impl Fn(&Core) -> Option<bool>) -> bool {
        self.waiting.asks_replicated.fetch_add(1, Ordering::AcqRel);
        let _asks = Asks(&self.waiting.asks_replicated);
        loop {
            let moved = self.waiting.replicated.notified();
            let mut moved = std::pin::pin!(moved);
            // From here on nothing is missed.
            moved.as_mut().enable();
            match self.look(&holds).await.flatten() {
                None => return false,
                Some(true) => return true,
                Some(false) => moved.await,
            }
        }
    }
}

/// Somebody who asks how far other replicas are.
struct Asks<'a>(&'a AtomicUsize);

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
