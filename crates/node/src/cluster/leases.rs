//! Leases on sleeping replicas: this node's own, which it renews, and those of other nodes as far as it heard
//! of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tailrace_replication::raft::{Beats, Lease};
use tailrace_types::{NodeId, RaftGroup};

use tailrace_env::random;

/// The lease number that means: the node has no lease at the moment.
const NONE: u64 = 0;

/// The leases that one node knows.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The number of its own lease. It changes at each start, and whenever a sleeping leader stops being one
    /// without a message to its members.
    own: AtomicU64,
    beats: Mutex<Beats>,
    /// A node that sleeping replicas may rely on went away or restarted.
    changed: AtomicBool,
    /// Groups whose replicas on this node woke by themselves.
    woken: Mutex<Vec<RaftGroup>>,
}

impl Leases {
    pub(crate) fn new(silence_ticks: u32) -> Self {
        Self {
            own: AtomicU64::new(fresh()),
            beats: Mutex::new(Beats::new(silence_ticks)),
            changed: AtomicBool::new(false),
            woken: Mutex::default(),
        }
    }

    /// Returns the number of its own lease, while it is renewed.
    pub(crate) fn own(&self) -> Option<u64> {
        Some(self.own.load(Ordering::Acquire)).filter(|own| *own != NONE)
    }

    /// Wakes all replicas that rely on this node, wherever they are.
    pub(crate) fn renew(&self) {
        self.own.store(fresh(), Ordering::Release);
    }

    /// Drops the lease until [`Leases::renew`].
    pub(crate) fn suspend(&self) {
        self.own.store(NONE, Ordering::Release);
    }

    pub(crate) fn heard(&self, node: NodeId, lease: u64) {
        let is_new = self.beats.lock().heard(node, lease);
        self.changed.fetch_or(is_new, Ordering::AcqRel);
    }

    pub(crate) fn lost(&self, node: NodeId) {
        let counts = self.beats.lock().lost(node);
        self.changed.fetch_or(counts, Ordering::AcqRel);
    }

    /// Advances by one tick. True if sleeping replicas have to be checked, because some may rely on a node
    /// that is gone.
    pub(crate) fn tick(&self) -> bool {
        let fell_silent = self.beats.lock().tick();
        self.changed.swap(false, Ordering::AcqRel) || fell_silent
    }

    pub(crate) fn hold(&self, leases: &[Lease]) -> bool {
        let beats = self.beats.lock();
        leases.iter().all(|lease| beats.holds(lease))
    }

    /// Reports whether another node is up.
    pub(crate) fn hears_others(&self) -> bool {
        !self.beats.lock().is_empty()
    }

    /// Records that a sleeping replica has woken.
    pub(crate) fn woke(&self, group: RaftGroup) {
        self.woken.lock().push(group);
    }

    /// Takes the groups that have woken since the last call.
    pub(crate) fn take_woken(&self) -> Vec<RaftGroup> {
        std::mem::take(&mut *self.woken.lock())
    }
}

fn fresh() -> u64 {
    random::u64().max(NONE + 1)
}
