//! The changes that must be stored, and restoring from stored state.

use tailrace_types::Offset;

use super::in_flight::{InFlight, RecordState, SharePartition};
use crate::share::intervals::Intervals;
use crate::share::state::{DeliveryState, KeptRuns, StateBatch, StateWrite, apply_batches, batches_of};

impl SharePartition {
    /// Restores a share-partition from stored batches. Acquired records are available again. The stored state
    /// may come from another node, so impossible batches are skipped.
    pub fn restore(start: Offset, batches: &[StateBatch]) -> Self {
        let mut kept = KeptRuns::default();
        let is_possible = |batch: &&StateBatch| batch.first <= batch.last && batch.last < Offset(i64::MAX);
        let possible: Vec<StateBatch> = batches.iter().filter(is_possible).copied().collect();
        apply_batches(&mut kept, &possible);
        kept.remove_below(start.get());
        let end = kept.last().map_or(start.get(), |run| run.last + 1);
        let mut runs = Intervals::default();
        let available = InFlight { state: RecordState::Available, delivery_count: 0, unsaved: false };
        if end > start.get() {
            runs.set(start.get(), end - 1, available);
        }
        for run in kept.iter() {
            let state = match run.value.0 {
                DeliveryState::Available => RecordState::Available,
                DeliveryState::Acknowledged => RecordState::Acknowledged,
                DeliveryState::Archived => RecordState::Archived,
            };
            let value = InFlight { state, delivery_count: run.value.1.max(0), unsaved: false };
            runs.set(run.first, run.last, value);
        }
        let mut partition = Self { start: start.get(), end, runs, first_expiry: None, start_unsaved: false };
        partition.settle();
        partition
    }

    /// Reports whether there are changes to store.
    pub fn has_unsaved(&self) -> bool {
        self.start_unsaved || self.runs.iter().any(|run| run.value.unsaved)
    }

    /// Returns the changes to store. `None` if there are none. From now on they count as stored.
    pub fn take_unsaved(&mut self) -> Option<StateWrite> {
        if !self.has_unsaved() {
            return None;
        }
        let mut changed = KeptRuns::default();
        for run in self.runs.iter().filter(|run| run.value.unsaved) {
            changed.set(run.first, run.last, as_kept(run.value));
        }
        let all = self.start;
        self.runs
            .change(all, i64::MAX, |run| run.unsaved.then(|| InFlight { unsaved: false, ..run.clone() }));
        self.start_unsaved = false;
        let complete = self.delivery_complete_count();
        Some(StateWrite {
            start: Offset(self.start),
            // Gaps may cover any number of offsets, and the protocol has 31 bits.
            delivery_complete_count: i32::try_from(complete).unwrap_or(i32::MAX),
            batches: batches_of(&changed),
        })
    }
}

/// Returns the state to store for a run. If records were released and acquired again before that was stored,
/// the current delivery is not stored.
fn as_kept(run: &InFlight) -> (DeliveryState, i16) {
    match run.state {
        RecordState::Available => (DeliveryState::Available, run.delivery_count),
        RecordState::Acquired(_) => (DeliveryState::Available, run.delivery_count - 1),
        RecordState::Acknowledged => (DeliveryState::Acknowledged, run.delivery_count),
        RecordState::Archived => (DeliveryState::Archived, run.delivery_count),
    }
}
