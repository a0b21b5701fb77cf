//! Who asks leaders for barriers, and what he waits for.

use tailrace_replication::raft::Barrier;
use tailrace_types::Offset;

use crate::Rng;

/// Separates its choices from those of the rest of a run: a seed tells the same story with barriers as it did without.
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
    /// One past the last record that was acknowledged when it began.
    pub(super) known: Offset,
}

impl Barriers {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ BARRIERS);
        let is_asked = rng.percent(50);
        Self { rng, is_asked, pending: None }
    }
}
