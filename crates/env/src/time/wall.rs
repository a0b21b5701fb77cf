//! The time of day.

use tailrace_types::TimestampMs;

use super::Duration;
use crate::world::current;

/// A time of day: the time since the start of 1970 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(Duration);

impl WallTime {
    /// Returns the current time of day on the world's clock.
    ///
    /// # Panics
    /// If there is no world.
    pub fn now() -> Self {
        Self(current().since_1970())
    }

    /// Returns the time since the start of 1970.
    pub const fn after_epoch(self) -> Duration {
        self.0
    }

    /// Returns the time since `earlier`. Zero if `earlier` is later.
    pub const fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Converts to whole milliseconds.
    pub(crate) fn to_timestamp(self) -> TimestampMs {
        TimestampMs(i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX))
    }
}

impl std::ops::Add<Duration> for WallTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Returns the time of day in milliseconds, the unit of records and commands.
///
/// # Panics
/// If there is no world.
pub fn wall_clock() -> TimestampMs {
    WallTime::now().to_timestamp()
}
