//! Blocks reserved for the active segment.

use crate::config::PREALLOCATE_BYTES_FIRST;

/// Blocks reserved beyond the end of the active segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    /// Bytes of the file that have blocks. 0 if none were reserved.
    pub(crate) end: u64,
    /// Bytes of the next reservation.
    pub(crate) step: u64,
}

impl Default for Reserved {
    fn default() -> Self {
        Self { end: 0, step: PREALLOCATE_BYTES_FIRST }
    }
}
