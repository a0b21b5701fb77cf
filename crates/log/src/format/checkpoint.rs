//! `checkpoint`: the recovery point and what is known about all that lies below it.

use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs, TopicId};

use super::bytes::{Writer, i32_at, i64_at, u32_at, u64_at};
use super::{FormatError, check_lead};

const MAGIC: &[u8; 8] = b"TRCKPNT\n";
const FIXED_BYTES: usize = 60;
const SEGMENT_BYTES: usize = 64;
const EPOCH_BYTES: usize = 12;
/// Largest file: about a million segments.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) base_offset: Offset,
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
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) epochs: Vec<(LeaderEpoch, Offset)>,
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = FIXED_BYTES + self.segments.len() * SEGMENT_BYTES + self.epochs.len() * EPOCH_BYTES + 4;
        let mut out = Writer::with_lead(MAGIC, bytes)
            .raw(&self.topic_id.0)
            .i64(self.log_start.0)
            .i64(self.end_offset.0)
            .u64(self.next_raft_index.0)
            .u32(self.segments.len() as u32)
            .u32(self.epochs.len() as u32);
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
        }
        for (epoch, start) in &self.epochs {
            out = out.i32(epoch.0).i64(start.0);
        }
        out.sealed()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        check_lead(bytes, MAGIC)?;
        if bytes.len() < FIXED_BYTES + 4 {
            return Err(FormatError::damaged(0, format!("{} bytes, too short", bytes.len())));
        }
        let crc_at = bytes.len() - 4;
        if u32_at(bytes, crc_at) != crc32c::crc32c(&bytes[..crc_at]) {
            return Err(FormatError::damaged(crc_at as u64, "wrong checksum"));
        }
        let (segments, epochs) = (u32_at(bytes, 52) as usize, u32_at(bytes, 56) as usize);
        let epochs_at = FIXED_BYTES + segments * SEGMENT_BYTES;
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
            segments: bytes[FIXED_BYTES..epochs_at].chunks_exact(SEGMENT_BYTES).map(decode_segment).collect(),
            epochs: bytes[epochs_at..crc_at]
                .chunks_exact(EPOCH_BYTES)
                .map(|e| (LeaderEpoch(i32_at(e, 0)), Offset(i64_at(e, 4))))
                .collect(),
        })
    }
}

fn decode_segment(bytes: &[u8]) -> SegmentEntry {
    SegmentEntry {
        base_offset: Offset(i64_at(bytes, 0)),
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
