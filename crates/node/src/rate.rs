//! Rates of this node's own work, by the clock of its world: compaction, scrubbing, catching up replicas.

use std::fmt;

use parking_lot::Mutex;
use tailrace_env::time::{Duration, Instant};
use tailrace_identity::{Bill, Idle, RateAccount};

/// A [`RateAccount`] that threads share.
pub(crate) struct RateLimiter {
    opened: Instant,
    account: Mutex<RateAccount>,
}

impl RateLimiter {
    pub(crate) fn new(idle: Idle) -> Self {
        Self { opened: Instant::now(), account: Mutex::new(RateAccount::new(idle)) }
    }

    /// As [`RateAccount::spend`].
    pub(crate) fn spend(&self, units: u64, rate: f64, longest: Duration, now: Instant) -> Bill {
        self.account.lock().spend(units, rate, longest, now.duration_since(self.opened))
    }

    /// As [`RateAccount::spend_within`].
    pub(crate) fn spend_within(
        &self,
        units: u64,
        rate: f64,
        longest: Duration,
        now: Instant,
    ) -> Option<Duration> {
        self.account.lock().spend_within(units, rate, longest, now.duration_since(self.opened))
    }

    /// As [`RateAccount::wait`].
    pub(crate) fn wait(&self, bill: Bill, rate: f64, now: Instant) -> Duration {
        self.account.lock().wait(bill, rate, now.duration_since(self.opened))
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").finish_non_exhaustive()
    }
}
