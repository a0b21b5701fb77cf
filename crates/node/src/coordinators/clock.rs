//! A clock for deadlines: the wall clock's time at its start, and steady from there.

use tailrace_env::time::{Duration, Instant};

use tailrace_types::TimestampMs;

use tailrace_env::time::wall_clock;

/// Never goes back and never jumps, so that a change of the wall clock expires nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SteadyClock {
    wall: TimestampMs,
    started: Instant,
}

impl SteadyClock {
    /// Starts at the wall clock's time.
    pub(crate) fn start() -> Self {
        Self { wall: wall_clock(), started: Instant::now() }
    }

    pub(crate) fn now(&self) -> TimestampMs {
        let passed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        TimestampMs(self.wall.0.saturating_add(passed))
    }

    /// Returns the time until `deadline`. Zero if it has passed.
    pub(crate) fn until(&self, deadline: TimestampMs) -> Duration {
        let ms = deadline.0.saturating_sub(self.now().0).max(0);
        // A clock in milliseconds has not quite reached a deadline that is 0 ms away.
        Duration::from_millis(ms.unsigned_abs())
    }
}
