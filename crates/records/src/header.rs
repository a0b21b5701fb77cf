//! The 61-byte header of a record batch, as a plain struct.

use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::{Attributes, BatchError};

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Leading bytes that a server stamps and that the CRC does not cover: base offset, batch length, leader
/// epoch.
pub const PREFIX_BYTES: usize = 16;
/// Bytes before the part that `batch_length` counts.
pub const LENGTH_OVERHEAD: usize = 12;
/// The smallest legal `batch_length`: a header without records.
pub(crate) const BATCH_LENGTH_MIN: i32 = (HEADER_BYTES - LENGTH_OVERHEAD) as i32;
/// The only magic that is stored.
pub const MAGIC: i8 = 2;
/// The base sequence of batches whose producer is not idempotent.
pub const NO_SEQUENCE: i32 = -1;

/// Position of the base offset, `i64`.
pub(crate) const BASE_OFFSET_OFFSET: usize = 0;
/// Position of the batch length, `i32`.
pub const LENGTH_OFFSET: usize = 8;
/// Position of the leader epoch, `i32`.
pub const LEADER_EPOCH_OFFSET: usize = 12;
/// Position of the magic, `i8`.
pub const MAGIC_OFFSET: usize = 16;
/// Position of the CRC-32C, `u32`.
pub const CRC_OFFSET: usize = 17;
/// Position of the attributes, `i16`: the first byte that the CRC covers.
pub const ATTRIBUTES_OFFSET: usize = 21;
/// Position of the last offset delta, `i32`.
pub const LAST_OFFSET_DELTA_OFFSET: usize = 23;
/// Position of the base timestamp, `i64`.
pub const BASE_TIMESTAMP_OFFSET: usize = 27;
/// Position of the largest timestamp, `i64`.
pub(crate) const MAX_TIMESTAMP_OFFSET: usize = 35;
/// Position of the producer id, `i64`.
pub(crate) const PRODUCER_ID_OFFSET: usize = 43;
/// Position of the producer epoch, `i16`.
pub(crate) const PRODUCER_EPOCH_OFFSET: usize = 51;
/// Position of the first sequence, `i32`.
pub(crate) const BASE_SEQUENCE_OFFSET: usize = 53;
/// Position of the record count, `i32`.
pub const RECORD_COUNT_OFFSET: usize = 57;

/// The fields of a batch header, in the order in which they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Bytes of the batch after this field, which ends at byte 12.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch, -1 if none has.
    pub leader_epoch: LeaderEpoch,
    /// Version of the format: 2.
    pub magic: i8,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Codec, timestamp type and flags.
    pub attributes: Attributes,
    /// Offset of the last record minus the base offset.
    pub last_offset_delta: i32,
    /// The base of the records' timestamp deltas.
    pub base_timestamp: TimestampMs,
    /// The largest timestamp of a record. With LogAppendTime, the timestamp of all records.
    pub max_timestamp: TimestampMs,
    /// The idempotent producer, or -1.
    pub producer_id: ProducerId,
    /// Epoch of the producer id, or -1.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Number of records.
    pub record_count: i32,
}

fn field<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

