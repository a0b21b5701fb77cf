//! One stretch of a schedule: a rate that is constant or changes linearly.
//!
//! All results are exact. With rate a at the start and b at the end of a stretch of length d, the number of
//! messages due before t is N(t) = a t + (b - a) t^2 / 2d. Message n is due at the first nanosecond at which
//! N(t) >= n.

use super::rate::Rate;
use crate::error::ScheduleError;

/// Nanoseconds in 1,000 seconds: the unit of [`Rate`].
const KILOSECOND_NS: u128 = 1_000_000_000_000;

/// A stretch of time in which the rate changes linearly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Rate at its start.
    from: Rate,
    /// Rate at its end.
    to: Rate,
    /// Its length.
    duration_ns: u64,
}

impl Segment {
    /// The longest stretch, about 36 years.
    pub(crate) const DURATION_NS_MAX: u64 = 1 << 60;

    /// Creates a valid stretch.
    ///
    /// # Errors
    /// It is empty, too long, or so long and fast that its arithmetic needs more than 128 bits (a ramp up to
    /// a million messages per second may last two days).
    pub(crate) fn new(from: Rate, to: Rate, duration_ns: u64) -> Result<Self, ScheduleError> {
        let fastest = u128::from(from.max(to).in_kiloseconds());
        let duration = u128::from(duration_ns);
        let fits = from == to || (2 * duration * duration).checked_mul(fastest).is_some_and(|n| n < 1 << 126);
        if duration_ns == 0 || duration_ns > Self::DURATION_NS_MAX || !fits {
            return Err(ScheduleError::StretchLength { duration_ns });
        }
        Ok(Self { from, to, duration_ns })
    }

    /// Rates at its start and at its end.
    pub(super) fn rates(&self) -> (Rate, Rate) {
        (self.from, self.to)
    }

    /// Its length.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.duration_ns
    }

    /// Messages due before its end: those with N(t) < N(duration), counted from 0.
    pub(crate) fn messages(&self) -> u64 {
        let (numerator, divisor) = self.twice(self.duration_ns);
        u64::try_from(numerator.div_ceil(divisor)).unwrap_or(u64::MAX)
    }

    /// When message `index` of this stretch is due, in nanoseconds after its start.
    pub(crate) fn due_ns(&self, index: u64) -> u64 {
        if self.from == self.to {
            return constant_due_ns(self.from, index);
        }
        let guess = self.estimate_ns(index);
        let mut reach = 4;
        // The estimate is off by a few nanoseconds. The search makes it exact, whatever the rounding.
        loop {
            let low = guess.saturating_sub(reach);
            let high = (guess + reach).min(self.duration_ns);
            let below = low == 0 || !self.has_passed(low - 1, index);
            if below && self.has_passed(high, index) {
                return self.first_between(low, high, index);
            }
            assert!(reach < u64::MAX / 4, "message {index} is not in this stretch");
            reach *= 2;
        }
    }

    fn first_between(&self, mut low: u64, mut high: u64, index: u64) -> u64 {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.has_passed(middle, index) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Reports whether N(t) >= index.
    fn has_passed(&self, t: u64, index: u64) -> bool {
        let (numerator, divisor) = self.twice(t);
        numerator >= u128::from(index) * divisor
    }

    /// N(t) as a fraction. The terms are arranged so that none is negative: t (2 a d + (b - a) t) = t (a (2 d
    /// - t) + b t).
    fn twice(&self, t: u64) -> (u128, u128) {
        let (a, b) = (u128::from(self.from.in_kiloseconds()), u128::from(self.to.in_kiloseconds()));
        let (t, d) = (u128::from(t), u128::from(self.duration_ns.max(1)));
        if a == b {
            return (a * t, KILOSECOND_NS);
        }
        (t * (a * (2 * d - t) + b * t), 2 * d * KILOSECOND_NS)
    }

    fn estimate_ns(&self, index: u64) -> u64 {
        let (a, b) = (self.from.in_seconds() / 1e9, self.to.in_seconds() / 1e9);
        let slope = (b - a) / self.duration_ns as f64;
        let root = (a * a + 2.0 * slope * index as f64).max(0.0).sqrt();
        let t = if index == 0 { 0.0 } else { 2.0 * index as f64 / (a + root) };
        (t as u64).min(self.duration_ns)
    }
}

/// When message `index` of an endless constant rate is due: the first nanosecond at which N(t) >= index.
pub(super) fn constant_due_ns(rate: Rate, index: u64) -> u64 {
    let due = (u128::from(index) * KILOSECOND_NS).div_ceil(u128::from(rate.in_kiloseconds()));
    u64::try_from(due).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(per_second: u64) -> Rate {
        Rate::per_second(per_second).unwrap()
    }

    #[test]
    fn a_ramp_from_nothing_is_the_square_root() {
        // N(t) = 50 t^2 with 0 to 100/s over 1 s: message n is due after sqrt(n / 50) s.
        let ramp = Segment::new(rate(0), rate(100), 1_000_000_000).unwrap();
        assert_eq!(ramp.messages(), 50);
        assert_eq!(ramp.due_ns(0), 0);
        assert_eq!(ramp.due_ns(2), 200_000_000);
        assert_eq!(ramp.due_ns(32), 800_000_000);
        assert_eq!(ramp.due_ns(1), 141_421_357);
    }

    #[test]
    fn impossible_stretches_are_refused() {
        Segment::new(rate(1), rate(1), 0).unwrap_err();
        Segment::new(rate(1), rate(1), u64::MAX).unwrap_err();
        Segment::new(rate(1), rate(1_000_000_000), Segment::DURATION_NS_MAX).unwrap_err();
        Segment::new(rate(0), rate(1_000_000), 172_800 * 1_000_000_000).unwrap();
    }

    proptest! {
        #[test]
        fn due_times_rise_and_fill_the_stretch(
            from in 0_u64..2_000_000,
            to in 0_u64..2_000_000,
            duration_ns in 1_000_u64..10_000_000_000,
            at in 0.0_f64..1.0,
        ) {
            let segment = Segment::new(rate(from), rate(to), duration_ns).unwrap();
            let messages = segment.messages();
            let exact = (from + to) as f64 / 2.0 * duration_ns as f64 / 1e9;
            prop_assert!((messages as f64 - exact).abs() <= 1.0 + exact * 1e-12, "{messages} {exact}");
            if messages > 1 {
                let index = (at * (messages - 1) as f64) as u64;
                let (one, next) = (segment.due_ns(index), segment.due_ns(index + 1));
                prop_assert!(one <= next && next <= duration_ns);
                prop_assert!(segment.has_passed(next, index + 1));
                prop_assert!(next == 0 || !segment.has_passed(next - 1, index + 1));
            }
        }
    }
}
