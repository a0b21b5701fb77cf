//! The reasons why bytes are not an acceptable record batch. There is one variant per answer that Kafka
//! distinguishes, so that the server can translate each into a protocol error code. No protocol code appears
//! here.

use std::fmt;

use tailrace_types::{ProducerId, TimestampMs};

use crate::codec::Compression;

/// The most rejected records that one error lists. The rest is only counted, because the list goes back to
/// the client, and a compressed batch may hold millions of records.
pub const REJECTIONS_MAX: usize = 1_000;

/// The reason why a batch was refused. The text after "Kafka:" is what Kafka 4.3 answers to a producer that
/// sends such a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes hold no complete batch. Kafka: INVALID_RECORD.
    #[error("no complete record batch: {bytes_needed} bytes needed, {bytes} given")]
    Incomplete {
        /// Bytes that a complete batch would take, as far as known.
        bytes_needed: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// The batch length is too small for any batch. Kafka: CORRUPT_MESSAGE.
    #[error("the batch length {batch_length} is below the least possible {batch_length_min}")]
    Length {
        /// The length field, which counts the bytes after itself.
        batch_length: i32,
        /// The smallest legal value.
        batch_length_min: i32,
    },
    /// A magic that no Kafka version has written. Kafka: CORRUPT_MESSAGE.
    #[error("the magic byte is {magic}, which no version of the format uses")]
    UnknownMagic {
        /// The magic byte.
        magic: i8,
    },
    /// Message formats 0 and 1. Kafka: INVALID_RECORD.
    #[error("message format {magic} is not supported: only record batches of version 2 are")]
    OldMagic {
        /// The magic byte.
        magic: i8,
    },
    /// More than one batch where exactly one is allowed. Kafka: INVALID_RECORD.
    #[error("a second record batch follows the first at byte {position}: exactly one is allowed")]
    SecondBatch {
        /// Where it starts.
        position: usize,
    },
    /// A client's batch that does not start at offset 0. Kafka: INVALID_RECORD.
    #[error("the base offset of a batch from a client should be 0, but is {base_offset}")]
    BaseOffset {
        /// The base offset.
        base_offset: i64,
    },
    /// The batch is larger than `max.message.bytes`. Kafka: MESSAGE_TOO_LARGE.
    #[error("the batch has {bytes} bytes, more than the {bytes_max} that the topic allows")]
    TooLarge {
        /// Bytes of the whole batch, as received or as it would be stored.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The stored CRC-32C does not match the bytes. Kafka: CORRUPT_MESSAGE.
    #[error("the batch is corrupt: stored checksum {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// Compression ids 5 to 7. Kafka: UNKNOWN_SERVER_ERROR, by an unhandled exception.
    #[error("the compression id {id} is unknown")]
    UnknownCompression {
        /// The three low bits of the attributes.
        id: u8,
    },
    /// Record count and last offset delta are impossible or disagree. Kafka: INVALID_RECORD.
    #[error("the record count {record_count} and the last offset delta {last_offset_delta} do not agree")]
    Count {
        /// The number of records in the header.
        record_count: i32,
        /// The last offset delta in the header.
        last_offset_delta: i32,
    },
    /// A control batch from a client. Kafka: INVALID_RECORD.
    #[error("clients are not allowed to write control records")]
    Control,
    /// A producer id without a sequence. Kafka: INVALID_RECORD.
    #[error("the sequence {base_sequence} is invalid in a batch of producer id {producer_id}")]
    Sequence {
        /// The producer.
        producer_id: ProducerId,
        /// The first sequence of this batch.
        base_sequence: i32,
    },
    /// A record that cannot be read. Kafka: INVALID_RECORD.
    #[error("record {index} is malformed at byte {position} of the uncompressed records: {fault}")]
    Record {
        /// Number of the record in its batch, from 0.
        index: i32,
        /// Position in the uncompressed bytes after the batch header.
        position: usize,
        /// The fault.
        fault: RecordFault,
    },
    /// Bytes after the last record. Kafka: INVALID_RECORD.
    #[error("{bytes} bytes follow the last of {record_count} records")]
    TrailingBytes {
        /// The number of records in the header.
        record_count: i32,
        /// The number of bytes that follow, uncompressed.
        bytes: usize,
    },
    /// Records that a topic's rules refuse, at least one for its timestamp. Kafka: INVALID_TIMESTAMP.
    #[error("{0}")]
    InvalidTimestamps(Rejections),
    /// Records that a topic's rules refuse for other reasons. Kafka: INVALID_RECORD.
    #[error("{0}")]
    InvalidRecords(Rejections),
    /// The compressed records cannot be decompressed. Kafka: UNKNOWN_SERVER_ERROR, by an unhandled exception.
    #[error("the records are not valid {compression}: {reason}")]
    Decompression {
        /// The codec that the attributes name.
        compression: Compression,
        /// The codec's message.
        reason: String,
    },
    /// The records expand beyond the limit. Kafka has no such limit.
    #[error("the records expand to more than {bytes_max} bytes")]
    ExpandsTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// The builder cannot hold more. A batch's length and count are `i32`.
    #[error("the batch cannot hold another record of {bytes} bytes")]
    Full {
        /// Bytes of the record that did not fit.
        bytes: usize,
    },
}

/// A fault at one position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The bytes end within the record.
    #[error("the bytes end within the record")]
    Truncated,
    /// A varint of more than 5 (10) bytes.
    #[error("a varint is too long")]
    Varint,
    /// A record length that is negative or exceeds the bytes left.
    #[error("the record length {declared} does not fit the {remaining} bytes left")]
    Length {
        /// The declared length.
        declared: i32,
        /// Bytes left after the length.
        remaining: usize,
    },
    /// The fields take more or fewer bytes than the record's length.
    #[error("the record claims {declared} bytes, but its fields take {actual}")]
    LengthMismatch {
        /// The declared length.
        declared: usize,
        /// The bytes that its fields take.
        actual: usize,
    },
    /// A negative number of headers, or more than there are bytes.
    #[error("{count} headers are impossible")]
    HeaderCount {
        /// The declared number.
        count: i32,
    },
    /// A null header key, which is illegal.
    #[error("the header key length {length} is negative")]
    HeaderKey {
        /// The declared length.
        length: i32,
    },
    /// The offset delta is not the record's number in the batch.
    #[error("the offset delta is {found}, expected {expected}")]
    OffsetDelta {
        /// The record's number.
        expected: i32,
        /// The delta found.
        found: i32,
    },
}