impl BatchHeader {
    /// Reads and checks the first 61 bytes of a stored batch: the magic, the length, and whether the count
    /// and the last offset delta are possible. Gaps are allowed, since compaction leaves them. Does not check
    /// the CRC, and the bytes after the header may be missing.
    ///
    /// # Errors
    /// `Incomplete`, `Length`, `UnknownMagic`, `OldMagic` or `Count`.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        current_frame(bytes)?;
        let header = Self::read(bytes)?;
        let offsets = i64::from(header.last_offset_delta) + 1;
        if header.last_offset_delta < 0 || header.record_count < 0 || i64::from(header.record_count) > offsets
        {
            return Err(header.count_error());
        }
        Ok(header)
    }

    /// Reads the fields without checking them.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, BatchError> {
        let Some(h) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(BatchError::Incomplete { bytes_needed: HEADER_BYTES, bytes: bytes.len() });
        };
        Ok(Self {
            base_offset: Offset(i64::from_be_bytes(field(h, BASE_OFFSET_OFFSET))),
            batch_length: i32::from_be_bytes(field(h, LENGTH_OFFSET)),
            leader_epoch: LeaderEpoch(i32::from_be_bytes(field(h, LEADER_EPOCH_OFFSET))),
            magic: i8::from_be_bytes(field(h, MAGIC_OFFSET)),
            crc: u32::from_be_bytes(field(h, CRC_OFFSET)),
            attributes: Attributes(i16::from_be_bytes(field(h, ATTRIBUTES_OFFSET))),
            last_offset_delta: i32::from_be_bytes(field(h, LAST_OFFSET_DELTA_OFFSET)),
            base_timestamp: TimestampMs(i64::from_be_bytes(field(h, BASE_TIMESTAMP_OFFSET))),
            max_timestamp: TimestampMs(i64::from_be_bytes(field(h, MAX_TIMESTAMP_OFFSET))),
            producer_id: ProducerId(i64::from_be_bytes(field(h, PRODUCER_ID_OFFSET))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(h, PRODUCER_EPOCH_OFFSET))),
            base_sequence: i32::from_be_bytes(field(h, BASE_SEQUENCE_OFFSET)),
            record_count: i32::from_be_bytes(field(h, RECORD_COUNT_OFFSET)),
        })
    }

    /// Returns the 61 bytes, with the CRC from `crc`.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(BASE_OFFSET_OFFSET, &self.base_offset.0.to_be_bytes());
        put(LENGTH_OFFSET, &self.batch_length.to_be_bytes());
        put(LEADER_EPOCH_OFFSET, &self.leader_epoch.0.to_be_bytes());
        put(MAGIC_OFFSET, &self.magic.to_be_bytes());
        put(CRC_OFFSET, &self.crc.to_be_bytes());
        put(ATTRIBUTES_OFFSET, &self.attributes.0.to_be_bytes());
        put(LAST_OFFSET_DELTA_OFFSET, &self.last_offset_delta.to_be_bytes());
        put(BASE_TIMESTAMP_OFFSET, &self.base_timestamp.0.to_be_bytes());
        put(MAX_TIMESTAMP_OFFSET, &self.max_timestamp.0.to_be_bytes());
        put(PRODUCER_ID_OFFSET, &self.producer_id.0.to_be_bytes());
        put(PRODUCER_EPOCH_OFFSET, &self.producer_epoch.0.to_be_bytes());
        put(BASE_SEQUENCE_OFFSET, &self.base_sequence.to_be_bytes());
        put(RECORD_COUNT_OFFSET, &self.record_count.to_be_bytes());
        out
    }

    /// Returns the first 16 bytes of the stored batch: base offset, length and leader epoch of this header.
    pub fn prefix(&self) -> [u8; PREFIX_BYTES] {
        let mut out = [0; PREFIX_BYTES];
        out.copy_from_slice(&self.to_bytes()[..PREFIX_BYTES]);
        out
    }

    /// Number of records, from a checked header.
    ///
    /// # Panics
    /// If it is negative. Everything that reads or makes a header refuses such a number.
    pub const fn records(&self) -> u64 {
        assert!(self.record_count >= 0, "a batch has a negative number of records");
        self.record_count.unsigned_abs() as u64
    }

    /// Bytes of the whole batch.
    pub const fn total_bytes(&self) -> usize {
        LENGTH_OVERHEAD + if self.batch_length < 0 { 0 } else { self.batch_length as usize }
    }

    /// Offset of the last record. The offset stays even if compaction has removed that record.
    pub const fn last_offset(&self) -> Offset {
        self.base_offset.plus(self.last_offset_delta as i64)
    }

    /// Offset after the last record.
    pub const fn next_offset(&self) -> Offset {
        self.last_offset().plus(1)
    }

    /// Sequence of the last record, -1 if there is none. Wraps from the largest `i32` to 0, as in Kafka.
    pub const fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        self.base_sequence.wrapping_add(self.last_offset_delta) & i32::MAX
    }

    /// Sequence after that of the last record, -1 if there is none.
    pub const fn next_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        self.last_sequence().wrapping_add(1) & i32::MAX
    }

    /// True if an idempotent producer wrote it.
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id.0 > ProducerId::NONE.0
    }

    pub(crate) const fn count_error(&self) -> BatchError {
        BatchError::Count { record_count: self.record_count, last_offset_delta: self.last_offset_delta }
    }
}

/// The smallest batch length that Kafka inspects further: that of a message of format 0.
const OLD_LENGTH_MIN: i32 = 14;

/// Finds the end of the batch at the start of `bytes`, of any message format. Returns its length in bytes,
/// which may exceed `bytes`.
pub(crate) fn frame(bytes: &[u8]) -> Result<usize, BatchError> {
    let incomplete = BatchError::Incomplete { bytes_needed: HEADER_BYTES, bytes: bytes.len() };
    let Some((_, length)) = bytes.get(..LENGTH_OVERHEAD).and_then(|head| head.split_last_chunk::<4>()) else {
        return Err(incomplete);
    };
    let batch_length = i32::from_be_bytes(*length);
    if batch_length < OLD_LENGTH_MIN {
        return Err(BatchError::Length { batch_length, batch_length_min: BATCH_LENGTH_MIN });
    }
    match bytes.get(MAGIC_OFFSET).map(|&magic| magic as i8) {
        None => Err(incomplete),
        Some(0..=MAGIC) => Ok(LENGTH_OVERHEAD + batch_length as usize),
        Some(magic) => Err(BatchError::UnknownMagic { magic }),
    }
}

/// Like [`frame`], and requires the one format that is stored.
pub(crate) fn current_frame(bytes: &[u8]) -> Result<usize, BatchError> {
    let total = frame(bytes)?;
    match bytes.get(MAGIC_OFFSET).map(|&magic| magic as i8) {
        Some(magic) if magic != MAGIC => Err(BatchError::OldMagic { magic }),
        _ if total < HEADER_BYTES => {
            let batch_length = (total - LENGTH_OVERHEAD) as i32;
            Err(BatchError::Length { batch_length, batch_length_min: BATCH_LENGTH_MIN })
        }
        _ => Ok(total),
    }
}
