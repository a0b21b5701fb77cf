//! The part of a log that could be compacted now. The rules are Kafka's (`LogCleanerManager`), in whole
//! segments.

use std::sync::Arc;

use tailrace_types::{Offset, TimestampMs};

use crate::disk::Disk;
use crate::reader::{LogReader, SegmentList};
use crate::segment::Segment;

/// The limits of what may be compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionLimits {
    /// One past the last record that is committed and whose transaction is decided: the last stable offset.
    pub stable: Offset,
    /// `min.compaction.lag.ms`: segments with a younger record are not compacted.
    pub min_lag_ms: i64,
    /// `max.compaction.lag.ms`: an older uncompacted segment is due, however small its dirty share.
    pub max_lag_ms: i64,
    /// The current time.
    pub now: TimestampMs,
}

/// The part of a log that could be compacted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanable {
    /// Compaction has covered everything below.
    pub first_dirty: Offset,
    /// End of the part that could be compacted now: the base of a segment.
    pub end: Offset,
    /// Bytes below `first_dirty`, in whole segments.
    pub clean_bytes: u64,
    /// Bytes from `first_dirty` to `end`, in whole segments.
    pub dirty_bytes: u64,
    /// True if `max.compaction.lag.ms` is set and a tombstone or marker in the compacted part has expired, or
    /// if this is unknown since the start.
    pub expired: bool,
    /// Milliseconds by which `max.compaction.lag.ms` is exceeded, or 0.
    pub overdue_ms: i64,
}

impl Cleanable {
    /// Returns the dirty share of the cleanable bytes, 0 to 1, which is compared with
    /// `min.cleanable.dirty.ratio`.
    pub fn dirty_ratio(&self) -> f64 {
        let total = self.clean_bytes + self.dirty_bytes;
        if total == 0 { 0.0 } else { self.dirty_bytes as f64 / total as f64 }
    }
}

impl<D: Disk> LogReader<D> {
    /// Returns what could be compacted now, which never includes a segment that still takes batches. Takes no
    /// lock and reads no file.
    pub fn cleanable(&self, limits: &CompactionLimits) -> Cleanable {
        cleanable(&self.segments.load(), self.first_dirty().max(self.log_start()), limits)
    }
}

pub(crate) fn cleanable<D: Disk>(
    segments: &SegmentList<D>,
    first_dirty: Offset,
    limits: &CompactionLimits,
) -> Cleanable {
    let open = segments.last().is_some_and(|last| !last.is_closed());
    let closed = &segments[..segments.len() - usize::from(open)];
    let first_young = closed.iter().position(|s| {
        limits.min_lag_ms > 0
            && s.end_offset() > first_dirty
            && s.max_timestamp().0 > limits.now.0.saturating_sub(limits.min_lag_ms)
    });
    let eligible = first_young.unwrap_or(closed.len());
    let stable = closed.iter().take_while(|s| s.end_offset() <= limits.stable).count();
    let count = eligible.min(stable);
    let last_end = closed[..count].last().map_or(first_dirty, |s| s.end_offset());
    let end = segments.get(count).map_or(last_end, |s| s.base_offset);
    let (mut clean_bytes, mut dirty_bytes, mut oldest) = (0, 0, i64::MAX);
    for segment in &closed[..count] {
        let bytes = u64::from(segment.bytes());
        if segment.end_offset() > first_dirty {
            dirty_bytes += bytes;
            // Records may have timestamps in the future.
            let begun = [segment.first_timestamp().0, segment.created.0];
            oldest = begun.into_iter().filter(|ms| *ms > 0).fold(oldest, i64::min);
        } else {
            clean_bytes += bytes;
        }
    }
    let due_from = limits.now.0.saturating_sub(limits.max_lag_ms.max(0));
    let overdue_ms = if oldest < due_from { due_from - oldest } else { 0 };
    let is_expired = |s: &Arc<Segment<D>>| s.next_horizon().is_none_or(|horizon| horizon <= limits.now);
    let expired = limits.max_lag_ms < i64::MAX
        && closed[..count].iter().any(|s| s.generation > 0 && s.rows() > 0 && is_expired(s));
    Cleanable { first_dirty, end, clean_bytes, dirty_bytes, expired, overdue_ms }
}
