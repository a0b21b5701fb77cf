//! Periodic timers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::ready;

use super::{Duration, Instant, Sleep, sleep_until};

/// What happens to ticks that no one awaited in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// They fire at once, one after the other, until all are caught up.
    #[default]
    CatchUp,
    /// The next tick fires a full period after the late one.
    Delay,
    /// They are skipped. The next tick fires at its regular time.
    Skip,
}

/// See [`interval`].
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    missed: MissedTicks,
}

/// Returns an interval that ticks now and then every `period`.
///
/// # Panics
/// If `period` is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period above zero");
    Interval { sleep: sleep_until(Instant::now()), period, missed: MissedTicks::default() }
}

/// Returns an interval that ticks at `first` and then every `period`.
///
/// # Panics
/// If `period` is zero.
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    Interval { sleep: sleep_until(first), ..interval(period) }
}

impl Interval {
    /// Sets what happens to ticks that no one awaited in time.
    pub fn set_missed(&mut self, missed: MissedTicks) {
        self.missed = missed;
    }

    /// Waits for the next tick. Cancel safe.
    pub async fn tick(&mut self) {
        poll_fn(|cx| {
            ready!(Pin::new(&mut self.sleep).poll(cx));
            self.advance(Instant::now());
            std::task::Poll::Ready(())
        })
        .await;
    }

    /// Returns when the next tick is due.
    pub fn next_at(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Takes the next tick if it is due. Lets one caller poll several intervals in turn.
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

/// Returns when the next tick is due, after the tick that was due at `due` was taken at `now`.
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
