//! What is kept of a share-partition across restarts.

use serde::{Deserialize, Serialize};
use tailrace_types::Offset;

use super::intervals::Intervals;

/// What has become of a record, as it is kept. Records that are acquired are kept as available: who held them does not
/// survive a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryState {
    /// To be delivered (again).
    Available,
    /// A consumer accepted it.
    Acknowledged,
    /// Rejected, delivered too often, or not there.
    Archived,
}

impl DeliveryState {
    /// Kafka's number of the state (1 would be acquired, 3 being archived: neither is ever kept).
    pub const fn code(self) -> i8 {
        match self {
            Self::Available => 0,
            Self::Acknowledged => 2,
            Self::Archived => 4,
        }
    }

    /// The state of Kafka's number.
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
    /// How often they were delivered.
    pub delivery_count: i16,
}

/// A change of a share-partition's state that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateWrite {
    /// First offset that is not final, as of now.
    #[serde(with = "tailrace_metadata::serial")]
    pub start: Offset,
    /// Offsets from `start` on that are final all the same, as of now (KIP-1226).
    pub delivery_complete_count: i32,
    /// Runs that changed, ascending and disjoint. What they do not name is as it was.
    pub batches: Vec<StateBatch>,
}

/// The state of a share-partition as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptState {
    /// The generation of the group's states in which it was made: another one is another state, whatever else is the same.
    pub generation: i64,
    /// Raised when an administrator sets the start offset: what was decided before counts no more.
    pub state_epoch: i32,
    /// Epoch of the partition's leader that wrote last.
    pub leader_epoch: i32,
    /// First offset that is not final; `None` until somebody has decided where to begin.
    #[serde(with = "tailrace_metadata::serial")]
    pub start: Option<Offset>,
    /// As in [`StateWrite`]; -1 if not known.
    pub delivery_complete_count: i32,
    /// Everything known from the start offset on. What lies between batches is available.
    pub batches: Vec<StateBatch>,
}

/// State and delivery count of kept offsets.
pub(crate) type KeptRuns = Intervals<(DeliveryState, i16)>;

/// As batches, ascending.
pub(crate) fn batches_of(runs: &KeptRuns) -> Vec<StateBatch> {
    let batch = |run: super::intervals::Run<&(DeliveryState, i16)>| StateBatch {
        first: Offset(run.first),
        last: Offset(run.last),
        state: run.value.0,
        delivery_count: run.value.1,
    };
    runs.iter().map(batch).collect()
}

/// Later batches win over earlier ones.
pub(crate) fn apply_batches(runs: &mut KeptRuns, batches: &[StateBatch]) {
    for batch in batches {
        runs.set(batch.first.get(), batch.last.get(), (batch.state, batch.delivery_count));
    }
}
