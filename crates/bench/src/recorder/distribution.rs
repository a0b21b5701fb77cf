//! One latency distribution: an HdrHistogram that reports values that did not fit.

use hdrhistogram::Histogram;

/// The longest latency that is resolved, 300 s in nanoseconds.
pub(crate) const LATENCY_NS_MAX: u64 = 300 * 1_000_000_000;

/// Significant decimal digits of every latency.
pub(crate) const DIGITS: u8 = 3;

/// Latencies in nanoseconds, from 1 ns to 300 s with three significant digits.
///
/// A longer latency is counted in the last bucket *and* in `Distribution::above_range`, so that it improves
/// no percentile and the bucket's value does not pass for a measurement. The true maximum is kept next to the
/// histogram.
///
/// Takes about 230 KiB, once something was recorded.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    histogram: Option<Histogram<u64>>,
    above_range: u64,
    max_ns: u64,
}

impl Distribution {
    /// Counts one latency. 0 counts as 1 ns, the histogram's smallest value.
    pub fn record(&mut self, latency_ns: u64) {
        self.record_n(latency_ns, 1);
    }

    /// Counts `count` equal latencies.
    pub(crate) fn record_n(&mut self, latency_ns: u64, count: u64) {
        let fitting = latency_ns.clamp(1, LATENCY_NS_MAX);
        self.histogram.get_or_insert_with(empty).saturating_record_n(fitting, count);
        self.max_ns = self.max_ns.max(latency_ns);
        if latency_ns > LATENCY_NS_MAX {
            self.above_range += count;
        }
    }

    /// Adds everything that `other` counted.
    pub fn add(&mut self, other: &Self) {
        if let Some(histogram) = &other.histogram {
            let own = self.histogram.get_or_insert_with(empty);
            // Both have the same bounds and digits, so it cannot fail.
            own.add(histogram).unwrap_or_else(|error| unreachable!("{error}"));
        }
        self.above_range += other.above_range;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Clears it, and keeps the memory.
    pub fn clear(&mut self) {
        if let Some(histogram) = self.histogram.as_mut().filter(|histogram| !histogram.is_empty()) {
            histogram.reset();
        }
        self.above_range = 0;
        self.max_ns = 0;
    }

    /// The number of latencies counted.
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// The number of latencies above [`LATENCY_NS_MAX`].
    pub(crate) fn above_range(&self) -> u64 {
        self.above_range
    }

    /// The longest latency, exact.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The mean, for completeness; 0 if nothing was counted.
    pub fn mean_ns(&self) -> f64 {
        self.histogram.as_ref().map_or(0.0, Histogram::mean)
    }

    /// The latency that the share `quantile` (0 to 1) of all did not exceed, to three digits. Never above the
    /// exact maximum.
    pub fn at_quantile_ns(&self, quantile: f64) -> u64 {
        let value = self.histogram.as_ref().map_or(0, |histogram| histogram.value_at_quantile(quantile));
        if self.above_range > 0 && value >= LATENCY_NS_MAX { self.max_ns } else { value.min(self.max_ns) }
    }

    /// The latencies at two ranks, counted from 1 at the shortest: a lower bound for the first and an upper
    /// bound for the second, to three digits. A rank beyond the count is that of the longest.
    pub(crate) fn between_ranks_ns(&self, low: u64, high: u64) -> (u64, u64) {
        let Some(histogram) = &self.histogram else { return (0, 0) };
        let (mut count, mut from, mut to) = (0, None, self.max_ns);
        for value in histogram.iter_recorded() {
            count += value.count_at_value();
            if from.is_none() && count >= low {
                from = Some(histogram.lowest_equivalent(value.value_iterated_to()));
            }
            if count >= high {
                let is_last_bucket = self.above_range > 0 && value.value_iterated_to() >= LATENCY_NS_MAX;
                to = if is_last_bucket { self.max_ns } else { value.value_iterated_to().min(self.max_ns) };
                break;
            }
        }
        (from.unwrap_or(self.max_ns).min(to), to)
    }

    /// The distribution as HdrHistogram corrects it for coordinated omission: each latency above
    /// `interval_ns` also stands for the requests that should have started meanwhile, one per interval.
    ///
    /// This is a guess, for loads that wait for answers. Open-loop load has nothing to correct.
    #[must_use]
    pub fn corrected(&self, interval_ns: u64) -> Self {
        let mut corrected = self.clone();
        let (Some(raw), Some(histogram)) = (&self.histogram, &mut corrected.histogram) else {
            return corrected;
        };
        for value in raw.iter_recorded() {
            fill_in(histogram, value.value_iterated_to(), value.count_at_value(), interval_ns.max(1));
        }
        corrected
    }

    /// The underlying histogram, if anything was counted.
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        self.histogram.as_ref().filter(|histogram| !histogram.is_empty())
    }

