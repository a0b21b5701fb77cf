//! When each message is due: a function of the schedule, the seed and the message's index, and of nothing
//! else.
//!
//! A due time is fixed before any client library sees the message, and no answer, however late, moves it. All
//! due times are whole nanoseconds after the start of the run, computed from the index. Nothing is summed up
//! in floating point, so nothing drifts. This module does not know the time and does not wait.
//!
//! Messages are dealt to connections in turn: message `index` belongs to connection `index % connections`. A
//! Poisson schedule is the sum of independent ones, one per connection, each with its share of the rate,
//! which is again Poisson.

mod form;
mod random;
mod rate;
mod segment;
mod stream;
mod trace;

use std::sync::Arc;

pub(crate) use form::ScheduleForm;
pub use random::Random;
pub use rate::Rate;
pub(crate) use segment::Segment;
pub use stream::DueTimes;

use crate::error::ScheduleError;

/// A schedule of due times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Constant(Rate),
    Poisson { rate: Rate, seed: u64 },
    Series(Arc<Series>),
    Trace(Arc<[u64]>),
}

/// Stretches, each with its start in time and in messages.
#[derive(Debug, PartialEq, Eq)]
struct Series {
    stretches: Vec<(u64, u64, Segment)>,
}

impl Schedule {
    /// Creates a schedule of one message every 1/rate seconds, without end.
    ///
    /// # Errors
    /// The rate is 0.
    pub fn constant(rate: Rate) -> Result<Self, ScheduleError> {
        Self::positive(rate).map(|rate| Self { kind: Kind::Constant(rate) })
    }

    /// Creates a schedule of independent arrivals: exponentially distributed gaps with the given mean rate,
    /// without end.
    ///
    /// # Errors
    /// The rate is 0.
    pub fn poisson(rate: Rate, seed: u64) -> Result<Self, ScheduleError> {
        Self::positive(rate).map(|rate| Self { kind: Kind::Poisson { rate, seed } })
    }

    /// Creates a schedule of stretches one after the other: steps, ramps and pauses.
    ///
    /// # Errors
    /// No stretch has messages.
    pub(crate) fn series(stretches: &[Segment]) -> Result<Self, ScheduleError> {
        let (mut begins_ns, mut first) = (0_u64, 0_u64);
        let mut placed = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            if stretch.messages() > 0 {
                placed.push((begins_ns, first, *stretch));
            }
            first = first.saturating_add(stretch.messages());
            begins_ns = begins_ns.saturating_add(stretch.duration_ns());
        }
        if placed.is_empty() {
            return Err(ScheduleError::NoStretches);
        }
        Ok(Self { kind: Kind::Series(Arc::new(Series { stretches: placed })) })
    }

    /// Creates a schedule whose rate changes linearly from one value to another.
    ///
    /// # Errors
    /// The stretch is empty or too long, or both rates are 0.
    pub(crate) fn ramp(from: Rate, to: Rate, duration_ns: u64) -> Result<Self, ScheduleError> {
        Self::series(&[Segment::new(from, to, duration_ns)?])
    }

    /// Creates a schedule from due times recorded elsewhere, in nanoseconds after the start.
    ///
    /// # Errors
    /// There are none, or they decrease.
    pub(crate) fn trace(due_times_ns: Vec<u64>) -> Result<Self, ScheduleError> {
        trace::check(&due_times_ns)?;
        Ok(Self { kind: Kind::Trace(due_times_ns.into()) })
    }

    /// Parses a trace: one due time per line, in nanoseconds after the start; `#` starts a comment.
    ///
    /// # Errors
    /// A line is not a number, or the times decrease.
    pub(crate) fn parse_trace(text: &str) -> Result<Self, ScheduleError> {
        Self::trace(trace::parse(text)?)
    }

    /// Messages per second, if it is a single number.
    pub fn rate(&self) -> Option<Rate> {
        match self.kind {
            Kind::Constant(rate) | Kind::Poisson { rate, .. } => Some(rate),
            Kind::Series(_) | Kind::Trace(_) => None,
        }
    }

    /// A short name for reports.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Constant(_) => "constant",
            Kind::Poisson { .. } => "poisson",
            Kind::Series(_) => "series",
            Kind::Trace(_) => "trace",
        }
    }

    /// When message `index` is due. `None` after the end, and for Poisson, whose times follow from each
    /// other.
    fn due_ns(&self, index: u64) -> Option<u64> {
        match &self.kind {
            Kind::Constant(rate) => Some(segment::constant_due_ns(*rate, index)),
            Kind::Poisson { .. } => None,
            Kind::Series(series) => series.due_ns(index),
            Kind::Trace(due_times) => {
                usize::try_from(index).ok().and_then(|index| due_times.get(index).copied())
            }
        }
    }

    fn positive(rate: Rate) -> Result<Rate, ScheduleError> {
        if rate.is_zero() { Err(ScheduleError::RateZero) } else { Ok(rate) }
    }
}

