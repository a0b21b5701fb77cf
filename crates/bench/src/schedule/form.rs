//! The serialized form of a schedule. Another machine computes the same due times from it.

use serde::{Deserialize, Serialize};

use super::{Kind, Rate, Schedule, Segment};
use crate::error::ScheduleError;

/// The contents of a schedule. Rates are in messages per 1,000 seconds, times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScheduleForm {
    Constant {
        rate: u64,
    },
    Poisson {
        rate: u64,
        seed: u64,
    },
    /// Rate at the start, rate at the end, length.
    Series(Vec<(u64, u64, u64)>),
    Trace(Vec<u64>),
}

impl From<&Schedule> for ScheduleForm {
    fn from(schedule: &Schedule) -> Self {
        match &schedule.kind {
            Kind::Constant(rate) => Self::Constant { rate: rate.in_kiloseconds() },
            Kind::Poisson { rate, seed } => Self::Poisson { rate: rate.in_kiloseconds(), seed: *seed },
            Kind::Trace(times) => Self::Trace(times.to_vec()),
            Kind::Series(series) => {
                let (mut stretches, mut reached_ns) = (Vec::new(), 0);
                for (begins_ns, _, stretch) in &series.stretches {
                    // Pauses are not stored: they are the gaps between the others.
                    if *begins_ns > reached_ns {
                        stretches.push((0, 0, begins_ns - reached_ns));
                    }
                    let (from, to) = stretch.rates();
                    stretches.push((from.in_kiloseconds(), to.in_kiloseconds(), stretch.duration_ns()));
                    reached_ns = begins_ns.saturating_add(stretch.duration_ns());
                }
                Self::Series(stretches)
            }
        }
    }
}

impl TryFrom<ScheduleForm> for Schedule {
    type Error = ScheduleError;

    fn try_from(form: ScheduleForm) -> Result<Self, ScheduleError> {
        match form {
            ScheduleForm::Constant { rate } => Self::constant(Rate::per_kilosecond(rate)?),
            ScheduleForm::Poisson { rate, seed } => Self::poisson(Rate::per_kilosecond(rate)?, seed),
            ScheduleForm::Trace(times) => Self::trace(times),
            ScheduleForm::Series(stretches) => {
                let stretch = |(from, to, length): (u64, u64, u64)| {
                    Segment::new(Rate::per_kilosecond(from)?, Rate::per_kilosecond(to)?, length)
                };
                let stretches: Vec<Segment> = stretches.into_iter().map(stretch).collect::<Result<_, _>>()?;
                Self::series(&stretches)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_the_same_elsewhere() {
        let rate = |per_second| Rate::per_second(per_second).unwrap();
        let steps = [(rate(10), rate(10)), (rate(0), rate(0)), (rate(5), rate(500)), (rate(0), rate(0))]
            .map(|(from, to)| Segment::new(from, to, 3_000_000_001).unwrap());
        for schedule in [
            Schedule::constant("0.7".parse().unwrap()).unwrap(),
            Schedule::poisson(rate(1000), 7).unwrap(),
            Schedule::series(&steps).unwrap(),
            Schedule::trace(vec![1, 5, 5, 900]).unwrap(),
        ] {
            let text = serde_json::to_string(&ScheduleForm::from(&schedule)).unwrap();
            let elsewhere = Schedule::try_from(serde_json::from_str::<ScheduleForm>(&text).unwrap()).unwrap();
            for connection in 0..3 {
                let due =
                    |schedule: &Schedule| schedule.due_times(connection, 3).take(2000).collect::<Vec<_>>();
                assert_eq!(due(&schedule), due(&elsewhere));
            }
        }
        assert!(Schedule::try_from(ScheduleForm::Constant { rate: 0 }).is_err());
        assert!(Schedule::try_from(ScheduleForm::Trace(vec![2, 1])).is_err());
    }
}
