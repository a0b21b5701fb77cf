//! The rate of compaction.

use crate::error::LogError;

/// Slows compaction down, and stops it.
pub trait Pace {
    /// Accounts for `bytes` read or written. Waits as long as the permitted rate requires.
    ///
    /// # Errors
    /// [`LogError::CompactionStopped`] if compaction has to stop here.
    fn spend(&mut self, bytes: u64) -> Result<(), LogError>;
}

/// No limit on the rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unhurried;

impl Pace for Unhurried {
    fn spend(&mut self, _bytes: u64) -> Result<(), LogError> {
        Ok(())
    }
}
