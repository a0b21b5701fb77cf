//! Clocks and timers.

mod instant;
mod interval;
mod sleep;
mod timeout;
mod wall;

pub use instant::Instant;
pub use interval::{Interval, MissedTicks, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use std::time::Duration;
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};
pub use wall::{WallTime, wall_clock};
