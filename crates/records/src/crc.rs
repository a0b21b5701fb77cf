//! CRC-32C of a batch.

use crate::header::{ATTRIBUTES_OFFSET, PRODUCER_ID_OFFSET};

/// CRC-32C of everything that a batch's checksum covers. `batch` is a whole batch.
pub(crate) fn checksum(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[ATTRIBUTES_OFFSET..])
}

/// The checksum after the bytes from the attributes up to the largest timestamp changed from `before` to `after`,
/// both whole batch headers. CRCs are linear, so the records need no second pass.
pub(crate) fn restamped(crc: u32, before: &[u8], after: &[u8], batch_bytes: usize) -> u32 {
    let head = |h: &[u8]| crc32c::crc32c(&h[ATTRIBUTES_OFFSET..PRODUCER_ID_OFFSET]);
    let difference = head(before) ^ head(after);
    crc ^ crc32c::crc32c_combine(difference, 0, batch_bytes - PRODUCER_ID_OFFSET)
}
