//! The damaged segment that a replica is rebuilding.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tailrace_log::{Damage, DamagedRange, Disk, Patch};
use tailrace_types::{Offset, ReplicaId};

use crate::raft::chunk::ChunkRequest;

/// The factor by which a damaged replica's election timeout is longer than that of others.
pub(crate) const RELUCTANCE: usize = 10;

/// The repair state of a damaged replica.
pub(crate) struct Mending<D: Disk> {
    pub(crate) under_way: Option<Repair<D>>,
    /// Replicas that do not have what is wanted, or not in a form that fits.
    pub(crate) refused: BTreeSet<u64>,
    /// Those among them that lack it too, at least up to this offset.
    pub(crate) lacking: BTreeMap<u64, Offset>,
    /// True if an undamaged replica has it in a form that does not fit.
    pub(crate) has_other_form: bool,
    /// How often all replicas have refused.
    pub(crate) rounds: usize,
    /// How often a response did not fit what is here.
    pub(crate) misfits: usize,
    /// True if a replica did not refuse but gave no response.
    pub(crate) unanswered: bool,
    pub(crate) pause_ticks: usize,
    pub(crate) hand_over_ticks: usize,
    /// A batch of a snapshot that did not arrive as it was written. Its sender is asked for it again, so that
    /// it detects the damage.
    pub(crate) suspect: Option<ChunkRequest>,
}

/// A segment that is being rebuilt.
pub(crate) struct Repair<D: Disk> {
    pub(crate) patch: Patch<D>,
    pub(crate) from: ReplicaId,
    pub(crate) idle_ticks: usize,
    /// True if it contains batches of another replica.
    pub(crate) took_others: bool,
    /// Ranges that are left out because no replica has them.
    pub(crate) lost: Vec<DamagedRange>,
}

/// Describes records that no replica has.
pub(crate) fn lost_range(dir: &Path, from: Offset, upto: Offset) -> DamagedRange {
    let damage =
        Damage { file: dir.to_owned(), position: 0, reason: "no replica has these records".to_owned() };
    DamagedRange { is_lost: true, ..DamagedRange::found(from, upto, damage) }
}

impl<D: Disk> Mending<D> {
    /// Forgets refusals, because another part is wanted now.
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
