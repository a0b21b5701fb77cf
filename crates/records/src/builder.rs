//! Builds a batch record by record, like a producer.

use bytes::Bytes;
use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::compress::compress;
use crate::validate::seal;
use crate::varint::{put_varint, put_varlong, varint_bytes};
use crate::{
    Attributes, BatchError, BatchHeader, Compression, CompressionLevels, HEADER_BYTES, MAGIC, NO_SEQUENCE,
    TimestampType,
};

/// The most uncompressed bytes of one built batch. It is far above any sensible batch, and far enough below
/// the format's 2 GiB that no codec's overhead reaches that limit.
pub(crate) const BUILDER_BYTES_MAX: usize = 1 << 30;

/// The fields of a batch besides its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Codec of the records.
    pub compression: Compression,
    /// The levels of compression.
    pub levels: CompressionLevels,
    /// If set, the batch is of type LogAppendTime, and this is the timestamp of all its records.
    pub log_append_time: Option<TimestampMs>,
    /// Offset of the first record. Producers leave it 0.
    pub base_offset: Offset,
    /// The leader's epoch. Producers leave it unknown.
    pub leader_epoch: LeaderEpoch,
    /// The idempotent producer, or none.
    pub producer_id: ProducerId,
    /// Epoch of the producer id, -1 if none.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, -1 if none.
    pub base_sequence: i32,
    /// True if the batch is part of a transaction.
    pub transactional: bool,
    /// True if the batch holds a marker. Control batches are never compressed.
    pub control: bool,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            compression: Compression::None,
            levels: CompressionLevels::default(),
            log_append_time: None,
            base_offset: Offset(0),
            leader_epoch: LeaderEpoch::UNKNOWN,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch(-1),
            base_sequence: NO_SEQUENCE,
            transactional: false,
            control: false,
        }
    }
}

/// Collects records into one batch.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// Space for the header, then the records.
    bytes: Vec<u8>,
    count: i32,
    base_timestamp: TimestampMs,
    max_timestamp: TimestampMs,
}

impl BatchBuilder {
    /// Creates an empty batch.
    pub fn new(options: BatchOptions) -> Self {
        let (base_timestamp, max_timestamp) = (TimestampMs::NONE, TimestampMs::NONE);
        Self { options, bytes: vec![0; HEADER_BYTES], count: 0, base_timestamp, max_timestamp }
    }

    /// Reserves space for `bytes` more bytes of records.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Appends a record. The first record's timestamp is the base of the others.
    ///
    /// # Errors
    /// `Full` if the batch would exceed `BUILDER_BYTES_MAX`. The batch is unchanged then.
    pub fn push(
        &mut self,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), BatchError> {
        self.push_within(BUILDER_BYTES_MAX, timestamp, key, value, headers)
    }

    /// Appends a record if the batch then takes at most `bytes_max` bytes before compression.
    ///
    /// # Errors
    /// `Full` if it would take more than that, or more than `BUILDER_BYTES_MAX`. The batch is unchanged then.
    pub fn push_within(
        &mut self,
        bytes_max: usize,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), BatchError> {
        let base = if self.count == 0 { timestamp } else { self.base_timestamp };
        let delta = timestamp.0.wrapping_sub(base.0);
        let length = record_bytes(delta, self.count, key, value, headers);
        let bytes = length.saturating_add(varint_bytes(length as i64));
        if bytes > bytes_max.min(BUILDER_BYTES_MAX).saturating_sub(self.bytes.len()) {
            return Err(BatchError::Full { bytes });
        }
        put_varint(&mut self.bytes, length as i32);
        self.bytes.push(0);
        put_varlong(&mut self.bytes, delta);
        put_varint(&mut self.bytes, self.count);
        put_nullable(&mut self.bytes, key);
        put_nullable(&mut self.bytes, value);
        put_varint(&mut self.bytes, headers.len() as i32);
        for (name, value) in headers {
            put_nullable(&mut self.bytes, Some(name));
            put_nullable(&mut self.bytes, *value);
        }
        self.base_timestamp = base;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.count += 1;
        Ok(())
    }

    /// Number of records so far.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True before the first record.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch before compression: exact for an uncompressed batch, otherwise an upper bound.
    pub const fn bytes_estimate(&self) -> usize {
        self.bytes.len()
    }

    /// True if `build` will compress the batch.
    pub fn is_compressed(&self) -> bool {
        self.compression() != Compression::None
    }

    /// True at levels that take long to compress even a little.
    pub fn is_compressed_slowly(&self) -> bool {
        self.options.levels.are_slow(self.compression())
    }

    fn compression(&self) -> Compression {
        if self.options.control { Compression::None } else { self.options.compression }
    }

    /// Makes this a batch of an idempotent producer. `base_sequence` is the sequence of the first record.
    #[must_use]
    pub fn of_producer(mut self, id: ProducerId, epoch: ProducerEpoch, base_sequence: i32) -> Self {
        let options = &mut self.options;
        (options.producer_id, options.producer_epoch, options.base_sequence) = (id, epoch, base_sequence);
        self
    }

    /// Finishes the batch.
    ///
    /// # Panics
    /// If there is no record, because Kafka accepts no empty batch from a producer.
    pub fn build(self) -> Bytes {
        self.build_with_header().1
    }

    /// Like [`BatchBuilder::build`]. Also returns the batch's header.
    ///
    /// # Panics
    /// See [`BatchBuilder::build`].
    pub fn build_with_header(self) -> (BatchHeader, Bytes) {
        assert!(self.count > 0, "a batch needs a record");
        let compression = self.compression();
        let mut header = self.header(compression);
        let mut batch = match compression {
            Compression::None => self.bytes,
            _ => {
                let mut out = vec![0; HEADER_BYTES];
                compress(compression, self.options.levels, &self.bytes[HEADER_BYTES..], &mut out);
                out
            }
        };
        seal(&mut header, &mut batch);
        (header, batch.into())
    }

    fn header(&self, compression: Compression) -> BatchHeader {
        let options = &self.options;
        let timestamp_type = match options.log_append_time {
            Some(_) => TimestampType::LogAppendTime,
            None => TimestampType::CreateTime,
        };
        let attributes = Attributes::default()
            .with_compression(compression)
            .with_timestamp_type(timestamp_type)
            .with_transactional(options.transactional)
            .with_control(options.control);
        BatchHeader {
            base_offset: options.base_offset,
            batch_length: 0,
            leader_epoch: options.leader_epoch,
            magic: MAGIC,
            crc: 0,
            attributes,
            last_offset_delta: self.count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: options.log_append_time.unwrap_or(self.max_timestamp),
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            record_count: self.count,
        }
    }
}

/// Bytes of a record after its length field.
fn record_bytes(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&[u8], Option<&[u8]>)],
) -> usize {
    let pairs =
        headers.iter().map(|(name, value)| nullable_bytes(Some(name)).saturating_add(nullable_bytes(*value)));
    let fixed = 1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta.into());
    let data = nullable_bytes(key).saturating_add(nullable_bytes(value));
    let headers = pairs.fold(varint_bytes(headers.len() as i64), usize::saturating_add);
    fixed.saturating_add(data).saturating_add(headers)
}

fn nullable_bytes(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |b| varint_bytes(b.len() as i64).saturating_add(b.len()))
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
    }
}
