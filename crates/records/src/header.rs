//! The 61 bytes that lead a record batch, as a plain struct.

use std::fmt;
use std::str::FromStr;

use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::BatchError;

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Bytes that a server stamps and that the CRC does not cover: base offset, batch length, leader epoch.
pub const PREFIX_BYTES: usize = 16;
/// Bytes before the first one that `batch_length` counts.
pub const LENGTH_OVERHEAD: usize = 12;
/// Least legal `batch_length`: a header without records.
pub const BATCH_LENGTH_MIN: i32 = (HEADER_BYTES - LENGTH_OVERHEAD) as i32;
/// The only magic that is stored.
pub const MAGIC: i8 = 2;
/// "No sequence": batches of a producer that is not idempotent.
pub const NO_SEQUENCE: i32 = -1;

/// Position of the base offset, `i64`.
pub const BASE_OFFSET_OFFSET: usize = 0;
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
pub const MAX_TIMESTAMP_OFFSET: usize = 35;
/// Position of the producer id, `i64`.
pub const PRODUCER_ID_OFFSET: usize = 43;
/// Position of the producer epoch, `i16`.
pub const PRODUCER_EPOCH_OFFSET: usize = 51;
/// Position of the first sequence, `i32`.
pub const BASE_SEQUENCE_OFFSET: usize = 53;
/// Position of the record count, `i32`.
pub const RECORD_COUNT_OFFSET: usize = 57;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// Snappy in snappy-java's framing.
    Snappy,
    /// LZ4 frames of independent blocks.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Every codec, by id.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The id in the low three bits of the attributes.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The codec of an id; `None` for an unknown one.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Kafka's name of it, as in `compression.type` of a producer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no compression: expected none, gzip, snappy, lz4 or zstd")]
pub struct UnknownCompressionName(pub String);

impl FromStr for Compression {
    type Err = UnknownCompressionName;

    /// Reads Kafka's names. A topic's `uncompressed` means `none`; its `producer` is no codec.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|c| c.name() == text);
        match text {
            "uncompressed" => Ok(Self::None),
            _ => named.ok_or_else(|| UnknownCompressionName(text.to_owned())),
        }
    }
}

/// Whose clock the timestamps of a batch come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer's: each record has its own.
    #[default]
    CreateTime,
    /// The server's: every record of the batch has the batch's largest timestamp.
    LogAppendTime,
}

impl TimestampType {
    /// Kafka's name of it, as in `message.timestamp.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The attributes of a batch. Bits 0-2 name the codec, 3 the timestamp type, 4 says transactional, 5 control,
/// 6 that the base timestamp is a delete horizon. The others are unused and ignored, as Kafka does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// The codec of the records.
    ///
    /// # Errors
    /// [`BatchError::UnknownCompression`] for the ids 5 to 7.
    pub const fn compression(self) -> Result<Compression, BatchError> {
        let id = (self.0 & Self::COMPRESSION) as u8;
        match Compression::from_id(id) {
            Some(compression) => Ok(compression),
            None => Err(BatchError::UnknownCompression { id }),
        }
    }

    /// Whose clock the timestamps come from.
    pub const fn timestamp_type(self) -> TimestampType {
        if self.has(Self::LOG_APPEND_TIME) { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// Part of a transaction.
    pub const fn is_transactional(self) -> bool {
        self.has(Self::TRANSACTIONAL)
    }

    /// Holds a marker, not application data.
    pub const fn is_control(self) -> bool {
        self.has(Self::CONTROL)
    }

    /// The base timestamp is the time from which compaction may drop the batch's tombstones (KIP-534).
    pub const fn has_delete_horizon(self) -> bool {
        self.has(Self::DELETE_HORIZON)
    }

    /// The same with another codec.
    #[must_use]
    pub const fn with_compression(self, compression: Compression) -> Self {
        Self((self.0 & !Self::COMPRESSION) | compression.id() as i16)
    }

    /// The same with another timestamp type.
    #[must_use]
    pub const fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        self.with(Self::LOG_APPEND_TIME, matches!(timestamp_type, TimestampType::LogAppendTime))
    }

    /// The same, transactional or not.
    #[must_use]
    pub const fn with_transactional(self, transactional: bool) -> Self {
        self.with(Self::TRANSACTIONAL, transactional)
    }

    /// The same, control or not.
    #[must_use]
    pub const fn with_control(self, control: bool) -> Self {
        self.with(Self::CONTROL, control)
    }

    /// Without the bits that mean nothing. Kafka clears them when it rewrites a batch's attributes.
    #[must_use]
    pub(crate) const fn known(self) -> Self {
        Self(self.0 & 0x7f)
    }

    const fn has(self, bit: i16) -> bool {
        self.0 & bit != 0
    }

    const fn with(self, bit: i16, set: bool) -> Self {
        Self(if set { self.0 | bit } else { self.0 & !bit })
    }
}

/// The fields of a batch header, in the order in which they lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Bytes of the batch after this field, which ends at byte 12.
    pub batch_length: i32,
    /// Generation of the leader that appended the batch; -1 if none has.
    pub leader_epoch: LeaderEpoch,
    /// Version of the format: 2.
    pub magic: i8,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Codec, timestamp type and flags.
    pub attributes: Attributes,
    /// Offset of the last record, less the base offset.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas add to.
    pub base_timestamp: TimestampMs,
    /// The largest timestamp of a record; with LogAppendTime that of all of them.
    pub max_timestamp: TimestampMs,
    /// Idempotent producer, or -1.
    pub producer_id: ProducerId,
    /// Generation of the producer id, or -1.
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
    /// Reads and checks the first 61 bytes of a stored batch: magic, length, and that count and last offset delta
    /// are possible. Gaps are allowed, since compaction leaves them. The CRC is not checked, and the bytes after
    /// the header need not be there.
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

    /// Reads the fields without judging them.
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

    /// The 61 bytes, the CRC as it stands in `crc`.
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

    /// The first 16 bytes of the batch as it is stored: base offset, length and leader epoch of this header.
    pub fn prefix(&self) -> [u8; PREFIX_BYTES] {
        let mut out = [0; PREFIX_BYTES];
        out.copy_from_slice(&self.to_bytes()[..PREFIX_BYTES]);
        out
    }

    /// Bytes of the whole batch.
    pub const fn total_bytes(&self) -> usize {
        LENGTH_OVERHEAD + if self.batch_length < 0 { 0 } else { self.batch_length as usize }
    }

    /// Offset of the last record. Compaction may have removed that record; the offset stays.
    pub const fn last_offset(&self) -> Offset {
        self.base_offset.plus(self.last_offset_delta as i64)
    }

    /// Offset after the last record.
    pub const fn next_offset(&self) -> Offset {
        self.last_offset().plus(1)
    }

    /// Sequence of the last record. Wraps from the largest `i32` to 0, as Kafka's does; -1 if there is none.
    pub const fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        self.base_sequence.wrapping_add(self.last_offset_delta) & i32::MAX
    }

    /// Sequence that follows the last record's; -1 if there is none.
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

/// Least batch length that Kafka goes on to look at: that of a message of format 0.
const OLD_LENGTH_MIN: i32 = 14;

/// Finds the end of the batch at the start of `bytes`, of any message format. Yields its bytes, which may not all be
/// there.
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

/// The same, and the batch must be of the one format that is stored.
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
