//! A whole batch with its records uncompressed, for readers: consume, dump, lookups within a batch.

use std::borrow::Cow;

use crate::compress::decompress;
use crate::split::whole;
use crate::{BatchError, BatchHeader, Compression, RecordIter, Strictness, check};

/// A batch whose records can be read. Owns the uncompressed bytes, or borrows them from a batch that was not
/// compressed.
#[derive(Clone, Debug)]
pub struct DecodedBatch<'a> {
    header: BatchHeader,
    body: Cow<'a, [u8]>,
}

impl<'a> DecodedBatch<'a> {
    /// Decodes the batch at the start of `bytes`. The CRC is checked. At most `decompressed_bytes_max` bytes are
    /// held for its records.
    ///
    /// # Errors
    /// As [`check`]; `UnknownCompression`, `Decompression`, `ExpandsTooLarge`.
    pub fn new(bytes: &'a [u8], decompressed_bytes_max: usize) -> Result<Self, BatchError> {
        let header = check(bytes)?;
        Self::trusted(header, bytes, decompressed_bytes_max)
    }

    /// The same for a batch whose header has been read and whose CRC the caller has checked, or does not care for.
    ///
    /// # Errors
    /// `Incomplete`, `UnknownCompression`, `Decompression`, `ExpandsTooLarge`.
    pub(crate) fn trusted(
        header: BatchHeader,
        bytes: &'a [u8],
        decompressed_bytes_max: usize,
    ) -> Result<Self, BatchError> {
        let body = &whole(bytes, header.total_bytes())?[crate::HEADER_BYTES..];
        let body = match header.attributes.compression()? {
            Compression::None => Cow::Borrowed(body),
            compression => {
                let mut out = Vec::new();
                decompress(compression, body, decompressed_bytes_max, &mut out)?;
                Cow::Owned(out)
            }
        };
        Ok(Self { header, body })
    }

    /// The header of the batch.
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The uncompressed bytes after the header.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The records, whatever their offset deltas.
    pub fn records(&self) -> RecordIter<'_> {
        self.records_with(Strictness::Lenient)
    }

    /// The records, judged as `strictness` says.
    pub fn records_with(&self, strictness: Strictness) -> RecordIter<'_> {
        RecordIter::new(&self.header, &self.body, strictness)
    }
}
