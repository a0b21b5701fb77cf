//! The damaged segment that a replica is putting together again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tailrace_log::{Damage, DamagedRange, Disk, Patch};
use tailrace_types::{Offset, ReplicaId};

use crate::raft::chunk::ChunkRequest;

/// Times the election timeout that a damaged replica waits longer than others before it asks for votes.
pub(crate) const RELUCTANCE: usize = 10;

/// What a damaged replica is at.
pub(crate) struct Mending<D: Disk> {
    pub(crate) under_way: Option<Repair<D>>,
    /// Those that do not have what is wanted, or not in a form that fits.
    pub(crate) refused: BTreeSet<u64>,
    /// Those of them that lack it, too, up to here at least.
    pub(crate) lacking: BTreeMap<u64, Offset>,
    /// One that has all of its own, and has this in a form that does not fit.
    pub(crate) has_other_form: bool,
    /// How often all have refused.
    pub(crate) rounds: usize,
    /// How often what another one gave did not go together with what is here.
    pub(crate) misfits: usize,
    /// One of them has not said so, but nothing.
    pub(crate) unanswered: bool,
    pub(crate) pause_ticks: usize,
    pub(crate) hand_over_ticks: usize,
    /// A batch of a snapshot that did not arrive as it was written: its sender is asked for it, so that it finds out.
    pub(crate) suspect: Option<ChunkRequest>,
}

/// One segment that is being put together.
pub(crate) struct Repair<D: Disk> {
    pub(crate) patch: Patch<D>,
    pub(crate) from: ReplicaId,
    pub(crate) idle_ticks: usize,
    /// Batches of another replica are in it.
    pub(crate) took_others: bool,
    /// What is left out of it, since nobody has it.
    pub(crate) lost: Vec<DamagedRange>,
}

/// Records that no replica has.
pub(crate) fn lost_range(dir: &Path, from: Offset, upto: Offset) -> DamagedRange {
    let damage =
        Damage { file: dir.to_owned(), position: 0, reason: "no replica has these records".to_owned() };
    DamagedRange { is_lost: true, ..DamagedRange::found(from, upto, damage) }
}

impl<D: Disk> Mending<D> {
    /// Another part is asked for.
    pub(crate) fn forget_refusals(&mut self) {
        self.refused.clear();
        self.lacking.clear();
        self.has_other_form = false;
    }

    pub(crate) fn new() -> Self {
        Self {
            under_way: None,
            refused: BTreeSet::new(),
            lacking: BTreeMap::new(),
            has_other_form: false,
            rounds: 0,
            misfits: 0,
            unanswered: false,
            pause_ticks: 0,
            hand_over_ticks: 0,
            suspect: None,
        }
    }
}
