//! What a look at one partition found for a fetch: `fetch` makes its answer of it, and `fetch_session` sees whether that is
//! news.

use tailrace_kafka_wire::ErrorCode;
use tailrace_log::LogSlice;
use tailrace_replication::AbortedTransaction;
use tailrace_types::{LeaderEpoch, NodeId, Offset};

use tailrace_node::NodeDisk;
use tailrace_node::partitions::{Bounds, ReadOutcome};

/// What a look at one partition found.
pub(crate) struct PartitionRead {
    pub(crate) error: ErrorCode,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) diverging: Option<(LeaderEpoch, Offset)>,
    /// A replica that is nearer to the consumer: it had better read there, and gets nothing here.
    pub(crate) preferred: Option<NodeId>,
    pub(crate) slice: Option<LogSlice<NodeDisk>>,
    /// Behind the slice is more that the reader may see.
    pub(crate) has_more: bool,
    /// The aborted transactions that touch the slice, for those who read only what is committed.
    pub(crate) aborted: Vec<AbortedTransaction>,
    /// One past what is damaged for good at the offset that was asked for.
    pub(crate) damaged_end: Option<Offset>,
}

impl PartitionRead {
    /// Nothing but an error.
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

    /// What was read.
    pub(crate) fn read(outcome: ReadOutcome) -> Self {
        let ReadOutcome { bounds, slice, aborted, has_more, diverging } = outcome;
        let bounds = Some(bounds);
        Self { bounds, slice, aborted, has_more, diverging, ..Self::error(ErrorCode::None) }
    }

    /// A mark, or -1 where none is told.
    pub(crate) fn mark(&self, of: impl Fn(&Bounds) -> Offset) -> i64 {
        self.bounds.as_ref().map_or(-1, |bounds| of(bounds).get())
    }

    /// True if an incremental answer must name the partition whatever was sent before.
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
