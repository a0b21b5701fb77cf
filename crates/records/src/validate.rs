//! The check that a producer's batch passes once, before it is appended.
//!
//! Everything is checked that Kafka checks of a client's batch of magic 2, in Kafka's order, so that a batch
//! with two defects gets Kafka's answer. The received bytes are never changed. If anything must differ, new
//! bytes are written. That happens only if the topic's rules require another codec or timestamp type, or if
//! the batch's largest timestamp is not that of its records, which Kafka corrects too.
//!
//! Not done here: checks of the producer's permissions, of its next sequence and of the current epoch.

use std::cell::RefCell;

use bytes::Bytes;
use tailrace_types::TimestampMs;

use crate::compress::{compress, decompress};
use crate::error::Rejections;
use crate::header::{LENGTH_OVERHEAD, current_frame, frame};
use crate::record::Record;
use crate::split::check_crc;
use crate::{
    BatchError, BatchHeader, Compression, CompressionLevels, HEADER_BYTES, RecordIter, RejectReason,
    Strictness, TimestampType, crc,
};

/// Bytes of decompressed records that a thread keeps for the next batch. Larger buffers are freed at once, so
/// this is the most memory kept per thread.
pub(crate) const SCRATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A topic's requirements of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendRules {
    /// `compression.type`: the codec to store with. `None` means `producer`, the batch's own codec.
    pub compression: Option<Compression>,
    /// `compression.gzip.level` and `compression.zstd.level`, used when a batch is recompressed.
    pub levels: CompressionLevels,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a CreateTime may be before `now`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far a CreateTime may be after `now`.
    pub timestamp_after_max_ms: i64,
    /// `max.message.bytes`: bytes of a whole batch, as received and as stored.
    pub batch_bytes_max: usize,
    /// Bytes that a batch's records may take when decompressed.
    pub decompressed_bytes_max: usize,
    /// True if the topic is compacted, so that each record needs a key.
    pub keys_required: bool,
    /// The server's clock.
    pub now: TimestampMs,
}

impl AppendRules {
    /// Returns Kafka's defaults for a topic: any codec, CreateTime, any past, at most an hour ahead, 1 MiB
    /// and 12 bytes per batch, no keys needed. Records may take 64 MiB when decompressed.
    pub const fn kafka_defaults(now: TimestampMs) -> Self {
        Self {
            compression: None,
            levels: CompressionLevels { gzip: -1, zstd: 3 },
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            batch_bytes_max: 1024 * 1024 + LENGTH_OVERHEAD,
            decompressed_bytes_max: 64 * 1024 * 1024,
            keys_required: false,
            now,
        }
    }
}

/// A batch that may be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated {
    /// The header of `bytes`. Base offset and leader epoch are still the client's.
    pub header: BatchHeader,
    /// The received bytes without anything after the batch, or new ones.
    pub bytes: Bytes,
}

/// Checks one partition's bytes of a produce request, and rewrites them if `rules` require it.
///
/// # Errors
/// Any [`BatchError`] except `Full`. Each names Kafka's answer.
pub fn validate(batch: Bytes, rules: &AppendRules) -> Result<Validated, BatchError> {
    let total = only_batch(&batch)?;
    let bytes = if total == batch.len() { batch } else { batch.slice(..total) };
    let header = BatchHeader::read(&bytes)?;
    check_batch(&header, &bytes, rules)?;
    match header.attributes.compression()? {
        Compression::None => finish(&header, bytes.clone(), &bytes[HEADER_BYTES..], rules),
        compression => with_scratch(|scratch| {
            decompress(compression, &bytes[HEADER_BYTES..], rules.decompressed_bytes_max, scratch)?;
            finish(&header, bytes, scratch, rules)
        }),
    }
}

fn with_scratch<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| {
        let result = work(scratch);
        scratch.clear();
        scratch.shrink_to(SCRATCH_BYTES_MAX);
        result
    })
}

/// Returns the size of the first batch, provided that no second one follows. Trailing bytes that are not a
/// complete batch are ignored, as in Kafka.
fn only_batch(bytes: &[u8]) -> Result<usize, BatchError> {
    let total = current_frame(bytes)?;
    let rest =
        bytes.get(total..).ok_or(BatchError::Incomplete { bytes_needed: total, bytes: bytes.len() })?;
    match frame(rest) {
        Ok(second) if second <= rest.len() => Err(BatchError::SecondBatch { position: total }),
        Ok(_) | Err(BatchError::Incomplete { .. }) => Ok(total),
        Err(error) => Err(error),
    }
}

