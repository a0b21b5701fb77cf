//! CRC-32C of a batch, by the `crc-fast` crate.
//!
//! Measured on the machine that runs the benchmarks (Xeon with AVX-512 and VPCLMULQDQ), 1 MiB and 1 KiB
//! inputs: `crc-fast` 1.10 98 and 57 GB/s, `crc32c` 0.6 26 and 21 GB/s.
//!
//! A batch that gets another timestamp type is checksummed again. Deriving the new CRC from the old one (CRCs
//! are linear) was measured too: combining costs about 17 us for any size, a pass over 1 MiB about 11 us.

use crc_fast::crc32_iscsi;

use crate::header::ATTRIBUTES_OFFSET;

/// Returns the CRC-32C of the bytes that a batch's checksum covers. `batch` is a whole batch.
pub(crate) fn checksum(batch: &[u8]) -> u32 {
    crc32_iscsi(&batch[ATTRIBUTES_OFFSET..])
}
