//! The sleep state of a partition's replica, readable without the replica's lock.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tailrace_replication::raft::Lease;

/// The sleep state of one replica. It is awake at first.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    hibernates: AtomicBool,
    /// It is in the ticker's list.
    listed: AtomicBool,
    /// Its partition is closed or deleted, so it needs no more ticks.
    gone: AtomicBool,
    relied: Mutex<Relied>,
}

#[derive(Debug, Default)]
struct Relied {
    leads: bool,
    nodes: Vec<Lease>,
}

impl Sleep {
    pub(crate) fn hibernates(&self) -> bool {
        self.hibernates.load(Ordering::SeqCst)
    }

    /// Records that it has gone to sleep, as leader or not, relying on `nodes`.
    pub(crate) fn begin(&self, leads: bool, nodes: &[Lease]) {
        let mut relied = self.relied.lock();
        relied.leads = leads;
        relied.nodes.clear();
        relied.nodes.extend_from_slice(nodes);
        self.hibernates.store(true, Ordering::SeqCst);
    }

    /// Records that it is awake. True if it slept as leader.
    pub(crate) fn end(&self) -> bool {
        let mut relied = self.relied.lock();
        self.hibernates.store(false, Ordering::SeqCst);
        std::mem::take(&mut *relied).leads
    }

    /// Reports whether it sleeps, and `holds` of what it relies on.
    pub(crate) fn relies(&self, holds: impl FnOnce(&[Lease]) -> bool) -> bool {
        let relied = self.relied.lock();
        self.hibernates() && holds(&relied.nodes)
    }

    /// Reports whether it sleeps as the group's leader.
    pub(crate) fn leads(&self) -> bool {
        self.relied.lock().leads
    }

    /// True if the caller has to put it into the ticker's list. False if it is already there.
    pub(crate) fn list(&self) -> bool {
        !self.listed.swap(true, Ordering::SeqCst)
    }

    /// Records that it leaves the list. Check again afterwards whether it sleeps.
    pub(crate) fn unlist(&self) {
        self.listed.store(false, Ordering::SeqCst);
    }

    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}
