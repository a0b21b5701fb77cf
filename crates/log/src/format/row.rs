//! `NNN.index`: a head, then one row of fixed size per batch.

use tailrace_records::{Attributes, BatchHeader};
use tailrace_types::{LeaderEpoch, Offset, RaftIndex, TimestampMs};

use super::bytes::{Writer, i32_at, i64_at, u16_at, u32_at, u64_at};
use super::{COMPACTION_VERSION, FormatError, check_lead};

const MAGIC: &[u8; 8] = b"TRINDEX\n";
/// The size of a row, and of the head. It divides a sector, so that no row is ever torn.
pub(crate) const ROW_BYTES: usize = 64;
const CRC_AT: usize = 60;

/// The index entry of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its raft index.
    pub raft_index: RaftIndex,
    /// Its leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Difference between its last and first offset.
    pub last_offset_delta: u32,
    /// Its number of records. Less than the number of offsets after compaction.
    pub record_count: u32,
    /// Its position in the `.log`.
    pub position: u32,
    /// Its total length.
    pub batch_bytes: u32,
    /// Its largest timestamp.
    pub max_timestamp: TimestampMs,
    /// The largest timestamp of the segment up to and including this batch.
    pub running_max_timestamp: TimestampMs,
    /// How much of the `.log` was known to be durable when the row was written.
    pub synced_bytes: u32,
    /// Its attributes: compression, timestamp type, transactional, control.
    pub attributes: Attributes,
    /// Its checksum.
    pub batch_crc: u32,
}

impl Row {
    /// Offset of the batch's last record.
    pub fn last_offset(&self) -> Offset {
        self.base_offset.plus(i64::from(self.last_offset_delta))
    }

    /// One past the batch's last offset.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().plus(1)
    }

    /// One past the batch's last byte in the `.log`.
    pub fn end_position(&self) -> u32 {
        self.position.saturating_add(self.batch_bytes)
    }

    /// True if the row describes this very batch, wherever it is stored.
    pub(crate) fn describes(&self, batch: &BatchHeader) -> bool {
        self.base_offset == batch.base_offset
            && self.leader_epoch == batch.leader_epoch
            && self.batch_crc == batch.crc
            && self.batch_bytes as usize == batch.total_bytes()
    }

    pub(crate) fn encode(&self, segment_base: Offset) -> [u8; ROW_BYTES] {
        // If an index is rebuilt, a damaged batch may claim an offset before its segment. Then the row does
        // not fit the batch, and the damage is found.
        let delta = u32::try_from(self.base_offset.0 - segment_base.0).unwrap_or(u32::MAX);
        let mut row = [0; ROW_BYTES];
        let mut put = |at: usize, bytes: &[u8]| row[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.raft_index.0.to_le_bytes());
        put(8, &self.max_timestamp.0.to_le_bytes());
        put(16, &self.running_max_timestamp.0.to_le_bytes());
        put(24, &self.leader_epoch.0.to_le_bytes());
        put(28, &delta.to_le_bytes());
        put(32, &self.last_offset_delta.to_le_bytes());
        put(36, &self.record_count.to_le_bytes());
        put(40, &self.position.to_le_bytes());
        put(44, &self.batch_bytes.to_le_bytes());
        put(48, &self.synced_bytes.to_le_bytes());
        put(52, &self.attributes.0.to_le_bytes());
        put(56, &self.batch_crc.to_le_bytes());
        let crc = row_crc(&row, segment_base);
        row[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        row
    }

    /// Decodes a row. `None` if the checksum is wrong. `row` has [`ROW_BYTES`] bytes.
    pub(crate) fn decode(row: &[u8], segment_base: Offset) -> Option<Self> {
        (row.len() >= ROW_BYTES && u32_at(row, CRC_AT) == row_crc(row, segment_base))
            .then(|| Self::decode_unchecked(row, segment_base))
    }

    /// Restores a row that is damaged only in fields that its batch also has: with the batch's fields its
    /// checksum is right again. `batch` holds what the batch alone provides. Raft index, running maximum and
    /// synced bytes come from `row`, which has [`ROW_BYTES`] bytes.
    pub(crate) fn restored(row: &[u8], segment_base: Offset, batch: &Self) -> Option<Self> {
        let old = Self::decode_unchecked(row, segment_base);
        let restored = Self {
            raft_index: old.raft_index,
            running_max_timestamp: old.running_max_timestamp,
            synced_bytes: old.synced_bytes,
            ..*batch
        };
        let written = restored.encode(segment_base);
        (u32_at(&written, CRC_AT) == u32_at(row, CRC_AT)).then_some(restored)
    }

    /// Decodes the bytes without checking them. `row` has [`ROW_BYTES`] bytes.
    pub(crate) fn decode_unchecked(row: &[u8], segment_base: Offset) -> Self {
        Self {
            raft_index: RaftIndex(u64_at(row, 0)),
            max_timestamp: TimestampMs(i64_at(row, 8)),
            running_max_timestamp: TimestampMs(i64_at(row, 16)),
            leader_epoch: LeaderEpoch(i32_at(row, 24)),
            base_offset: segment_base.plus(i64::from(u32_at(row, 28))),
            last_offset_delta: u32_at(row, 32),
            record_count: u32_at(row, 36),
            position: u32_at(row, 40),
            batch_bytes: u32_at(row, 44),
            synced_bytes: u32_at(row, 48),
            attributes: Attributes(u16_at(row, 52).cast_signed()),
            batch_crc: u32_at(row, 56),
        }
    }
}