/// Checks what does not need the records, in Kafka's order.
fn check_batch(header: &BatchHeader, bytes: &[u8], rules: &AppendRules) -> Result<(), BatchError> {
    if header.base_offset.0 != 0 {
        return Err(BatchError::BaseOffset { base_offset: header.base_offset.0 });
    }
    if bytes.len() > rules.batch_bytes_max {
        return Err(BatchError::TooLarge { bytes: bytes.len(), bytes_max: rules.batch_bytes_max });
    }
    check_crc(header, bytes)?;
    header.attributes.compression()?;
    if header.record_count <= 0 || i64::from(header.last_offset_delta) + 1 != i64::from(header.record_count) {
        return Err(header.count_error());
    }
    if header.attributes.is_control() {
        return Err(BatchError::Control);
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        let (producer_id, base_sequence) = (header.producer_id, header.base_sequence);
        return Err(BatchError::Sequence { producer_id, base_sequence });
    }
    Ok(())
}

/// Walks the records and decides whether the bytes can stay as they are.
fn finish(
    header: &BatchHeader,
    bytes: Bytes,
    body: &[u8],
    rules: &AppendRules,
) -> Result<Validated, BatchError> {
    let largest = walk(header, body, rules)?;
    let mut wanted = *header;
    let source = header.attributes.compression()?;
    let target = rules.compression.unwrap_or(source);
    let max_timestamp = match rules.timestamp_type {
        TimestampType::CreateTime => largest,
        TimestampType::LogAppendTime => rules.now,
    };
    let restamp =
        header.attributes.timestamp_type() != rules.timestamp_type || header.max_timestamp != max_timestamp;
    if target == source && !restamp {
        return Ok(Validated { header: *header, bytes });
    }
    wanted.max_timestamp = max_timestamp;
    wanted.attributes =
        header.attributes.known().with_timestamp_type(rules.timestamp_type).with_compression(target);
    if target == source { Ok(restamped(wanted, &bytes)) } else { recompressed(wanted, target, body, rules) }
}

/// Checks each record. Returns the largest timestamp, at least -1.
fn walk(header: &BatchHeader, body: &[u8], rules: &AppendRules) -> Result<TimestampMs, BatchError> {
    let mut largest = TimestampMs::NONE;
    let mut rejected = Rejections::default();
    let mut timestamps_rejected = false;
    for (index, record) in (0..).zip(RecordIter::new(header, body, Strictness::Strict)) {
        let record = record?;
        largest = largest.max(record.timestamp);
        if let Some(reason) = judge(header, &record, rules) {
            timestamps_rejected |= !matches!(reason, RejectReason::KeyMissing);
            rejected.add(index, reason);
        }
    }
    match rejected.count {
        0 => Ok(largest),
        _ if timestamps_rejected => Err(BatchError::InvalidTimestamps(rejected)),
        _ => Err(BatchError::InvalidRecords(rejected)),
    }
}

#[inline]
fn judge(header: &BatchHeader, record: &Record<'_>, rules: &AppendRules) -> Option<RejectReason> {
    if rules.keys_required && record.key.is_none() {
        return Some(RejectReason::KeyMissing);
    }
    if rules.timestamp_type == TimestampType::CreateTime && record.timestamp != TimestampMs::NONE {
        let age = rules.now.0.wrapping_sub(record.timestamp.0);
        let outside =
            age > rules.timestamp_before_max_ms || age.wrapping_neg() > rules.timestamp_after_max_ms;
        return outside.then_some(RejectReason::Timestamp {
            timestamp: record.timestamp,
            now: rules.now,
            before_max_ms: rules.timestamp_before_max_ms,
            after_max_ms: rules.timestamp_after_max_ms,
        });
    }
    (header.attributes.timestamp_type() == TimestampType::LogAppendTime)
        .then_some(RejectReason::TimestampType)
}

/// Returns a copy with another timestamp type or largest timestamp.
fn restamped(mut header: BatchHeader, bytes: &[u8]) -> Validated {
    let mut out = bytes.to_vec();
    seal(&mut header, &mut out);
    Validated { header, bytes: out.into() }
}

/// Compresses the same records with another codec. They are not encoded again: their deltas stay as the
/// producer chose them.
fn recompressed(
    mut header: BatchHeader,
    compression: Compression,
    body: &[u8],
    rules: &AppendRules,
) -> Result<Validated, BatchError> {
    if compression == Compression::None && HEADER_BYTES + body.len() > rules.batch_bytes_max {
        return Err(BatchError::TooLarge {
            bytes: HEADER_BYTES + body.len(),
            bytes_max: rules.batch_bytes_max,
        });
    }
    let mut out = vec![0; HEADER_BYTES];
    compress(compression, rules.levels, body, &mut out);
    if out.len() > rules.batch_bytes_max {
        return Err(BatchError::TooLarge { bytes: out.len(), bytes_max: rules.batch_bytes_max });
    }
    seal(&mut header, &mut out);
    Ok(Validated { header, bytes: out.into() })
}

/// Writes `header` over the first 61 bytes of a whole batch, with the length and CRC of these bytes.
pub(crate) fn seal(header: &mut BatchHeader, batch: &mut [u8]) {
    let length = i32::try_from(batch.len() - LENGTH_OVERHEAD);
    header.batch_length = length.expect("a batch is bounded below 2 GiB");
    batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    header.crc = crc::checksum(batch);
    batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
}
