//! `NNN.header`.

use tailrace_types::{Offset, RaftIndex, TimestampMs};

use super::bytes::{Writer, i64_at, u32_at, u64_at};
use super::{FormatError, check_sealed};

const MAGIC: &[u8; 8] = b"TRSEGMT\n";
const CRC_AT: usize = 60;
pub(crate) const BYTES: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) base_offset: Offset,
    /// Raft index of the segment's first batch.
    pub(crate) first_raft_index: RaftIndex,
    pub(crate) created: TimestampMs,
    /// Present if compaction wrote the segment.
    pub(crate) compacted: Option<Compacted>,
}

/// What the `.log` of a compacted segment no longer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The generation in the file's name.
    pub(crate) generation: u32,
    /// One past the last offset of its sources.
    pub(crate) end_offset: Offset,
    /// One past the raft index of its last batch.
    pub(crate) next_raft_index: RaftIndex,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let version = if self.compacted.is_some() { 2 } else { 1 };
        let mut out = Writer::with_version(MAGIC, version, CRC_AT + 4)
            .u32(0)
            .i64(self.base_offset.0)
            .u64(self.first_raft_index.0)
            .i64(self.created.0);
        if let Some(compacted) = self.compacted {
            out = out.u32(compacted.generation).i64(compacted.end_offset.0).u64(compacted.next_raft_index.0);
        }
        out.zeros_to(CRC_AT).sealed()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let version = check_sealed(bytes, MAGIC)?;
        if bytes.len() as u64 != BYTES {
            return Err(FormatError::damaged(0, format!("{} bytes, expected {BYTES}", bytes.len())));
        }
        Ok(Self {
            base_offset: Offset(i64_at(bytes, 16)),
            first_raft_index: RaftIndex(u64_at(bytes, 24)),
            created: TimestampMs(i64_at(bytes, 32)),
            compacted: (version >= 2).then(|| Compacted {
                generation: u32_at(bytes, 40),
                end_offset: Offset(i64_at(bytes, 44)),
                next_raft_index: RaftIndex(u64_at(bytes, 52)),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::resealed;
    use super::*;

    #[test]
    fn headers_come_back_and_a_newer_version_is_refused() {
        let compacted = Compacted { generation: 3, end_offset: Offset(20), next_raft_index: RaftIndex(31) };
        for compacted in [None, Some(compacted)] {
            let header = SegmentHeader {
                base_offset: Offset(7),
                first_raft_index: RaftIndex(8),
                created: TimestampMs(9),
                compacted,
            };
            let bytes = header.encode();
            assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
            assert_eq!(SegmentHeader::decode(&resealed(bytes, 9)), Err(FormatError::Newer(9)));
        }
    }
}