impl Series {
    fn due_ns(&self, index: u64) -> Option<u64> {
        let place = self.stretches.partition_point(|(_, first, _)| *first <= index);
        let (begins_ns, first, stretch) = self.stretches.get(place.checked_sub(1)?)?;
        let within = index - first;
        (within < stretch.messages()).then(|| begins_ns.saturating_add(stretch.due_ns(within)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(per_second: u64) -> Rate {
        Rate::per_second(per_second).unwrap()
    }

    fn all(schedule: &Schedule, connections: u32, until_ns: u64) -> Vec<u64> {
        let mut times: Vec<u64> = (0..connections)
            .flat_map(|connection| {
                schedule
                    .due_times(connection, connections)
                    .take_while(|due| *due < until_ns)
                    .collect::<Vec<_>>()
            })
            .collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn a_constant_rate_does_not_drift() {
        let schedule = Schedule::constant(rate(3)).unwrap();
        let times: Vec<u64> = schedule.due_times(0, 1).take(4).collect();
        assert_eq!(times, [0, 333_333_334, 666_666_667, 1_000_000_000]);
        // A year later, message 3 n is still due at second n to the nanosecond.
        let year = 365 * 86_400;
        assert_eq!(schedule.due_ns(3 * year), Some(year * 1_000_000_000));
    }

    #[test]
    fn connections_share_one_schedule() {
        for schedule in [
            Schedule::constant(rate(1000)).unwrap(),
            Schedule::ramp(rate(100), rate(3000), 1_000_000_000).unwrap(),
        ] {
            let alone = all(&schedule, 1, 700_000_000);
            assert_eq!(alone, all(&schedule, 7, 700_000_000));
        }
    }

    #[test]
    fn steps_and_pauses() {
        let second = 1_000_000_000;
        let steps = [(10, second), (0, 2 * second), (20, second)]
            .map(|(per_second, length)| Segment::new(rate(per_second), rate(per_second), length).unwrap());
        let schedule = Schedule::series(&steps).unwrap();
        let times = all(&schedule, 3, u64::MAX);
        assert_eq!(times.len(), 30);
        assert_eq!(times[9], 900_000_000);
        assert_eq!(times[10], 3 * second);
        assert_eq!(times[29], 3_950_000_000);
        assert_eq!(Schedule::series(&steps[1..2]), Err(ScheduleError::NoStretches));
    }

    #[test]
    fn poisson_has_its_rate_and_spread() {
        for connections in [1, 5] {
            let schedule = Schedule::poisson(rate(1000), 42).unwrap();
            let second = 1_000_000_000;
            let times = all(&schedule, connections, 200 * second);
            // 200,000 expected, standard deviation 447.
            assert!((198_200..201_800).contains(&times.len()), "{}", times.len());
            let mut counts = [0_u32; 2000];
            times.iter().for_each(|due| counts[(due / 100_000_000) as usize] += 1);
            let mean = times.len() as f64 / 2000.0;
            let variance =
                counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / 2000.0;
            assert!((variance / mean - 1.0).abs() < 0.15, "variance {variance}, mean {mean}");
        }
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let of =
            |seed| Schedule::poisson(rate(1000), seed).unwrap().due_times(0, 2).take(100).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    proptest! {
        #[test]
        fn constant_times_are_the_exact_quotient(per_kilosecond in 1_u64..1_000_000_000_000, index in 0_u64..1 << 40) {
            let schedule = Schedule::constant(Rate::per_kilosecond(per_kilosecond).unwrap()).unwrap();
            let due = schedule.due_ns(index).unwrap();
            let exact = u128::from(index) * 1_000_000_000_000;
            if due < u64::MAX {
                prop_assert!(u128::from(due) * u128::from(per_kilosecond) >= exact);
                prop_assert!(due == 0 || u128::from(due - 1) * u128::from(per_kilosecond) < exact);
            }
        }

        #[test]
        fn times_never_fall(seed: u64, connections in 1_u32..9, from in 0_u64..5000, to in 1_u64..5000) {
            for schedule in [
                Schedule::poisson(rate(to), seed).unwrap(),
                Schedule::ramp(rate(from), rate(to), 1_000_000_000).unwrap(),
            ] {
                for connection in 0..connections {
                    let times: Vec<u64> = schedule.due_times(connection, connections).take(500).collect();
                    prop_assert!(times.is_sorted());
                }
            }
        }
    }
}
