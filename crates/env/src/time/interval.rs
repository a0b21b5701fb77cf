//! Something that is done again and again.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::ready;

use super::{Duration, Instant, Sleep, sleep_until};

/// What becomes of ticks that nobody waited for in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// They follow at once, one after the other, until all are made up for.
    #[default]
    CatchUp,
    /// The next one comes a whole period after the late one.
    Delay,
    /// They are left out: the next one comes when one would have been due.
    Skip,
}

/// See [`interval`].
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    missed: MissedTicks,
}

/// Ticks once now, and once every `period` from then on.
///
/// # Panics
/// If `period` is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of no time");
    Interval { sleep: sleep_until(Instant::now()), period, missed: MissedTicks::default() }
}

/// Ticks for the first time at `first`, and once every `period` from then on.
///
/// # Panics
/// If `period` is zero.
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    Interval { sleep: sleep_until(first), ..interval(period) }
}

impl Interval {
    /// Sets what becomes of ticks that nobody waited for in time.
    pub fn set_missed(&mut self, missed: MissedTicks) {
        self.missed = missed;
    }

    /// Waits for the next tick. Who stops waiting misses nothing.
    pub async fn tick(&mut self) {
        poll_fn(|cx| {
            ready!(Pin::new(&mut self.sleep).poll(cx));
            self.advance(Instant::now());
            std::task::Poll::Ready(())
        })
        .await;
    }

    /// When the next tick is due.
    pub fn next_at(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Takes the next tick if it is due. Several intervals take turns this way.
    pub fn take_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next_at();
        if is_due {
            self.advance(now);
        }
        is_due
    }

    fn advance(&mut self, now: Instant) {
        self.sleep.reset(next(self.next_at(), now, self.period, self.missed));
    }
}

/// When the tick after that of `due` is due, which was taken `now`.
fn next(due: Instant, now: Instant, period: Duration, missed: MissedTicks) -> Instant {
    let in_time = due + period;
    if now < in_time {
        return in_time;
    }
    match missed {
        MissedTicks::CatchUp => in_time,
        MissedTicks::Delay => now + period,
        MissedTicks::Skip => {
            let late = (now - due).as_nanos() % period.as_nanos();
            now + period
                - Duration::from_nanos(u64::try_from(late).expect("no more time than clocks have counted"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ticks_follow_their_rule() {
        let at = |ms| Instant::since_beginning(Duration::from_millis(ms));
        let period = Duration::from_millis(10);
        for missed in [MissedTicks::CatchUp, MissedTicks::Delay, MissedTicks::Skip] {
            assert_eq!(next(at(100), at(103), period, missed), at(110));
        }
        assert_eq!(next(at(100), at(127), period, MissedTicks::CatchUp), at(110));
        assert_eq!(next(at(100), at(127), period, MissedTicks::Delay), at(137));
        assert_eq!(next(at(100), at(127), period, MissedTicks::Skip), at(130));
        assert_eq!(next(at(100), at(120), period, MissedTicks::Skip), at(130));
    }
}
