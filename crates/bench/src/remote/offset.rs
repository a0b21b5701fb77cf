//! Estimates how far another machine's clock is ahead of this one's: arithmetic on probes, without I/O and
//! without a clock.
//!
//! By this clock, a probe leaves at `sent` and is back at `returned`. By the other clock, it arrived at
//! `received` and was answered at `answered`. However unevenly the two ways share the time, the offset of the
//! other clock is between `answered - returned` and `received - sent`. Offsets change, since clocks drift.
//! What all probes together allow is a set of straight lines, each with an offset and a drift. Every figure
//! here is a minimum or maximum over that set, so no probe can make a bound too narrow by accident. If no
//! line agrees with all probes, a clock was stepped or its rate was changed. Then only the latest probes
//! count.

/// The greatest drift between two clocks, in nanoseconds per nanosecond: 500 ppm is the most that Linux ever
/// corrects.
pub(crate) const DRIFT_MAX: f64 = 500e-6;

/// Most bounds to keep. When there are more, the wider of each two neighbors is dropped.
const KEPT_MAX: usize = 48;

/// The error of reading a clock and of counting in whole nanoseconds, in nanoseconds.
const READING_NS: f64 = 1.0;

/// The four times of a probe, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// When it left, on this clock.
    pub sent_ns: u64,
    /// When it arrived, on the other clock.
    pub received_ns: u64,
    /// When it was answered, on the other clock.
    pub answered_ns: u64,
    /// When the answer arrived, on this clock.
    pub returned_ns: u64,
}

impl Probe {
    /// The time in transit, both ways.
    pub(crate) fn round_trip_ns(&self) -> u64 {
        let there = self.answered_ns.saturating_sub(self.received_ns);
        self.returned_ns.saturating_sub(self.sent_ns).saturating_sub(there)
    }
}

/// An offset and its error bound, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The other clock less this one.
    pub offset_ns: i64,
    /// The true offset differs by at most this much.
    pub bound_ns: u64,
}

/// The range of offsets that a probe allows, or several at nearly the same time. Relative to the first probe,
/// so that floating point is exact enough.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    at: f64,
    low: f64,
    high: f64,
}

/// A line that agrees with all probes.
#[derive(Clone, Copy, Debug)]
struct LineOfOffsets {
    offset: f64,
    drift: f64,
}

impl LineOfOffsets {
    fn at(&self, time: f64) -> f64 {
        self.offset + self.drift * time
    }
}

/// The estimate of one other clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimator {
    origin: Option<(u64, i64)>,
    kept: Vec<Bounds>,
    /// Corners of the set of lines.
    lines: Vec<LineOfOffsets>,
    probes: u64,
    steps: u64,
    round_trip_ns_min: Option<u64>,
}

impl Estimator {
    /// Adds several probes that followed each other closely, within some ten milliseconds.
    pub(crate) fn add(&mut self, burst: &[Probe]) {
        let Some(first) = burst.first() else { return };
        let (time, offset) = *self.origin.get_or_insert_with(|| (first.sent_ns, difference(first)));
        let each: Vec<Bounds> = burst.iter().map(|probe| bounds(probe, time, offset)).collect();
        self.probes += burst.len() as u64;
        let shortest = burst.iter().map(Probe::round_trip_ns).min();
        self.round_trip_ns_min = self.round_trip_ns_min.into_iter().chain(shortest).min();
        match together(&each) {
            Some(bounds) => self.kept.push(bounds),
            // The clock was stepped within the burst.
            None => {
                self.steps += 1;
                self.kept.clear();
                self.kept.extend(each.last());
            }
        }
        self.lines = corners(&self.kept);
        if self.lines.is_empty() {
            self.steps += 1;
            self.kept.drain(..self.kept.len() - 1);
            self.lines = corners(&self.kept);
        }
        if self.kept.len() > KEPT_MAX {
            forget(&mut self.kept);
        }
    }

