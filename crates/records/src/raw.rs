//! Records as stored in a body, for compaction. Only the key is decoded, the rest stays as bytes.

use crate::varint::Cursor;
use crate::{BatchError, RecordFault};

/// One record of an uncompressed body. Its value and headers are not checked.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// The whole record, including its length.
    pub bytes: &'a [u8],
    /// Timestamp minus the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// The key. Null differs from empty.
    pub key: Option<&'a [u8]>,
    /// True if it has no value, which deletes the key.
    pub is_tombstone: bool,
    /// The unused attributes of the record.
    pub(crate) attributes: u8,
    /// Everything after the timestamp.
    pub(crate) after_timestamp: &'a [u8],
}

/// Iterates over the records of an uncompressed body. Ends after the last record or the first error.
#[derive(Clone, Debug)]
pub struct RawRecords<'a> {
    body: &'a [u8],
    cursor: Cursor<'a>,
    index: i32,
    count: i32,
}

impl<'a> RawRecords<'a> {
    /// `body` is the uncompressed bytes after the header of a batch of `record_count` records.
    pub const fn new(record_count: i32, body: &'a [u8]) -> Self {
        Self { body, cursor: Cursor::new(body), index: 0, count: record_count }
    }

    #[inline]
    fn read(&mut self) -> Result<RawRecord<'a>, RecordFault> {
        let start = self.cursor.position();
        let declared = self.cursor.varint()?;
        let remaining = self.cursor.remaining();
        if declared < 0 || declared as usize > remaining {
            return Err(RecordFault::Length { declared, remaining });
        }
        let fields = self.cursor.take(declared as usize)?;
        let bytes = &self.body[start..self.cursor.position()];
        let mut inner = Cursor::new(fields);
        let attributes = inner.byte()?;
        let timestamp_delta = inner.varlong()?;
        let after_timestamp = &fields[inner.position()..];
        let offset_delta = inner.varint()?;
        let key = inner.nullable()?;
        let is_tombstone = inner.varint()? < 0;
        Ok(RawRecord { bytes, timestamp_delta, offset_delta, key, is_tombstone, attributes, after_timestamp })
    }
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = Result<RawRecord<'a>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index < 0 {
            return None;
        }
        if self.index >= self.count {
            let (record_count, bytes) = (self.count, self.cursor.remaining());
            self.index = -1;
            return (bytes > 0).then_some(Err(BatchError::TrailingBytes { record_count, bytes }));
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
