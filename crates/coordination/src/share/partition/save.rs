//! What must be kept, and beginning again from it.

use tailrace_types::Offset;

use super::in_flight::{InFlight, RecordState, SharePartition};
use crate::share::intervals::Intervals;
use crate::share::state::{DeliveryState, KeptRuns, StateBatch, StateWrite, apply_batches, batches_of};

impl SharePartition {
    /// One that goes on where another was when `batches` were kept. Who held records then holds them no more: they are
    /// available. What was kept may come from another node: batches that cannot be are passed over.
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

    /// True if something must be kept.
    pub fn has_unsaved(&self) -> bool {
        self.start_unsaved || self.runs.iter().any(|run| run.value.unsaved)
    }

    /// What must be kept, `None` if nothing changed. It counts as kept from here on.
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
            // What has no record may be any number of offsets, and the protocol has 31 bits.
            delivery_complete_count: i32::try_from(complete).unwrap_or(i32::MAX),
            batches: batches_of(&changed),
        })
    }
}

/// Records that were released and acquired again before that was kept: the present delivery is not to be kept.
fn as_kept(run: &InFlight) -> (DeliveryState, i16) {
    match run.state {
        RecordState::Available => (DeliveryState::Available, run.delivery_count),
        RecordState::Acquired(_) => (DeliveryState::Available, run.delivery_count - 1),
        RecordState::Acknowledged => (DeliveryState::Acknowledged, run.delivery_count),
        RecordState::Archived => (DeliveryState::Archived, run.delivery_count),
    }
}
