//! The time of day.

use tailrace_types::TimestampMs;

use super::Duration;
use crate::world::current;

/// A time of day: so long after 1970 began, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(Duration);

impl WallTime {
    /// The present, as the world's clock tells it.
    ///
    /// # Panics
    /// If there is no world.
    pub fn now() -> Self {
        Self(current().since_1970())
    }

    /// How long it is after 1970 began.
    pub const fn after_epoch(self) -> Duration {
        self.0
    }

    /// How long it is after `earlier`; zero if it is before.
    pub const fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// In whole milliseconds.
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

/// The time of day in milliseconds, as records and commands carry it.
///
/// # Panics
/// If there is no world.
pub fn wall_clock() -> TimestampMs {
    WallTime::now().to_timestamp()
}
