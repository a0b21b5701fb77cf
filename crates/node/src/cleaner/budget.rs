//! `log.cleaner.io.max.bytes.per.second`, for all threads together.

use tailrace_env::time::{Duration, Instant};
use tailrace_identity::{Bill, Idle};

use crate::rate::RateLimiter;

/// How far reads and writes may run ahead of the rate: a tenth of a second's worth.
const AHEAD: Duration = Duration::from_millis(100);
/// Maximum time that a single piece costs. Bounds the effect of an absurdly low rate on a thread.
const COST_MAX: Duration = Duration::from_secs(60);

/// The account of all threads.
#[derive(Debug)]
pub(super) struct Budget(RateLimiter);

impl Default for Budget {
    fn default() -> Self {
        Self(RateLimiter::new(Idle::PaysNothing))
    }
}

impl Budget {
    /// Spends `bytes`.
    pub(super) fn spend(&self, bytes: u64, rate: f64, now: Instant) -> Bill {
        self.0.spend(bytes, rate, COST_MAX, now)
    }

    /// Returns how long to wait before continuing, if the rate stays the same.
    pub(super) fn wait(&self, bill: Bill, rate: f64, now: Instant) -> Duration {
        self.0.wait(bill, rate, now).saturating_sub(AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spends, and returns how long to wait.
    fn spent(budget: &Budget, bytes: u64, rate: f64, now: Instant) -> Duration {
        let bill = budget.spend(bytes, rate, now);
        budget.wait(bill, rate, now)
    }

    #[test]
    fn bytes_are_spent_at_the_rate() {
        tailrace_runtime::install();
        let (budget, now) = (Budget::default(), Instant::now());
        assert_eq!(spent(&budget, 50, 1000.0, now), Duration::ZERO);
        assert_eq!(spent(&budget, 1050, 1000.0, now), Duration::from_secs(1));
        // Other threads count, too. Time in which nothing was owed earns nothing.
        assert_eq!(spent(&budget, 1000, 1000.0, now), Duration::from_secs(2));
        let later = now + Duration::from_secs(60);
        assert_eq!(spent(&budget, 100, 1000.0, later), Duration::ZERO);
    }

    #[test]
    fn no_rate_means_no_wait_and_an_absurd_one_is_bounded() {
        tailrace_runtime::install();
        let now = Instant::now();
        assert_eq!(spent(&Budget::default(), u64::MAX, f64::MAX, now), Duration::ZERO);
        for rate in [0.0, -5.0, f64::MIN_POSITIVE, f64::NAN] {
            assert!(spent(&Budget::default(), u64::MAX, rate, now) <= COST_MAX);
        }
    }

    /// In virtual time, the reads and writes of two threads never exceed the rate by more than what is
    /// allowed ahead and the pieces in flight, and do not fall short of it.
    #[test]
    fn over_any_time_the_rate_is_held() {
        tailrace_runtime::install();
        const PIECE: u64 = 700;
        let (budget, begin) = (Budget::default(), Instant::now());
        let mut threads = [begin; 2];
        let (mut bytes, rate) = (0_u64, 10_000.0);
        while let Some(next) = threads.iter_mut().min().filter(|at| **at < begin + Duration::from_secs(100)) {
            let bound = rate * (*next - begin + AHEAD).as_secs_f64() + (2 * PIECE) as f64;
            assert!(bytes as f64 <= bound, "{bytes} bytes after {:?}", *next - begin);
            bytes += PIECE;
            *next += spent(&budget, PIECE, rate, *next);
        }
        assert!(bytes >= 1_000_000, "{bytes} bytes in 100 s");
    }

    #[test]
    fn who_waits_when_the_rate_changes_goes_on_at_the_new_one() {
        tailrace_runtime::install();
        let (budget, now) = (Budget::default(), Instant::now());
        let bill = budget.spend(10_100, 1000.0, now);
        let later = now + Duration::from_secs(2);
        // 8,100 bytes are still owed.
        assert_eq!(budget.wait(bill, 1000.0, later), Duration::from_secs(8));
        assert_eq!(budget.wait(bill, 10_000.0, later), Duration::from_millis(710));
        assert_eq!(budget.wait(bill, f64::MAX, later + Duration::from_millis(1)), Duration::ZERO);
    }
}
