//! Rewrites a stored batch with fewer records, for compaction.
//!
//! Offsets stay: base offset, last offset, leader epoch and sequences are those of the original, whatever was
//! removed. Records are copied as bytes. Only a batch that gets a delete horizon (KIP-534) has its timestamps
//! encoded again, since the horizon replaces the base timestamp.

use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::compress::compress;
use crate::validate::seal;
use crate::varint::{put_varint, put_varlong, varint_bytes};
use crate::{
    Attributes, BatchError, BatchHeader, Compression, CompressionLevels, HEADER_BYTES, NO_SEQUENCE,
    RawRecord, TimestampType,
};

/// Collects the remaining records of one batch after another. Reuses its buffer.
#[derive(Debug, Default)]
pub struct BatchRewriter {
    header: Option<BatchHeader>,
    /// The new base timestamp, if it changes.
    horizon: Option<TimestampMs>,
    body: Vec<u8>,
    count: i32,
    max_timestamp: TimestampMs,
}

impl BatchRewriter {
    /// Starts with a batch's original header. With `horizon`, the batch gets this delete horizon in place of
    /// its base timestamp. Without it, a horizon that the batch already has stays.
    pub fn begin(&mut self, original: &BatchHeader, horizon: Option<TimestampMs>) {
        self.header = Some(*original);
        self.horizon = horizon;
        self.body.clear();
        self.count = 0;
        self.max_timestamp = TimestampMs::NONE;
    }

    /// Adds a remaining record of the original.
    ///
    /// # Panics
    /// Before [`BatchRewriter::begin`].
    pub fn push(&mut self, record: &RawRecord<'_>) {
        let header = self.header.expect("a batch was begun");
        let timestamp = header.base_timestamp.0.wrapping_add(record.timestamp_delta);
        match self.horizon {
            None => self.body.extend_from_slice(record.bytes),
            Some(horizon) => {
                let delta = timestamp.wrapping_sub(horizon.0);
                let length = 1 + varint_bytes(delta) + record.after_timestamp.len();
                put_varint(&mut self.body, length as i32);
                self.body.push(record.attributes);
                put_varlong(&mut self.body, delta);
                self.body.extend_from_slice(record.after_timestamp);
            }
        }
        self.count += 1;
        self.max_timestamp = self.max_timestamp.max(TimestampMs(timestamp));
    }

    /// Records so far.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True before the first record.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the batch to `out`, compressed with its own codec, and returns its header.
    ///
    /// # Errors
    /// `UnknownCompression`. Nothing is appended then.
    ///
    /// # Panics
    /// Before [`BatchRewriter::begin`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<BatchHeader, BatchError> {
        let mut header = self.header.take().expect("a batch was begun");
        let compression = header.attributes.compression()?;
        header.record_count = self.count;
        if header.attributes.timestamp_type() == TimestampType::CreateTime {
            header.max_timestamp = self.max_timestamp;
        }
        if let Some(horizon) = self.horizon {
            header.base_timestamp = horizon;
            header.attributes = header.attributes.with_delete_horizon(true);
        }
        let start = out.len();
        out.resize(start + HEADER_BYTES, 0);
        compress(compression, CompressionLevels::default(), &self.body, out);
        seal(&mut header, &mut out[start..]);
        Ok(header)
    }
}

/// Appends to `out` what remains of a batch without records: a header with its offsets and its producer's
/// sequences, as Kafka writes it. Returns that header.
pub fn write_empty(original: &BatchHeader, out: &mut Vec<u8>) -> BatchHeader {
    let attributes =
        original.attributes.known().with_compression(Compression::None).with_delete_horizon(false);
    let mut header =
        BatchHeader { record_count: 0, base_timestamp: TimestampMs::NONE, attributes, ..*original };
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    seal(&mut header, &mut out[start..]);
    header
}

/// Appends to `out` a batch without records and without a producer, in place of lost records at offsets
/// `base_offset` to `last_offset` inclusive. Returns its header. The batch has no timestamp, so that
/// [`is_lost`] can tell it from a batch whose records compaction has removed.
///
/// # Panics
/// If `last_offset` is below `base_offset`, or more than `i32::MAX` above it.
pub fn write_lost(
    base_offset: Offset,
    last_offset: Offset,
    leader_epoch: LeaderEpoch,
    out: &mut Vec<u8>,
) -> BatchHeader {
    let span = i32::try_from(last_offset.0 - base_offset.0).ok().filter(|span| *span >= 0);
    let header = BatchHeader {
        base_offset,
        batch_length: 0,
        leader_epoch,
        magic: 2,
        crc: 0,
        attributes: Attributes::default(),
        last_offset_delta: span.expect("a batch has one to 2^31 offsets"),
        base_timestamp: TimestampMs::NONE,
        max_timestamp: TimestampMs::NONE,
        producer_id: ProducerId(-1),
        producer_epoch: ProducerEpoch(-1),
        base_sequence: NO_SEQUENCE,
        record_count: 0,
    };
    write_empty(&header, out)
}

