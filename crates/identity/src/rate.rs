//! Rates: how fast bytes, requests, or anything else that can be counted may pass.

use core::time::Duration;

/// What the time pays for in which nothing is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Nothing: every piece waits for its own cost.
    PaysNothing,
    /// The next piece, however long the idle time was. The first piece is free.
    PaysForNext,
}

/// An account of the units that were spent, and of those that were earned since, at a rate that may change at
/// any time. It has no clock and no lock: `now` is the time since a moment that the owner chooses.
///
/// The account counts in units since the start. It is exact up to 2^53 of them.
#[derive(Debug)]
pub struct RateAccount {
    idle: Idle,
    spent: f64,
    earned: f64,
    /// When `earned` was last updated.
    at: Option<Duration>,
}

/// The units that must be earned until a piece is paid for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill(f64);

impl RateAccount {
    /// Opens an account in which nothing was spent.
    pub fn new(idle: Idle) -> Self {
        Self { idle, spent: 0.0, earned: 0.0, at: None }
    }

    /// Spends `units`, at `rate` units per second. [`RateAccount::wait`] says when they are paid for.
    ///
    /// A rate below 1 counts as 1, because zero would stop everything. `f64::MAX` is no limit. A piece costs
    /// at most `longest`, so that an absurdly low rate cannot hold up its caller for days.
    pub fn spend(&mut self, units: u64, rate: f64, longest: Duration, now: Duration) -> Bill {
        let rate = sensible(rate);
        let cost = (units as f64).min(rate * longest.as_secs_f64());
        let saved = match self.idle {
            Idle::PaysNothing => 0.0,
            Idle::PaysForNext => cost,
        };
        self.earn(rate, now, saved);
        self.spent += cost;
        Bill(self.spent)
    }

    /// Spends `units` like [`RateAccount::spend`], and returns how long to wait until they are paid for.
    /// `None`, with nothing spent, if that is longer than `longest`.
    pub fn spend_within(
        &mut self,
        units: u64,
        rate: f64,
        longest: Duration,
        now: Duration,
    ) -> Option<Duration> {
        let before = self.spent;
        let bill = self.spend(units, rate, longest, now);
        let wait = self.wait(bill, rate, now);
        if wait > longest {
            self.spent = before;
            return None;
        }
        Some(wait)
    }

    /// Returns how long to wait until a bill is paid, if the rate stays the same. At most a day: look again
    /// then.
    pub fn wait(&mut self, bill: Bill, rate: f64, now: Duration) -> Duration {
        const DAY: Duration = Duration::from_secs(86_400);
        let rate = sensible(rate);
        self.earn(rate, now, 0.0);
        let seconds = (bill.0 - self.earned).max(0.0) / rate;
        Duration::try_from_secs_f64(seconds).unwrap_or(DAY).min(DAY)
    }

    /// Earns at `rate`, up to what was spent and what may be `saved` beyond it.
    fn earn(&mut self, rate: f64, now: Duration, saved: f64) {
        let limit = (self.spent + saved).max(self.earned);
        self.earned = match self.at {
            Some(at) => (self.earned + rate * now.saturating_sub(at).as_secs_f64()).min(limit),
            None => limit,
        };
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }
}

fn sensible(rate: f64) -> f64 {
    rate.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);
    const LONGEST: Duration = Duration::from_secs(60);

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Spends, and returns how long to wait.
    fn spent(account: &mut RateAccount, units: u64, rate: f64, now: Duration) -> Duration {
        let bill = account.spend(units, rate, LONGEST, now);
        account.wait(bill, rate, now)
    }

    #[test]
    fn units_are_spent_at_the_rate_and_idle_time_earns_nothing() {
        let mut account = RateAccount::new(Idle::PaysNothing);
        assert_eq!(spent(&mut account, 500, 1000.0, START), seconds(0.5));
        assert_eq!(spent(&mut account, 1500, 1000.0, START), seconds(2.0));
        assert_eq!(spent(&mut account, 500, 1000.0, START + seconds(60.0)), seconds(0.5));
    }

    #[test]
    fn idle_time_pays_for_the_next_piece_and_no_more() {
        let mut account = RateAccount::new(Idle::PaysForNext);
        assert_eq!(spent(&mut account, 1000, 1000.0, START), Duration::ZERO, "the first one");
        assert_eq!(spent(&mut account, 1000, 1000.0, START), seconds(1.0));
        let later = START + seconds(60.0);
        assert_eq!(spent(&mut account, 5000, 1000.0, later), Duration::ZERO);
        assert_eq!(spent(&mut account, 500, 1000.0, later), seconds(0.5));
    }

    #[test]
    fn what_would_wait_too_long_spends_nothing() {
        let mut account = RateAccount::new(Idle::PaysForNext);
        let mut within = |units| account.spend_within(units, 1000.0, seconds(5.0), START);
        assert_eq!(within(4000), Some(Duration::ZERO));
        assert_eq!(within(4000), Some(seconds(4.0)));
        assert_eq!(within(2000), None);
        assert_eq!(within(1000), Some(seconds(5.0)));
    }

    #[test]
    fn a_waiting_caller_continues_at_a_new_rate() {
        let mut account = RateAccount::new(Idle::PaysNothing);
        let bill = account.spend(10_000, 1000.0, LONGEST, START);
        let later = START + seconds(2.0);
        assert_eq!(account.wait(bill, 1000.0, later), seconds(8.0));
        assert_eq!(account.wait(bill, 10_000.0, later), seconds(0.8));
        assert_eq!(account.wait(bill, f64::MAX, later + seconds(0.001)), Duration::ZERO);
    }

    #[test]
    fn absurd_rates_are_bounded() {
        for rate in [0.0, -5.0, f64::MIN_POSITIVE, f64::NAN] {
            assert!(spent(&mut RateAccount::new(Idle::PaysNothing), u64::MAX, rate, START) <= LONGEST);
        }
        let mut account = RateAccount::new(Idle::PaysNothing);
        assert_eq!(spent(&mut account, 1 << 40, f64::MAX, START), Duration::ZERO);
    }
}
