//! The bucket of tokens for changes of the cluster (KIP-599). A large request is let through whole, and then
//! nothing until the rate has caught up. A window would hold the client up for as long as it remembers the
//! request.

use super::window::{SAMPLE_MS, SAMPLES, THROTTLE_MS_MAX};

/// A bucket holds the tokens of this many seconds: samples x length of a sample, as the window.
pub const BURST_SECONDS: u64 = SAMPLES as u64 * SAMPLE_MS / 1000;

/// Tokens that are earned at a rate, and spent at once. It starts full.
///
/// It has no clock: `now_ms` is the time since a moment that the owner chooses. A time before the last one
/// counts as that. The rate is in tokens per second, and may change at any time. One that is not positive
/// earns nothing.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Below zero after a request that took more than there was.
    tokens: f64,
    last_ms: u64,
}

impl TokenBucket {
    /// Makes a full bucket.
    pub fn new(now_ms: u64) -> Self {
        Self { tokens: f64::INFINITY, last_ms: now_ms }
    }

    /// Spends tokens unless more were spent than earned so far. So one request may take more than there is.
    ///
    /// # Errors
    /// Nothing was spent. In so many milliseconds, the debt is paid. At least 1, at most 2,147,483,647.
    pub fn spend(&mut self, tokens: f64, rate: f64, now_ms: u64) -> Result<(), u32> {
        match self.throttle_ms(rate, now_ms) {
            0 => {
                self.spend_anyway(tokens, rate, now_ms);
                Ok(())
            }
            throttle_ms => Err(throttle_ms),
        }
    }

    /// Spends tokens, and returns how long to hold the client up afterwards, in milliseconds. For clients of
    /// old versions, which do not know the error.
    pub fn spend_anyway(&mut self, tokens: f64, rate: f64, now_ms: u64) -> u32 {
        self.earn(rate, now_ms);
        self.tokens -= tokens.max(0.0);
        self.throttle_ms(rate, now_ms)
    }

    /// Returns in how many milliseconds the debt is paid. Zero without a debt.
    pub fn throttle_ms(&mut self, rate: f64, now_ms: u64) -> u32 {
        self.earn(rate, now_ms);
        if self.tokens >= 0.0 {
            return 0;
        }
        let throttle_ms = -self.tokens / rate.max(f64::MIN_POSITIVE) * 1000.0;
        (throttle_ms.round() as u32).clamp(1, THROTTLE_MS_MAX)
    }

    fn earn(&mut self, rate: f64, now_ms: u64) {
        let rate = rate.max(0.0);
        let elapsed_ms = now_ms.saturating_sub(self.last_ms);
        let burst = rate * BURST_SECONDS as f64;
        self.tokens = (self.tokens + rate * (elapsed_ms as f64 / 1000.0)).min(burst);
        self.last_ms = self.last_ms.max(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_000_000;

    #[test]
    fn a_burst_may_overdraw_once_and_then_the_rate_pays() {
        let mut bucket = TokenBucket::new(START_MS);
        assert_eq!(bucket.spend(50.0, 5.0, START_MS), Ok(()));
        // 5 of 55 are left.
        assert_eq!(bucket.spend(65.0, 5.0, START_MS), Ok(()));
        // 60 are owed, at 5 a second.
        assert_eq!(bucket.spend(1.0, 5.0, START_MS), Err(12_000));
        assert_eq!(bucket.spend(1.0, 5.0, START_MS + 11_999), Err(1));
        assert_eq!(bucket.spend(1.0, 5.0, START_MS + 12_000), Ok(()));
        assert_eq!(bucket.spend(1.0, 5.0, START_MS + 12_000), Err(200));
    }

    #[test]
    fn a_pause_fills_the_bucket_and_no_more() {
        let mut bucket = TokenBucket::new(START_MS);
        bucket.spend_anyway(100.0, 5.0, START_MS);
        let later_ms = START_MS + 3_600_000;
        assert_eq!(bucket.spend_anyway(55.0, 5.0, later_ms), 0);
        assert_eq!(bucket.spend_anyway(1.0, 5.0, later_ms), 200);
    }

    #[test]
    fn a_lower_rate_empties_the_bucket_and_a_higher_one_does_not_fill_it() {
        let mut bucket = TokenBucket::new(START_MS);
        assert_eq!(bucket.throttle_ms(100.0, START_MS), 0);
        assert_eq!(bucket.spend_anyway(12.0, 1.0, START_MS), 1000);
        assert_eq!(bucket.throttle_ms(10.0, START_MS), 100);
    }

    #[test]
    fn absurd_rates_and_times_are_bounded() {
        for rate in [0.0, -1.0, f64::NAN] {
            let mut bucket = TokenBucket::new(START_MS);
            assert_eq!(bucket.spend(1.0, rate, START_MS), Ok(()));
            assert_eq!(bucket.spend(1.0, rate, u64::MAX), Err(THROTTLE_MS_MAX));
        }
        let mut bucket = TokenBucket::new(START_MS);
        bucket.spend_anyway(100.0, 1.0, START_MS);
        assert_eq!(bucket.throttle_ms(1.0, 0), 89_000);
        assert_eq!(bucket.spend_anyway(-100.0, 1.0, START_MS), 89_000, "nothing is given");
        assert_eq!(bucket.spend_anyway(f64::NAN, 1.0, START_MS), 89_000);
        assert_eq!(bucket.throttle_ms(f64::MAX, u64::MAX), 0);
    }
}
