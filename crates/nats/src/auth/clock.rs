//! The time as claims state it.

use tailrace_env::time::WallTime;

/// Seconds since 1970.
pub(super) fn now_s() -> i64 {
    i64::try_from(WallTime::now().after_epoch().as_secs()).unwrap_or(i64::MAX)
}