/// The records of a batch that a topic's rules refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejections {
    /// The first [`REJECTIONS_MAX`] of them, in order.
    pub records: Vec<Rejection>,
    /// The total number.
    pub count: usize,
}

/// One refused record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Number of the record in its batch, from 0.
    pub index: i32,
    /// The reason.
    pub reason: RejectReason,
}

/// The reason why a topic's rules refuse a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// A compacted topic needs a key in every record.
    #[error("a compacted topic cannot accept a record without a key")]
    KeyMissing,
    /// Outside `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`.
    #[error(
        "the timestamp {timestamp} is outside the {before_max_ms} ms before and {after_max_ms} ms after {now}"
    )]
    Timestamp {
        /// The record's timestamp.
        timestamp: TimestampMs,
        /// The server's clock.
        now: TimestampMs,
        /// How far the timestamp may be in the past.
        before_max_ms: i64,
        /// How far the timestamp may be in the future.
        after_max_ms: i64,
    },
    /// Only the server may set LogAppendTime.
    #[error("a producer must not set the timestamp type to LogAppendTime")]
    TimestampType,
}

impl Rejections {
    pub(crate) fn add(&mut self, index: i32, reason: RejectReason) {
        self.count += 1;
        if self.records.len() < REJECTIONS_MAX {
            self.records.push(Rejection { index, reason });
        }
    }
}

impl fmt::Display for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records were refused", self.count)?;
        match self.records.first() {
            Some(first) => write!(f, ", the first of them record {}: {}", first.index, first.reason),
            None => Ok(()),
        }
    }
}
