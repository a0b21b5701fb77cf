//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use tailrace_types::TimestampMs;

/// The time of day, as the system tells it. 1970 if its clock is before that.
pub fn wall_clock() -> TimestampMs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
