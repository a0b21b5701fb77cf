//! The state of the client that asks leaders for barriers.

use tailrace_replication::raft::Barrier;
use tailrace_types::Offset;

use crate::Rng;

/// Separates the choices for barriers from the other choices of a run, so that a seed plays the same with and
/// without barriers.
const BARRIERS: u64 = 0x6261_7272_6965_7273;

pub(super) struct Barriers {
    pub(super) rng: Rng,
    /// False in half of the runs.
    pub(super) is_asked: bool,
    pub(super) pending: Option<Pending>,
}

pub(super) struct Pending {
    pub(super) node: u64,
    pub(super) barrier: Barrier,
    /// One past the last record that was acknowledged when the barrier began.
    pub(super) known: Offset,
}

impl Barriers {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ BARRIERS);
        let is_asked = rng.percent(50);
        Self { rng, is_asked, pending: None }
    }
}
