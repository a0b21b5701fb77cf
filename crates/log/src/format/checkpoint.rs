//! `checkpoint`: the recovery point, and what is known about everything below it.

use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs, TopicId};

use super::bytes::{Writer, i32_at, i64_at, u32_at, u64_at};
use super::{FormatError, check_sealed};

const MAGIC: &[u8; 8] = b"TRCKPNT\n";
const FIXED_BYTES: usize = 60;
const SEGMENT_BYTES: usize = 64;
/// The additional fields of version 2: the first dirty offset, and each segment's generation.
const FIXED_BYTES_MORE: usize = 8;
const SEGMENT_BYTES_MORE: usize = 4;
const EPOCH_BYTES: usize = 12;
/// The largest file: about a million segments.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) base_offset: Offset,
    /// 0 as appended, otherwise the number of times that compaction has rewritten it.
    pub(crate) generation: u32,
    pub(crate) first_raft_index: RaftIndex,
    pub(crate) end_offset: Offset,
    pub(crate) max_timestamp: TimestampMs,
    /// Largest timestamp of the first batch.
    pub(crate) first_timestamp: TimestampMs,
    pub(crate) created: TimestampMs,
    pub(crate) modified: TimestampMs,
    pub(crate) bytes: u32,
    pub(crate) rows: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) topic_id: TopicId,
    pub(crate) log_start: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) next_raft_index: RaftIndex,
    /// Compaction has covered everything below. 0 if there was none.
    pub(crate) first_dirty: Offset,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) epochs: Vec<(LeaderEpoch, Offset)>,
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let is_compacted = self.first_dirty.0 != 0 || self.segments.iter().any(|s| s.generation != 0);
        let version = if is_compacted { 2 } else { 1 };
        let (fixed, each) = widths(version);
        let bytes = fixed + self.segments.len() * each + self.epochs.len() * EPOCH_BYTES + 4;
        let mut out = Writer::with_version(MAGIC, version, bytes)
            .raw(&self.topic_id.0)
            .i64(self.log_start.0)
            .i64(self.end_offset.0)
            .u64(self.next_raft_index.0)
            .u32(self.segments.len() as u32)
            .u32(self.epochs.len() as u32);
        if is_compacted {
            out = out.i64(self.first_dirty.0);
        }
        for segment in &self.segments {
            out = out
                .i64(segment.base_offset.0)
                .u64(segment.first_raft_index.0)
                .i64(segment.end_offset.0)
                .i64(segment.max_timestamp.0)
                .i64(segment.first_timestamp.0)
                .i64(segment.created.0)
                .i64(segment.modified.0)
                .u32(segment.bytes)
                .u32(segment.rows);
            if is_compacted {
                out = out.u32(segment.generation);
            }
        }
        for (epoch, start) in &self.epochs {
            out = out.i32(epoch.0).i64(start.0);
        }
        out.sealed()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let version = check_sealed(bytes, MAGIC)?;
        let (fixed, each) = widths(version);
        if bytes.len() < fixed + 4 {
            return Err(FormatError::damaged(0, format!("{} bytes, too short", bytes.len())));
        }
        let crc_at = bytes.len() - 4;
        let (segments, epochs) = (u32_at(bytes, 52) as usize, u32_at(bytes, 56) as usize);
        let epochs_at = fixed + segments * each;
        if crc_at != epochs_at + epochs * EPOCH_BYTES {
            return Err(FormatError::damaged(
                52,
                format!("counts {segments} and {epochs} do not fit the length"),
            ));
        }
        let mut topic_id = [0; 16];
        topic_id.copy_from_slice(&bytes[12..28]);
        Ok(Self {
            topic_id: TopicId(topic_id),
            log_start: Offset(i64_at(bytes, 28)),
            end_offset: Offset(i64_at(bytes, 36)),
            next_raft_index: RaftIndex(u64_at(bytes, 44)),
            first_dirty: if version >= 2 { Offset(i64_at(bytes, FIXED_BYTES)) } else { Offset(0) },
            segments: bytes[fixed..epochs_at].chunks_exact(each).map(decode_segment).collect(),
            epochs: bytes[epochs_at..crc_at]
                .chunks_exact(EPOCH_BYTES)
                .map(|e| (LeaderEpoch(i32_at(e, 0)), Offset(i64_at(e, 4))))
                .collect(),
        })
    }
}

/// Returns the bytes before the segments, and the bytes per segment.
fn widths(version: u32) -> (usize, usize) {
    if version >= 2 {
        (FIXED_BYTES + FIXED_BYTES_MORE, SEGMENT_BYTES + SEGMENT_BYTES_MORE)
    } else {
        (FIXED_BYTES, SEGMENT_BYTES)
    }
}

fn decode_segment(bytes: &[u8]) -> SegmentEntry {
    SegmentEntry {
        base_offset: Offset(i64_at(bytes, 0)),
        generation: if bytes.len() > SEGMENT_BYTES { u32_at(bytes, SEGMENT_BYTES) } else { 0 },
        first_raft_index: RaftIndex(u64_at(bytes, 8)),
        end_offset: Offset(i64_at(bytes, 16)),
        max_timestamp: TimestampMs(i64_at(bytes, 24)),
        first_timestamp: TimestampMs(i64_at(bytes, 32)),
        created: TimestampMs(i64_at(bytes, 40)),
        modified: TimestampMs(i64_at(bytes, 48)),
        bytes: u32_at(bytes, 56),
        rows: u32_at(bytes, 60),
    }
}
