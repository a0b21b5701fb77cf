//! The state of a share-partition that survives restarts.

use serde::{Deserialize, Serialize};
use tailrace_types::Offset;

use super::intervals::Intervals;

/// The stored state of a record. Acquired records are stored as available: locks do not survive a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryState {
    /// To be delivered, or delivered again.
    Available,
    /// A consumer accepted it.
    Acknowledged,
    /// Rejected, delivered too often, or not existing.
    Archived,
}

impl DeliveryState {
    /// Returns Kafka's number of the state. (1 would be acquired, 3 being archived: neither is ever stored.)
    pub const fn code(self) -> i8 {
        match self {
            Self::Available => 0,
            Self::Acknowledged => 2,
            Self::Archived => 4,
        }
    }

    /// Returns the state with Kafka's number.
    pub(crate) const fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Available),
            2 => Some(Self::Acknowledged),
            4 => Some(Self::Archived),
            _ => None,
        }
    }
}

/// A run of offsets in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateBatch {
    /// First offset.
    #[serde(with = "tailrace_metadata::serial")]
    pub first: Offset,
    /// Last offset, inclusive.
    #[serde(with = "tailrace_metadata::serial")]
    pub last: Offset,
    /// Their state.
    pub state: DeliveryState,
    /// The number of deliveries.
    pub delivery_count: i16,
}

/// A change of a share-partition's state, to be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateWrite {
    /// The first offset that is not final.
    #[serde(with = "tailrace_metadata::serial")]
    pub start: Offset,
    /// The number of final offsets after `start` (KIP-1226).
    pub delivery_complete_count: i32,
    /// The changed runs, ascending and disjoint. All other offsets are unchanged.
    pub batches: Vec<StateBatch>,
}

/// The stored state of a share-partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptState {
    /// The generation of the group's states in which it was initialized. In another generation it is another
    /// state, even if everything else is equal.
    pub generation: i64,
    /// Incremented when an administrator sets the start offset. Earlier changes are then refused.
    pub state_epoch: i32,
    /// Epoch of the partition's leader that wrote last.
    pub leader_epoch: i32,
    /// The first offset that is not final. `None` until a start offset has been decided.
    #[serde(with = "tailrace_metadata::serial")]
    pub start: Option<Offset>,
    /// As in [`StateWrite`]. -1 if unknown.
    pub delivery_complete_count: i32,
    /// Everything known from the start offset on. Offsets between batches are available.
    pub batches: Vec<StateBatch>,
}

/// State and delivery count of stored offsets.
pub(crate) type KeptRuns = Intervals<(DeliveryState, i16)>;

/// Converts runs to batches, ascending.
pub(crate) fn batches_of(runs: &KeptRuns) -> Vec<StateBatch> {
    let batch = |run: super::intervals::Run<&(DeliveryState, i16)>| StateBatch {
        first: Offset(run.first),
        last: Offset(run.last),
        state: run.value.0,
        delivery_count: run.value.1,
    };
    runs.iter().map(batch).collect()
}

/// Applies batches in order. Later ones win.
pub(crate) fn apply_batches(runs: &mut KeptRuns, batches: &[StateBatch]) {
    for batch in batches {
        runs.set(batch.first.get(), batch.last.get(), (batch.state, batch.delivery_count));
    }
}
