//! Settings of a log. They may change at run time.

use std::fmt;

use tailrace_types::{TopicId, TopicPartition};

/// Settings of one log, named after Kafka's topic configs. The caller checks them. The log only clamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`: a batch that would make the active segment longer goes to a new one. Clamped to
    /// [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: u64,
    /// `segment.ms`: a batch whose timestamp is this much later than the segment's first goes to a new
    /// segment. [`Log::close_old_segment`](crate::Log::close_old_segment) closes a segment that is this old
    /// by the clock, without a batch.
    pub segment_ms: i64,
    /// Subtracted from `segment_ms`, so that many partitions do not roll at once. The caller draws it per
    /// partition from 0..=`segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// The largest step of preallocation beyond the end, in bytes. Steps double from
    /// `PREALLOCATE_BYTES_FIRST` up to it. 0 reserves nothing.
    pub preallocate_bytes: u64,
    /// True if `cleanup.policy` has `delete`. Otherwise `retention_*` are ignored.
    pub delete: bool,
    /// `retention.ms`. `None` keeps records for ever.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`. `None` means no limit.
    pub retention_bytes: Option<u64>,
    /// `tailrace.retention.records`. `None` means no limit.
    pub retention_records: Option<u64>,
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3600 * 1000,
            segment_jitter_ms: 0,
            preallocate_bytes: 16 << 20,
            delete: true,
            retention_ms: Some(7 * 24 * 3600 * 1000),
            retention_bytes: None,
            retention_records: None,
        }
    }
}

impl LogConfig {
    /// The age in milliseconds at which a segment is closed.
    pub(crate) fn close_after_ms(&self) -> i64 {
        self.segment_ms.saturating_sub(self.segment_jitter_ms).max(0)
    }
}

/// Longest `.log`, in bytes. Kafka's limit: a position in a segment is a Java int.
pub const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// The first step of preallocation, in bytes. It is small, so that a thousand partitions with a few records
/// each do not reserve gigabytes. Sixteen-fold growth takes four steps.
pub(crate) const PREALLOCATE_BYTES_FIRST: u64 = 1 << 20;

/// The largest payload of an entry without records, in bytes.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// The most bytes of all sections in a checkpoint. At about 300 bytes per producer this holds about 200,000
/// producers.
pub const SNAPSHOT_BYTES_MAX: usize = 64 << 20;

/// The partition that a log belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionIdentity {
    /// The topic's id.
    pub topic_id: TopicId,
    /// The topic's name and the partition's number.
    pub topic_partition: TopicPartition,
}

impl fmt::Display for PartitionIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (topic id {})", self.topic_partition, self.topic_id)
    }
}
