//! Timestamps of the log.

use std::fmt;

/// Milliseconds since the Unix epoch. -1 means "no timestamp", as in Kafka.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampMs(pub i64);

impl TimestampMs {
    /// "No timestamp".
    pub const NONE: Self = Self(-1);

    /// Returns the milliseconds from `earlier` to `self`. 0 if `earlier` is later.
    pub const fn since(self, earlier: Self) -> i64 {
        let difference = self.0.saturating_sub(earlier.0);
        if difference < 0 { 0 } else { difference }
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
