//! `NNN.header`.

use tailrace_types::{Offset, RaftIndex, TimestampMs};

use super::bytes::{Writer, i64_at, u32_at, u64_at};
use super::{FormatError, check_lead};

const MAGIC: &[u8; 8] = b"TRSEGMT\n";
const CRC_AT: usize = 60;
pub(crate) const BYTES: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) base_offset: Offset,
    /// Of the segment's first batch.
    pub(crate) first_raft_index: RaftIndex,
    pub(crate) created: TimestampMs,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        Writer::with_lead(MAGIC, CRC_AT + 4)
            .u32(0)
            .i64(self.base_offset.0)
            .u64(self.first_raft_index.0)
            .i64(self.created.0)
            .zeros_to(CRC_AT)
            .sealed()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        check_lead(bytes, MAGIC)?;
        if bytes.len() as u64 != BYTES || u32_at(bytes, CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]) {
            return Err(FormatError::damaged(0, "wrong length or checksum"));
        }
        Ok(Self {
            base_offset: Offset(i64_at(bytes, 16)),
            first_raft_index: RaftIndex(u64_at(bytes, 24)),
            created: TimestampMs(i64_at(bytes, 32)),
        })
    }
}
