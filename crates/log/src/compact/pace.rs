//! How fast compaction may go.

use crate::error::LogError;

/// Slows compaction down, and stops it.
pub trait Pace {
    /// So many bytes were read or written. Waits as long as the rate that is allowed asks for.
    ///
    /// # Errors
    /// [`LogError::CompactionStopped`] if it is to end here.
    fn spend(&mut self, bytes: u64) -> Result<(), LogError>;
}

/// As fast as it goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unhurried;

impl Pace for Unhurried {
    fn spend(&mut self, _bytes: u64) -> Result<(), LogError> {
        Ok(())
    }
}