fn row_crc(row: &[u8], segment_base: Offset) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&row[..CRC_AT]), &segment_base.0.to_le_bytes())
}

/// Position of row `number` in the file.
pub(crate) fn row_position(number: u32) -> u64 {
    (u64::from(number) + 1) * ROW_BYTES as u64
}

pub(crate) fn encode_head(segment_base: Offset) -> Vec<u8> {
    Writer::with_lead(MAGIC, ROW_BYTES).u32(ROW_BYTES as u32).i64(segment_base.0).zeros_to(CRC_AT).sealed()
}

pub(crate) fn check_head(head: &[u8], segment_base: Offset) -> Result<(), FormatError> {
    check_lead(head, MAGIC, CRC_AT, COMPACTION_VERSION)?;
    let (row_bytes, base) = (u32_at(head, 12), i64_at(head, 16));
    if row_bytes as usize != ROW_BYTES || base != segment_base.0 {
        let reason =
            format!("head names rows of {row_bytes} bytes and base offset {base}, expected {segment_base}");
        return Err(FormatError::damaged(12, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tailrace_records::{BatchBuilder, BatchOptions};

    use super::*;

    const BASE: Offset = Offset(1000);

    fn row() -> Row {
        Row {
            raft_index: RaftIndex(0x0102_0304_0506_0708),
            leader_epoch: LeaderEpoch(7),
            base_offset: Offset(1005),
            last_offset_delta: 3,
            record_count: 2,
            position: 64,
            batch_bytes: 100,
            max_timestamp: TimestampMs(1111),
            running_max_timestamp: TimestampMs(2222),
            synced_bytes: 32,
            attributes: Attributes(0x10),
            batch_crc: 0xdead_beef,
        }
    }

    /// The checksum was computed by other code from docs/format.md: CRC-32C of the 60 bytes and the base
    /// offset of the segment.
    #[test]
    fn the_bytes_of_a_row() {
        let bytes: [u8; ROW_BYTES] = [
            0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x57, 0x04, 0, 0, 0, 0, 0, 0, //
            0xae, 0x08, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, //
            3, 0, 0, 0, 2, 0, 0, 0, 64, 0, 0, 0, 100, 0, 0, 0, //
            32, 0, 0, 0, 0x10, 0, 0, 0, 0xef, 0xbe, 0xad, 0xde, 0x7b, 0x9f, 0x19, 0xb2,
        ];
        assert_eq!(row().encode(BASE), bytes);
        assert_eq!(Row::decode(&bytes, BASE), Some(row()));
        assert_eq!((row_position(0), row_position(2)), (64, 192));
    }

    #[test]
    fn a_row_counts_only_whole_unchanged_and_in_its_segment() {
        let bytes = row().encode(BASE);
        assert_eq!(Row::decode(&bytes, Offset(1001)), None);
        assert_eq!(Row::decode(&bytes[..ROW_BYTES - 1], BASE), None);
        for at in 0..ROW_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(Row::decode(&damaged, BASE), None, "byte {at}");
        }
    }

    #[test]
    fn a_row_is_restored_from_its_batch_only_if_nothing_else_is_damaged() {
        let mut damaged = row().encode(BASE);
        damaged[44] ^= 1;
        assert_eq!(Row::restored(&damaged, BASE, &row()), Some(row()));
        let of_batch = Row { raft_index: RaftIndex(0), synced_bytes: 0, ..row() };
        assert_eq!(Row::restored(&damaged, BASE, &of_batch), Some(row()));
        damaged[0] ^= 1;
        assert_eq!(Row::restored(&damaged, BASE, &row()), None);
    }

    #[test]
    fn a_head_belongs_to_one_segment_and_names_the_size_of_rows() {
        let head = encode_head(BASE);
        assert!(check_head(&head, BASE).is_ok());
        assert!(check_head(&head, Offset(1001)).is_err());
        let other = Writer::with_lead(MAGIC, ROW_BYTES).u32(32).i64(BASE.0).zeros_to(CRC_AT).sealed();
        assert!(check_head(&other, BASE).is_err());
    }

    #[test]
    fn a_row_describes_one_batch() {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        batch.push(TimestampMs(1), None, Some(b"value"), &[]).expect("a record");
        let (batch, bytes) = batch.build_with_header();
        let of = Row {
            base_offset: batch.base_offset,
            leader_epoch: batch.leader_epoch,
            batch_crc: batch.crc,
            batch_bytes: bytes.len() as u32,
            ..row()
        };
        assert!(of.describes(&batch));
        let others = [
            Row { base_offset: batch.base_offset.plus(1), ..of },
            Row { leader_epoch: LeaderEpoch(batch.leader_epoch.0 + 1), ..of },
            Row { batch_crc: batch.crc ^ 1, ..of },
            Row { batch_bytes: bytes.len() as u32 + 1, ..of },
        ];
        assert!(others.iter().all(|other| !other.describes(&batch)));
    }
}
