//! When a partition's replica sleeps, and when it has to wake.

use tailrace_replication::raft::Replica;

use super::PartitionHandle;
use crate::disk::NodeDisk;

impl PartitionHandle {
    pub(super) fn note_sleep(&self, replica: &Replica<NodeDisk>) {
        if replica.hibernates() {
            self.sleep.begin(replica.leads().is_some(), replica.relies_on());
        } else if self.sleep.hibernates() {
            self.awake(replica.halted().is_some());
        }
    }

    /// Marks the replica as awake. If it led in its sleep and stops leading without a message to its members
    /// (`ceases`), wakes them by renewing the lease.
    pub(super) fn awake(&self, ceases: bool) {
        if self.sleep.end() && ceases {
            self.context.links.leases().renew();
        }
        self.context.links.leases().woke(self.group);
    }

    /// Wakes a sleeping leader. Call this before asking it for something that may block.
    pub(crate) fn wake_up(&self) {
        if self.sleep.hibernates() && self.leads().is_some() {
            self.inbox.wake(0);
            self.context.links.leases().woke(self.group);
        }
    }

    /// Reports whether the replica sleeps and must not, because a node that it relies on is gone. It wakes
    /// with the next step.
    pub(crate) fn must_wake(&self) -> bool {
        let must =
            self.sleep.hibernates() && self.sleep.relies(|nodes| !self.context.links.leases().hold(nodes));
        if must {
            self.inbox.wake(0);
        }
        must
    }

    /// Returns the number of its node's lease, which it uses while it sleeps.
    pub(crate) fn lease(&self) -> Option<u64> {
        self.context.links.leases().own()
    }
}
