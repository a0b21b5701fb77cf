//! The records of a decompressed batch: borrowed views, read one after the other.

use std::borrow::Cow;

use tailrace_types::{Offset, TimestampMs};

use crate::varint::Cursor;
use crate::{BatchError, BatchHeader, RecordFault, TimestampType};

/// One record, borrowed from its batch.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Unused bits of the format. Ignored here, as in Kafka.
    pub attributes: i8,
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// The producer's timestamp minus the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset in the partition.
    pub offset: Offset,
    /// The timestamp that consumers see. With LogAppendTime it is the batch's.
    pub timestamp: TimestampMs,
    /// The key. Null differs from empty.
    pub key: Option<&'a [u8]>,
    /// The value. Null is a tombstone in compacted topics.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: Headers<'a>,
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key. Kafka's clients write UTF-8, but no broker checks it.
    pub key: &'a [u8],
    /// The value, which may be null.
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// Returns the key as text, with replacement characters for invalid UTF-8.
    pub fn key_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }
}

/// The headers of a record. They were checked when the record was read.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    cursor: Cursor<'a>,
    count: usize,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.count = self.count.checked_sub(1)?;
        read_header(&mut self.cursor).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// How offset deltas are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Each must be the record's number, as required of a producer.
    Strict,
    /// Not at all, for readers of stored batches, since compaction leaves gaps.
    Lenient,
}

/// Iterates over the records of an uncompressed body. Ends after the last record or the first error.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    header: BatchHeader,
    strictness: Strictness,
    cursor: Cursor<'a>,
    index: i32,
}

impl<'a> RecordIter<'a> {
    /// `body` is the uncompressed bytes after the header of the batch.
    pub const fn new(header: &BatchHeader, body: &'a [u8], strictness: Strictness) -> Self {
        Self { header: *header, strictness, cursor: Cursor::new(body), index: 0 }
    }

    /// Position of the next record in the uncompressed body.
    pub const fn position(&self) -> usize {
        self.cursor.position()
    }

    /// Skips the next record without decoding its key, value and headers, if its declared length exceeds
    /// `bytes_max`. Returns its offset. `None`, without skipping anything, if it is not that long or not a
    /// record.
    pub fn skip_longer(&mut self, bytes_max: usize) -> Option<Offset> {
        if self.index < 0 || self.index >= self.header.record_count {
            return None;
        }
        let mut behind = self.cursor;
        let declared = usize::try_from(behind.varint().ok()?).ok()?;
        if declared <= bytes_max {
            return None;
        }
        let mut inside = behind;
        behind.take(declared).ok()?;
        inside.byte().ok()?;
        inside.varlong().ok()?;
        let offset_delta = inside.varint().ok()?;
        (self.cursor, self.index) = (behind, self.index + 1);
        Some(Offset(self.header.base_offset.0.wrapping_add(i64::from(offset_delta))))
    }

    #[inline]
    fn read(&mut self) -> Result<Record<'a>, RecordFault> {
        let raw = read_record(&mut self.cursor)?;
        if matches!(self.strictness, Strictness::Strict) && raw.offset_delta != self.index {
            return Err(RecordFault::OffsetDelta { expected: self.index, found: raw.offset_delta });
        }
        let timestamp = match self.header.attributes.timestamp_type() {
            TimestampType::CreateTime => {
                TimestampMs(self.header.base_timestamp.0.wrapping_add(raw.timestamp_delta))
            }
            TimestampType::LogAppendTime => self.header.max_timestamp,
        };
        let offset = Offset(self.header.base_offset.0.wrapping_add(i64::from(raw.offset_delta)));
        Ok(Record { offset, timestamp, ..raw })
    }

    fn finish(&mut self) -> Option<Result<Record<'a>, BatchError>> {
        let bytes = self.cursor.remaining();
        if self.index < 0 || bytes == 0 {
            return None;
        }
        self.index = -1;
        Some(Err(BatchError::TrailingBytes { record_count: self.header.record_count, bytes }))
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index < 0 || self.index >= self.header.record_count {
            return self.finish();
        }
        let index = self.index;
        match self.read() {
            Ok(record) => {
                self.index += 1;
                Some(Ok(record))
            }
            Err(fault) => {
                self.index = -1;
                Some(Err(BatchError::Record { index, position: self.cursor.position(), fault }))
            }
        }
    }
}

/// Reads one record. Its offset and timestamp are not yet absolute.
#[inline]
fn read_record<'a>(cursor: &mut Cursor<'a>) -> Result<Record<'a>, RecordFault> {
    let declared = cursor.varint()?;
    let remaining = cursor.remaining();
    if declared < 0 || declared as usize > remaining {
        return Err(RecordFault::Length { declared, remaining });
    }
    let start = cursor.position();
    let attributes = cursor.byte()? as i8;
    let timestamp_delta = cursor.varlong()?;
    let offset_delta = cursor.varint()?;
    let key = cursor.nullable()?;
    let value = cursor.nullable()?;
    let headers = read_headers(cursor)?;
    let actual = cursor.position() - start;
    if actual != declared as usize {
        return Err(RecordFault::LengthMismatch { declared: declared as usize, actual });
    }
    let (offset, timestamp) = (Offset(0), TimestampMs(0));
    Ok(Record { attributes, offset_delta, timestamp_delta, offset, timestamp, key, value, headers })
}

#[inline]
fn read_headers<'a>(cursor: &mut Cursor<'a>) -> Result<Headers<'a>, RecordFault> {
    let count = cursor.varint()?;
    if count < 0 || count as usize > cursor.remaining() {
        return Err(RecordFault::HeaderCount { count });
    }
    let headers = Headers { cursor: *cursor, count: count as usize };
    for _ in 0..count {
        read_header(cursor)?;
    }
    Ok(headers)
}

fn read_header<'a>(cursor: &mut Cursor<'a>) -> Result<Header<'a>, RecordFault> {
    let length = cursor.varint()?;
    if length < 0 {
        return Err(RecordFault::HeaderKey { length });
    }
    let key = cursor.take(length as usize)?;
    Ok(Header { key, value: cursor.nullable()? })
}
