//! A whole batch with its records uncompressed, for readers: consumers, dumps, lookups within a batch.

use std::borrow::Cow;

use crate::compress::decompress;
use crate::split::whole;
use crate::{BatchError, BatchHeader, Compression, RecordIter, Strictness, check};

/// A batch whose records can be read. Owns the uncompressed bytes, or borrows them from an uncompressed
/// batch.
#[derive(Clone, Debug)]
pub struct DecodedBatch<'a> {
    header: BatchHeader,
    body: Cow<'a, [u8]>,
}

impl<'a> DecodedBatch<'a> {
    /// Decodes the batch at the start of `bytes` and checks the CRC. Holds at most `decompressed_bytes_max`
    /// bytes of its records.
    ///
    /// # Errors
    /// Those of [`check`], `UnknownCompression`, `Decompression` and `ExpandsTooLarge`.
    pub fn new(bytes: &'a [u8], decompressed_bytes_max: usize) -> Result<Self, BatchError> {
        let header = check(bytes)?;
        Self::trusted(header, bytes, decompressed_bytes_max)
    }

    /// Like [`DecodedBatch::new`], for a batch whose header was read and whose CRC the caller has checked or
    /// does not need.
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

    /// Iterates over the records, whatever their offset deltas.
    pub fn records(&self) -> RecordIter<'_> {
        self.records_with(Strictness::Lenient)
    }

    /// Iterates over the records, with offset deltas checked according to `strictness`.
    pub fn records_with(&self, strictness: Strictness) -> RecordIter<'_> {
        RecordIter::new(&self.header, &self.body, strictness)
    }
}
