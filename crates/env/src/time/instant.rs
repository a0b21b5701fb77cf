//! A point in time on a monotonic clock.

use std::ops::{Add, AddAssign, Sub};

use super::Duration;
use crate::world::current;

/// A point in time, in nanoseconds since the start of its world. Sums and differences saturate at that start
/// and at 584 years after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Instant {
    /// Returns the current time.
    ///
    /// # Panics
    /// If there is no world. The same holds for all functions that call this.
    pub fn now() -> Self {
        Self::since_beginning(current().age())
    }

    /// Returns the instant `duration` after the start of the world.
    pub(crate) fn since_beginning(duration: Duration) -> Self {
        Self(nanos(duration))
    }

    /// Returns the time since the start of the world.
    pub(crate) fn age(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time since this instant. Zero if it is in the future.
    pub fn elapsed(&self) -> Duration {
        Self::now() - *self
    }

    /// Returns the time since `earlier`. Zero if `earlier` is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        self - earlier
    }

    /// Returns the instant `duration` earlier. `None` if that is before the start of the world.
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(nanos(duration)).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_stay_within_the_world() {
        let second = Duration::from_secs(1);
        let at = Instant::since_beginning(second);
        assert_eq!(at + second - at, second);
        assert_eq!(at - (at + second), Duration::ZERO);
        assert_eq!(at - second * 2, Instant::since_beginning(Duration::ZERO));
        assert_eq!(at.checked_sub(second * 2), None);
        assert_eq!((at + Duration::MAX).age(), Duration::from_nanos(u64::MAX));
    }
}