    /// The offset at a time on this clock.
    pub(crate) fn at(&self, time_ns: u64) -> Option<Offset> {
        let (low, high) = self.range(time_ns)?;
        let (_, origin) = self.origin?;
        let middle = ((low + high) / 2.0).round();
        let bound = (high - middle).max(middle - low).max(0.0).ceil();
        Some(Offset { offset_ns: origin.saturating_add(middle as i64), bound_ns: bound as u64 })
    }

    /// The largest possible error of `offset_ns` between two times on this clock.
    pub(crate) fn deviation_ns(&self, offset_ns: i64, from_ns: u64, to_ns: u64) -> Option<u64> {
        let (_, origin) = self.origin?;
        let used = (i128::from(offset_ns) - i128::from(origin)) as f64;
        // The maximum over the lines is at one of the ends.
        let mut worst = 0.0_f64;
        for time_ns in [from_ns, to_ns] {
            let (low, high) = self.range(time_ns)?;
            worst = worst.max(high - used).max(used - low);
        }
        Some(worst.ceil() as u64)
    }

    /// The drift and its error bound, in nanoseconds per second (a thousandth of a ppm); positive if the
    /// other clock is faster.
    pub(crate) fn drift(&self) -> Option<(f64, f64)> {
        let drifts = || self.lines.iter().map(|line| line.drift);
        let (low, high) = (drifts().reduce(f64::min)?, drifts().reduce(f64::max)?);
        Some(((low + high) / 2.0 * 1e9, (high - low) / 2.0 * 1e9))
    }

    /// Probes so far.
    pub(crate) fn probes(&self) -> u64 {
        self.probes
    }

    /// How often no line agreed with all probes.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// The shortest round trip.
    pub(crate) fn round_trip_ns_min(&self) -> Option<u64> {
        self.round_trip_ns_min
    }

    fn range(&self, time_ns: u64) -> Option<(f64, f64)> {
        let (origin, _) = self.origin?;
        let time = (i128::from(time_ns) - i128::from(origin)) as f64;
        let offsets = || self.lines.iter().map(|line| line.at(time));
        Some((offsets().reduce(f64::min)?, offsets().reduce(f64::max)?))
    }
}

fn difference(probe: &Probe) -> i64 {
    i64::try_from(i128::from(probe.received_ns) - i128::from(probe.sent_ns)).unwrap_or(0)
}

/// The bounds from one probe, widened a little for the drift while it was in transit.
fn bounds(probe: &Probe, time: u64, offset: i64) -> Bounds {
    let relative = |other: u64, own: u64| (i128::from(other) - i128::from(own) - i128::from(offset)) as f64;
    let length = probe.returned_ns.saturating_sub(probe.sent_ns) as f64;
    let slack = length * DRIFT_MAX + READING_NS;
    Bounds {
        at: (i128::from(probe.sent_ns) - i128::from(time)) as f64 + length / 2.0,
        low: relative(probe.answered_ns, probe.returned_ns) - slack,
        high: relative(probe.received_ns, probe.sent_ns) + slack,
    }
}

/// The intersection of several bounds at nearly the same time. `None` if they contradict each other.
fn together(each: &[Bounds]) -> Option<Bounds> {
    let (first, last) = (each.first()?, each.last()?);
    let at = (first.at + last.at) / 2.0;
    let slack = (last.at - first.at) / 2.0 * DRIFT_MAX;
    let low = each.iter().map(|bounds| bounds.low).fold(f64::MIN, f64::max) - slack;
    let high = each.iter().map(|bounds| bounds.high).fold(f64::MAX, f64::min) + slack;
    (low <= high).then_some(Bounds { at, low, high })
}

/// Drops the wider of each two neighbors, but never the first or the last.
fn forget(kept: &mut Vec<Bounds>) {
    let width = |bounds: &Bounds| bounds.high - bounds.low;
    let (Some(first), Some(last)) = (kept.first().copied(), kept.pop()) else { return };
    let mut fewer = vec![first];
    for pair in kept[1..].chunks(2) {
        fewer.extend(pair.iter().copied().reduce(|a, b| if width(&b) <= width(&a) { b } else { a }));
    }
    fewer.push(last);
    *kept = fewer;
}

