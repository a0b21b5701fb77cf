//! Sequences of batches, and the check of a single batch.

use crate::header::current_frame;
use crate::{BatchError, BatchHeader, crc};

/// True if `bytes` starts with a complete batch whose CRC-32C is correct.
pub fn verify_crc(bytes: &[u8]) -> bool {
    check(bytes).is_ok()
}

/// Checks the batch at the start of `bytes`: header, completeness, CRC. Ignores bytes after the batch, and
/// does not inspect the records.
///
/// # Errors
/// Those of [`BatchHeader::parse`], `Incomplete` if bytes of the batch are missing, and `Checksum`.
pub fn check(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::parse(bytes)?;
    check_crc(&header, whole(bytes, header.total_bytes())?)?;
    Ok(header)
}

pub(crate) fn whole(bytes: &[u8], total: usize) -> Result<&[u8], BatchError> {
    bytes.get(..total).ok_or(BatchError::Incomplete { bytes_needed: total, bytes: bytes.len() })
}

/// `batch` is exactly one whole batch.
pub(crate) fn check_crc(header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
    let computed = crc::checksum(batch);
    if computed == header.crc { Ok(()) } else { Err(BatchError::Checksum { stored: header.crc, computed }) }
}

/// Iterates over consecutive batches, as in a segment or a fetch response. Does not check CRCs. A truncated
/// batch at the end ends the iteration, as in Kafka's clients. An impossible header yields an error, and then
/// the iteration ends too, since the next batch cannot be found.
pub fn split_batches(bytes: &[u8]) -> Batches<'_> {
    Batches { bytes, position: 0 }
}

/// See [`split_batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Batches<'_> {
    /// Position of the next batch. At the end, the number of bytes in whole batches.
    pub const fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<(BatchHeader, &'a [u8]), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.position..)?;
        let total = match current_frame(rest) {
            Ok(total) => total,
            Err(BatchError::Incomplete { .. }) => return None,
            Err(error) => return self.end(error),
        };
        let batch = rest.get(..total)?;
        match BatchHeader::parse(batch) {
            Ok(header) => {
                self.position += total;
                Some(Ok((header, batch)))
            }
            Err(error) => self.end(error),
        }
    }
}

impl<'a> Batches<'a> {
    /// Reports `error` once, and ends the iteration. The position stays at the bad batch.
    fn end(&mut self, error: BatchError) -> Option<<Self as Iterator>::Item> {
        self.bytes = &self.bytes[..self.position];
        Some(Err(error))
    }
}
