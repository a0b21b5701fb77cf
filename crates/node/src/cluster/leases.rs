//! Leases on sleeping replicas: this node's own, which it renews, and those of the others, as far as was heard.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tailrace_replication::raft::{Beats, Lease};
use tailrace_types::{NodeId, RaftGroup};

use tailrace_env::random;

/// No number: the node has no lease at the moment.
const NONE: u64 = 0;

/// What one node knows.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The number of its own lease. New at each start, and whenever a sleeping leader ceases to be one without a word to its members.
    own: AtomicU64,
    beats: Mutex<Beats>,
    /// A node that others may rely on is not there any more, or was started anew.
    changed: AtomicBool,
    /// Groups whose replicas here woke by themselves.
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

    /// The number of its own lease, while it is renewed.
    pub(crate) fn own(&self) -> Option<u64> {
        Some(self.own.load(Ordering::Acquire)).filter(|own| *own != NONE)
    }

    /// Wakes everybody who relies on this node, wherever they are.
    pub(crate) fn renew(&self) {
        self.own.store(fresh(), Ordering::Release);
    }

    /// Holds no lease until [`Leases::renew`].
    pub(crate) fn suspend(&self) {
        self.own.store(NONE, Ordering::Release);
    }

    pub(crate) fn heard(&self, node: NodeId, lease: u64) {
        let is_new = lock(&self.beats).heard(node, lease);
        self.changed.fetch_or(is_new, Ordering::AcqRel);
    }

    pub(crate) fn lost(&self, node: NodeId) {
        let counts = lock(&self.beats).lost(node);
        self.changed.fetch_or(counts, Ordering::AcqRel);
    }

    /// Lets a tick pass. True if sleeping replicas have to be looked at: some may rely on a node that is not there any more.
    pub(crate) fn tick(&self) -> bool {
        let fell_silent = lock(&self.beats).tick();
        self.changed.swap(false, Ordering::AcqRel) || fell_silent
    }

    pub(crate) fn hold(&self, leases: &[Lease]) -> bool {
        let beats = lock(&self.beats);
        leases.iter().all(|lease| beats.holds(lease))
    }

    /// True if another node is there.
    pub(crate) fn hears_others(&self) -> bool {
        !lock(&self.beats).is_empty()
    }

    /// Takes note that a sleeping replica has woken.
    pub(crate) fn woke(&self, group: RaftGroup) {
        lock(&self.woken).push(group);
    }

    /// The groups that have woken since.
    pub(crate) fn take_woken(&self) -> Vec<RaftGroup> {
        std::mem::take(&mut *lock(&self.woken))
    }
}

fn fresh() -> u64 {
    random::u64().max(NONE + 1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