/// The corners of the set of lines that pass between all bounds and drift no more than clocks do. Empty if
/// there is no such line.
fn corners(kept: &[Bounds]) -> Vec<LineOfOffsets> {
    let mut lines = Vec::new();
    // A line at a corner touches two bounds, or touches one and has the greatest drift.
    for (number, one) in kept.iter().enumerate() {
        for value in [one.low, one.high] {
            for drift in [-DRIFT_MAX, DRIFT_MAX] {
                lines.push(LineOfOffsets { offset: value - drift * one.at, drift });
            }
            for other in &kept[number + 1..] {
                if other.at <= one.at {
                    continue;
                }
                for end in [other.low, other.high] {
                    let drift = (end - value) / (other.at - one.at);
                    lines.push(LineOfOffsets { offset: value - drift * one.at, drift });
                }
            }
        }
    }
    // Rounding must not lose a corner that is on a bound.
    const ROUNDING: f64 = 0.01;
    lines.retain(|line| {
        line.drift.abs() <= DRIFT_MAX * 1.000_001
            && kept
                .iter()
                .all(|bounds| (bounds.low - ROUNDING..=bounds.high + ROUNDING).contains(&line.at(bounds.at)))
    });
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A probe of a machine whose clock has this offset at time 0 and this drift.
    fn probe(sent_ns: u64, offset_ns: i64, drift: f64, there_ns: u64, back_ns: u64) -> Probe {
        let other = |own: u64| {
            let drifted = (own as f64 * drift).round() as i64;
            own.checked_add_signed(offset_ns + drifted).unwrap()
        };
        let arrived = sent_ns + there_ns;
        let answered = arrived + 2_000;
        Probe {
            sent_ns,
            received_ns: other(arrived),
            answered_ns: other(answered),
            returned_ns: answered + back_ns,
        }
    }

    #[test]
    fn a_known_offset_is_within_the_bound() {
        for offset in [0, 12_345, -700_000_000, 3_600 * SECOND as i64] {
            let mut estimator = Estimator::default();
            estimator.add(&[probe(10 * SECOND, offset, 0.0, 50_000, 50_000)]);
            let found = estimator.at(10 * SECOND).unwrap();
            assert!(found.offset_ns.abs_diff(offset) <= 100, "{found:?}");
            assert!((50_000..50_200).contains(&found.bound_ns), "{found:?}");
        }
    }

    #[test]
    fn an_uneven_way_stays_within_the_bound() {
        let mut estimator = Estimator::default();
        estimator.add(&[probe(10 * SECOND, 1_000_000, 0.0, 900_000, 10_000)]);
        let found = estimator.at(10 * SECOND).unwrap();
        assert!(found.offset_ns.abs_diff(1_000_000) > 400_000, "the middle is wrong: {found:?}");
        assert!(found.offset_ns.abs_diff(1_000_000) <= found.bound_ns);
        // A second probe with the opposite asymmetry makes it exact.
        estimator.add(&[probe(10 * SECOND + 1000, 1_000_000, 0.0, 10_000, 900_000)]);
        let found = estimator.at(10 * SECOND).unwrap();
        assert!(
            found.bound_ns < 12_000 && found.offset_ns.abs_diff(1_000_000) <= found.bound_ns,
            "{found:?}"
        );
        assert_eq!((estimator.probes(), estimator.round_trip_ns_min()), (2, Some(910_000)));
    }

    #[test]
    fn drift_is_found_and_bounded() {
        let (offset, drift) = (5_000_000, 20e-6);
        let mut estimator = Estimator::default();
        for second in 0..60 {
            estimator.add(&[probe(second * SECOND, offset, drift, 40_000, 60_000)]);
        }
        let (found, bound) = estimator.drift().unwrap();
        assert!((found - 20_000.0).abs() <= bound && bound < 2_000.0, "{found} {bound}");
        let end = estimator.at(59 * SECOND).unwrap();
        assert!(end.offset_ns.abs_diff(offset + 1_180_000) <= end.bound_ns, "{end:?}");
        assert!(end.bound_ns < 60_000, "{end:?}");
        // If the first estimate stays in use, its error is the drift since then, and that is reported.
        let wrong = estimator.deviation_ns(offset, 0, 59 * SECOND).unwrap();
        assert!((1_180_000..1_300_000).contains(&wrong), "{wrong}");
        assert_eq!(estimator.steps(), 0);
    }

    #[test]
    fn one_probe_says_little_about_later() {
        let mut estimator = Estimator::default();
        assert_eq!(estimator.at(0), None);
        estimator.add(&[probe(0, 0, 0.0, 1000, 1000)]);
        let later = estimator.at(10 * SECOND).unwrap();
        assert!(later.bound_ns >= 5_000_000, "{later:?}");
    }

    #[test]
    fn a_step_is_noticed() {
        let mut estimator = Estimator::default();
        for second in 0..5 {
            estimator.add(&[probe(second * SECOND, 0, 0.0, 10_000, 10_000)]);
        }
        estimator.add(&[probe(5 * SECOND, 80_000_000, 0.0, 10_000, 10_000)]);
        assert_eq!(estimator.steps(), 1);
        let found = estimator.at(5 * SECOND).unwrap();
        assert!(found.offset_ns.abs_diff(80_000_000) <= found.bound_ns, "{found:?}");
        let wrong = estimator.deviation_ns(0, 5 * SECOND, 5 * SECOND).unwrap();
        assert!(wrong >= 80_000_000, "{wrong}");
    }

    /// A clock whose rate changes: 400 ppm faster from the tenth second on. The offset in use is updated
    /// every second.
    #[test]
    fn a_change_of_rate_is_noticed_and_followed() {
        let mut estimator = Estimator::default();
        let truth = |second: u64| second.saturating_sub(10) as i64 * 400_000;
        let mut used = 0;
        for second in 0..30 {
            // The rate within a probe is negligible.
            estimator.add(&[probe(second * SECOND, truth(second), 0.0, 40_000, 60_000)]);
            let wrong = estimator.deviation_ns(used, second * SECOND, second * SECOND).unwrap();
            assert!(wrong >= used.abs_diff(truth(second)), "second {second}: {wrong}");
            used = estimator.at(second * SECOND).unwrap().offset_ns;
            assert!(used.abs_diff(truth(second)) < 1_000_000, "second {second}: {used}");
            assert_eq!(estimator.steps() > 0, second >= 11, "second {second}: {}", estimator.steps());
        }
        let (drift, bound) = estimator.drift().unwrap();
        assert!((drift - 400_000.0).abs() <= bound + 1.0 && bound < 20_000.0, "{drift} {bound}");
    }

    proptest! {
        /// However long each way takes, the true offset is never outside the bounds, at any time in between.
        #[test]
        fn the_truth_is_never_outside(
            offset in -1_000_000_000_i64..1_000_000_000,
            drift_ppm in -400_i32..400,
            ways in proptest::collection::vec((0_u64..2_000_000, 0_u64..2_000_000), 1..120),
        ) {
            let drift = f64::from(drift_ppm) * 1e-6;
            let mut estimator = Estimator::default();
            for (place, pair) in ways.chunks(3).enumerate() {
                let begin = (place as u64 + 10) * SECOND;
                let mut sent = begin;
                let mut burst = Vec::new();
                for (there, back) in pair {
                    burst.push(probe(sent, offset, drift, *there, *back));
                    sent += there + back + 10_000;
                }
                estimator.add(&burst);
                for time in [10 * SECOND, begin] {
                    let found = estimator.at(time).unwrap();
                    let truth = offset + (time as f64 * drift).round() as i64;
                    prop_assert!(found.offset_ns.abs_diff(truth) <= found.bound_ns + 2, "{found:?} {truth}");
                    let wrong = estimator.deviation_ns(truth + 1_000_000, time, time).unwrap();
                    prop_assert!(wrong + 2 >= 1_000_000, "{wrong}");
                }
            }
            prop_assert_eq!(estimator.steps(), 0);
            let (found, bound) = estimator.drift().unwrap();
            prop_assert!((found - f64::from(drift_ppm) * 1000.0).abs() <= bound + 1.0);
        }
    }
}