/// Like [`write_lost`], for offsets at which compaction has left nothing on another replica. Returns its
/// header.
///
/// # Panics
/// See [`write_lost`].
pub fn write_hole(
    base_offset: Offset,
    last_offset: Offset,
    leader_epoch: LeaderEpoch,
    out: &mut Vec<u8>,
) -> BatchHeader {
    let start = out.len();
    let mut header = write_lost(base_offset, last_offset, leader_epoch, out);
    header.max_timestamp = TimestampMs(0);
    seal(&mut header, &mut out[start..]);
    header
}

/// True for a batch of [`write_hole`]. There is nothing to know about its offsets.
pub fn is_hole(batch: &BatchHeader) -> bool {
    batch.record_count == 0
        && batch.producer_id == ProducerId(-1)
        && batch.max_timestamp != TimestampMs::NONE
        && !batch.attributes.is_control()
}

/// True for a batch of [`write_lost`]. Its content is lost: records, ends of transactions, or both.
pub fn is_lost(batch: &BatchHeader) -> bool {
    batch.record_count == 0
        && batch.producer_id == ProducerId(-1)
        && batch.max_timestamp == TimestampMs::NONE
        && !batch.attributes.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchBuilder, BatchOptions, DecodedBatch, RawRecords};

    type Flat = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, usize);

    fn batch(compression: Compression, log_append_time: Option<TimestampMs>) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions {
            compression,
            log_append_time,
            base_offset: Offset(70),
            leader_epoch: LeaderEpoch(3),
            producer_id: ProducerId(9),
            producer_epoch: ProducerEpoch(1),
            base_sequence: 40,
            ..BatchOptions::default()
        });
        for number in 0..10i64 {
            let key = format!("key-{number}");
            let value = format!("value-{number}").repeat(30);
            let value = (number % 4 != 3).then_some(value.as_bytes());
            let key = (number != 5).then_some(key.as_bytes());
            let time = TimestampMs(5_000 + number * 1_000 % 7_000);
            builder.push(time, key, value, &[(b"h", Some(b"x")), (b"i", None)]).unwrap();
        }
        builder.build().to_vec()
    }

    fn flat(bytes: &[u8]) -> Vec<Flat> {
        let batch = DecodedBatch::new(bytes, 1 << 20).unwrap();
        let records = batch.records().map(Result::unwrap);
        let own = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        records.map(|r| (r.offset.0, r.timestamp.0, own(r.key), own(r.value), r.headers.count())).collect()
    }

    #[test]
    fn what_stays_stays_as_it_was() {
        for compression in Compression::ALL {
            for log_append_time in [None, Some(TimestampMs(77_777))] {
                for horizon in [None, Some(TimestampMs(9_999_999_999))] {
                    let original = batch(compression, log_append_time);
                    let decoded = DecodedBatch::new(&original, 1 << 20).unwrap();
                    let header = decoded.header();
                    let mut rewriter = BatchRewriter::default();
                    rewriter.begin(header, horizon);
                    for raw in RawRecords::new(header.record_count, decoded.body()) {
                        let raw = raw.unwrap();
                        assert_eq!(raw.is_tombstone, raw.offset_delta % 4 == 3);
                        assert_eq!(raw.key.is_none(), raw.offset_delta == 5);
                        if raw.offset_delta % 3 != 0 {
                            rewriter.push(&raw);
                        }
                    }
                    let mut out = b"before".to_vec();
                    let new = rewriter.finish(&mut out).unwrap();
                    let wanted: Vec<_> =
                        flat(&original).into_iter().filter(|r| (r.0 - 70) % 3 != 0).collect();
                    assert_eq!(flat(&out[6..]), wanted, "{compression} {horizon:?}");
                    assert_eq!(BatchHeader::parse(&out[6..]).unwrap(), new);
                    assert_eq!((new.base_offset, new.last_offset_delta), (Offset(70), 9));
                    assert_eq!((new.base_sequence, new.last_sequence()), (40, 49));
                    assert_eq!(new.attributes.has_delete_horizon(), horizon.is_some());
                    assert_eq!(new.max_timestamp.0, wanted.iter().map(|r| r.1).max().unwrap());
                }
            }
        }
    }

    #[test]
    fn an_empty_batch_keeps_offsets_and_sequences() {
        let original = batch(Compression::Lz4, None);
        let header = BatchHeader::parse(&original).unwrap();
        let mut out = Vec::new();
        let empty = write_empty(&header, &mut out);
        assert_eq!(crate::check(&out).unwrap(), empty);
        assert_eq!((empty.record_count, out.len()), (0, HEADER_BYTES));
        assert_eq!((empty.base_offset, empty.next_offset()), (header.base_offset, header.next_offset()));
        assert_eq!((empty.base_sequence, empty.last_sequence()), (40, 49));
        assert!(flat(&out).is_empty());
    }

    #[test]
    fn damaged_bodies_are_refused() {
        let original = batch(Compression::None, None);
        let body = &original[HEADER_BYTES..];
        for cut in 0..body.len() {
            assert!(RawRecords::new(10, &body[..cut]).any(|record| record.is_err()), "{cut}");
        }
        assert!(RawRecords::new(9, body).any(|record| record.is_err()));
    }
}