    /// Builds a distribution from a histogram, and the extremes that a histogram does not hold.
    pub(crate) fn with_extremes(source: &Histogram<u64>, above_range: u64, max_ns: u64) -> Self {
        Self { above_range, max_ns, ..Self::from_histogram(source) }
    }

    /// Builds a distribution from a histogram that was read from a file.
    pub(crate) fn from_histogram(source: &Histogram<u64>) -> Self {
        let mut distribution = Self::default();
        for value in source.iter_recorded() {
            distribution.record_n(value.value_iterated_to(), value.count_at_value());
        }
        distribution
    }
}

/// Adds `count` latencies at each of `latency - interval`, `latency - 2 interval` and so on, down to
/// `interval`.
///
/// Goes by buckets, not by latencies: a stall of seconds at a million messages per second stands for millions
/// of them.
fn fill_in(histogram: &mut Histogram<u64>, latency_ns: u64, count: u64, interval_ns: u64) {
    let mut low = interval_ns;
    while low < latency_ns {
        let high = histogram.highest_equivalent(low).min(latency_ns - 1);
        let steps_above = (latency_ns - high - 1) / interval_ns;
        let steps = (latency_ns - low) / interval_ns - steps_above;
        if steps > 0 {
            histogram.saturating_record_n(low, steps.saturating_mul(count));
        }
        // Skips buckets between two steps.
        low = latency_ns - steps_above * interval_ns;
    }
}

#[expect(
    clippy::unwrap_used,
    reason = "bounds and digits are constants that the constructor takes; tests run it"
)]
fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_exact_maximum() {
        let mut distribution = Distribution::default();
        for latency in 1..=1000 {
            distribution.record(latency * 1000);
        }
        assert_eq!(distribution.count(), 1000);
        assert_eq!(distribution.max_ns(), 1_000_000);
        assert!((499_500..=500_500).contains(&distribution.at_quantile_ns(0.5)));
        assert_eq!(distribution.at_quantile_ns(1.0), 1_000_000);
    }

    #[test]
    fn latencies_have_ranks() {
        let mut distribution = Distribution::default();
        (1..=1000).for_each(|latency| distribution.record(latency));
        assert_eq!(distribution.between_ranks_ns(1, 1000), (1, 1000));
        assert_eq!(distribution.between_ranks_ns(470, 532), (470, 532));
        assert_eq!(distribution.between_ranks_ns(5, 5000), (5, 1000));
        distribution.record(u64::MAX);
        assert_eq!(distribution.between_ranks_ns(1000, 1001), (1000, u64::MAX));
        assert_eq!(Distribution::default().between_ranks_ns(1, 2), (0, 0));
    }

    #[test]
    fn what_does_not_fit_is_counted_and_told() {
        let mut distribution = Distribution::default();
        distribution.record(LATENCY_NS_MAX);
        distribution.record(LATENCY_NS_MAX + 1);
        distribution.record(u64::MAX);
        distribution.record(0);
        assert_eq!((distribution.count(), distribution.above_range()), (4, 2));
        assert_eq!(distribution.max_ns(), u64::MAX);
        assert_eq!(distribution.at_quantile_ns(1.0), u64::MAX);
    }

    #[test]
    fn adding_is_the_same_as_counting_together() {
        let [mut one, mut two, mut both] = std::array::from_fn(|_| Distribution::default());
        for n in 0..10_000_u64 {
            let latency = n * n * 37 % 400_000_000_007;
            if n % 3 == 0 { &mut one } else { &mut two }.record(latency);
            both.record(latency);
        }
        one.add(&two);
        assert_eq!(one.histogram(), both.histogram());
        assert_eq!((one.above_range(), one.max_ns()), (both.above_range(), both.max_ns()));
        one.clear();
        assert_eq!((one.count(), one.max_ns(), one.above_range()), (0, 0, 0));
    }

    #[test]
    fn correction_of_long_stalls_takes_no_time() {
        let mut raw = Distribution::default();
        (1..2000).for_each(|n| raw.record(n * 100_000_000));
        let corrected = raw.corrected(100);
        // 200 s at one per 100 ns: 2,000 million for the longest alone.
        assert!(corrected.count() > 1_000_000_000_000);
    }

    #[test]
    fn correction_fills_in_what_was_omitted() {
        // 100 s at 100/s with 1 ms, then one request that takes 100 s: HdrHistogram's own example.
        let mut raw = Distribution::default();
        raw.record_n(1_000_000, 10_000);
        raw.record(100_000_000_000);
        let corrected = raw.corrected(10_000_000);
        assert!(corrected.count().abs_diff(20_000) <= 20, "{}", corrected.count());
        // The library's own correction, step by step, gives the same.
        assert_eq!(corrected.histogram().cloned(), raw.histogram().map(|raw| raw.clone_correct(10_000_000)));
        let p75 = corrected.at_quantile_ns(0.75);
        assert!(p75.abs_diff(50_000_000_000) < 70_000_000, "{p75}");
    }
}
