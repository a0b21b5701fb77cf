//! The result of a fetch's look at one partition. `fetch` turns it into an answer, and `fetch_session` checks
//! whether it is news.

use tailrace_kafka_wire::ErrorCode;
use tailrace_log::LogSlice;
use tailrace_replication::AbortedTransaction;
use tailrace_types::{LeaderEpoch, NodeId, Offset};

use tailrace_node::NodeDisk;
use tailrace_node::partitions::{Bounds, ReadOutcome};

/// The result of a look at one partition.
pub(crate) struct PartitionRead {
    pub(crate) error: ErrorCode,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) diverging: Option<(LeaderEpoch, Offset)>,
    /// A replica closer to the consumer. The consumer should read there, and gets no records here.
    pub(crate) preferred: Option<NodeId>,
    pub(crate) slice: Option<LogSlice<NodeDisk>>,
    /// There is more after the slice that the reader may see.
    pub(crate) has_more: bool,
    /// The aborted transactions that overlap the slice, for readers of committed records only.
    pub(crate) aborted: Vec<AbortedTransaction>,
    /// One past the permanently damaged range at the requested offset.
    pub(crate) damaged_end: Option<Offset>,
}

impl PartitionRead {
    /// Creates a result with an error and nothing else.
    pub(crate) fn error(error: ErrorCode) -> Self {
        Self {
            error,
            bounds: None,
            diverging: None,
            preferred: None,
            slice: None,
            has_more: false,
            aborted: Vec::new(),
            damaged_end: None,
        }
    }

    /// Creates a result from what was read.
    pub(crate) fn read(outcome: ReadOutcome) -> Self {
        let ReadOutcome { bounds, slice, aborted, has_more, diverging } = outcome;
        let bounds = Some(bounds);
        Self { bounds, slice, aborted, has_more, diverging, ..Self::error(ErrorCode::None) }
    }

    /// Returns a bound, or -1 if there is none.
    pub(crate) fn mark(&self, of: impl Fn(&Bounds) -> Offset) -> i64 {
        self.bounds.as_ref().map_or(-1, |bounds| of(bounds).get())
    }

    /// Reports whether an incremental answer must contain the partition regardless of what was sent before.
    pub(crate) fn is_news(&self) -> bool {
        self.error != ErrorCode::None
            || self.slice.is_some()
            || self.diverging.is_some()
            || self.preferred.is_some()
    }

    pub(crate) fn failed(&self) -> bool {
        self.error != ErrorCode::None
    }

    pub(crate) fn has_data(&self) -> bool {
        self.slice.is_some()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.slice.as_ref().map_or(0, |slice| slice.extent.bytes())
    }
}
