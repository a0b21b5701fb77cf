//! What a partition's handle knows of its replica's sleep, for those who do not hold the replica's lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tailrace_replication::raft::Lease;

/// Of one replica. It is awake at first.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    hibernates: AtomicBool,
    /// It is in the ticker's list.
    listed: AtomicBool,
    /// Its partition is closed or deleted: it needs no ticks any more.
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

    /// It has gone to sleep, as its leader or not, relying on `nodes`.
    pub(crate) fn begin(&self, leads: bool, nodes: &[Lease]) {
        let mut relied = self.lock();
        relied.leads = leads;
        relied.nodes.clear();
        relied.nodes.extend_from_slice(nodes);
        self.hibernates.store(true, Ordering::SeqCst);
    }

    /// It is awake. True if it slept, as its leader.
    pub(crate) fn end(&self) -> bool {
        let mut relied = self.lock();
        self.hibernates.store(false, Ordering::SeqCst);
        std::mem::take(&mut *relied).leads
    }

    /// True if it sleeps, and `holds` of what it relies on.
    pub(crate) fn relies(&self, holds: impl FnOnce(&[Lease]) -> bool) -> bool {
        let relied = self.lock();
        self.hibernates() && holds(&relied.nodes)
    }

    /// True if it sleeps as the group's leader.
    pub(crate) fn leads(&self) -> bool {
        self.lock().leads
    }

    /// True if the caller has to put it into the ticker's list; false if it is there.
    pub(crate) fn list(&self) -> bool {
        !self.listed.swap(true, Ordering::SeqCst)
    }

    /// It leaves the list. Look again whether it sleeps after that.
    pub(crate) fn unlist(&self) {
        self.listed.store(false, Ordering::SeqCst);
    }

    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Relied> {
        self.relied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
