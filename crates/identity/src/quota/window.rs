//! The rate at which something passes, as Kafka measures it for byte and request quotas.

/// Number of samples in the window: 10 whole ones, and the current one (Kafka: `quota.window.num`).
pub const SAMPLES: usize = 11;

/// Length of a sample, in milliseconds (Kafka: `quota.window.size.seconds`).
pub const SAMPLE_MS: u64 = 1000;

/// The longest time in an answer: the field has 31 bits. In milliseconds.
pub(crate) const THROTTLE_MS_MAX: u32 = i32::MAX as u32;

/// The longest time that a request or connection quota holds up a client, in milliseconds: one sample.
pub const REQUEST_THROTTLE_MS_MAX: u32 = SAMPLE_MS as u32;

/// A sample that had its last event this long ago counts no more.
const WINDOW_MS: u64 = SAMPLES as u64 * SAMPLE_MS;

/// Units that passed in a time. It starts with the first event, not at a fixed time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    start_ms: u64,
    last_event_ms: u64,
    units: f64,
}

impl Sample {
    fn new(now_ms: u64) -> Self {
        Self { start_ms: now_ms, last_event_ms: now_ms, units: 0.0 }
    }
}

/// The rate over the last 11 seconds. In the first seconds, and after a pause, the seconds without events
/// count too, so that the first request is not a violation.
///
/// It has no clock: `now_ms` is the time since a moment that the owner chooses. A time before the last one
/// counts as that. It takes about 400 bytes.
#[derive(Clone, Debug, Default)]
pub struct RateWindow {
    /// A ring, one longer than the window: a sample that began before the window may reach into it.
    samples: [Option<Sample>; SAMPLES + 1],
    current: usize,
}

impl RateWindow {
    /// Counts units. For `request_percentage` they may be fractions.
    /// What is no finite number does not count: it would be in all sums for good.
    pub fn record(&mut self, units: f64, now_ms: u64) {
        if !units.is_finite() {
            return;
        }
        let current = self.samples[self.current].get_or_insert_with(|| Sample::new(now_ms));
        if now_ms.saturating_sub(current.start_ms) >= SAMPLE_MS {
            self.current = (self.current + 1) % self.samples.len();
            self.samples[self.current] = Some(Sample::new(now_ms));
        }
        if let Some(current) = &mut self.samples[self.current] {
            current.units += units;
            current.last_event_ms = current.last_event_ms.max(now_ms);
        }
    }

    /// Takes back what was recorded just now: a fetch that violates its quota is answered empty, and does not
    /// count.
    pub fn take_back(&mut self, units: f64, now_ms: u64) {
        self.record(-units, now_ms);
    }

    /// Returns the rate, in units per second.
    pub fn rate(&mut self, now_ms: u64) -> f64 {
        let window_ms = self.window_ms(now_ms);
        let units: f64 = self.samples.iter().flatten().map(|sample| sample.units).sum();
        units / (window_ms as f64 / 1000.0)
    }

    /// Returns how long to hold the client up, so that the rate sinks to `limit`, in milliseconds. Zero if
    /// the rate does not exceed it. Request and connection quotas hold up for [`REQUEST_THROTTLE_MS_MAX`] at
    /// most.
    ///
    /// A limit that is not positive stops everything.
    pub fn throttle_ms(&mut self, limit: f64, now_ms: u64) -> u32 {
        let (limit, rate) = (limit.max(f64::MIN_POSITIVE), self.rate(now_ms));
        if rate <= limit {
            return 0;
        }
        let throttle_ms = (rate - limit) / limit * self.window_ms(now_ms) as f64;
        (throttle_ms.round() as u32).min(THROTTLE_MS_MAX)
    }

    /// Returns the most units that can pass at once without a violation. A fetch must not be larger, or a
    /// quota below one batch would starve its client for ever (KAFKA-9677).
    pub fn units_max(limit: f64) -> f64 {
        limit * (SAMPLES as u64 - 1) as f64 * (SAMPLE_MS / 1000) as f64
    }

    /// Forgets samples that are too old, and returns the length of the window: from the oldest sample on, and
    /// at least 10 samples.
    fn window_ms(&mut self, now_ms: u64) -> u64 {
        for sample in self.samples.iter_mut().flatten() {
            if now_ms.saturating_sub(sample.last_event_ms) >= WINDOW_MS {
                *sample = Sample::new(now_ms);
            }
        }
        let oldest_ms = self.samples.iter().flatten().map(|sample| sample.start_ms).min().unwrap_or(now_ms);
        let elapsed_ms = now_ms.saturating_sub(oldest_ms);
        let missing = (SAMPLES as u64 - 1).saturating_sub(elapsed_ms / SAMPLE_MS);
        elapsed_ms + missing * SAMPLE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_000_000;

    #[test]
    fn the_first_units_count_over_ten_seconds() {
        let mut window = RateWindow::default();
        assert_eq!((window.rate(START_MS), window.throttle_ms(1.0, START_MS)), (0.0, 0));
        window.record(1000.0, START_MS);
        assert_eq!(window.rate(START_MS), 100.0);
        assert_eq!(window.throttle_ms(100.0, START_MS), 0);
        // (100 - 50) / 50 x 10 s.
        assert_eq!(window.throttle_ms(50.0, START_MS), 10_000);
        assert_eq!(window.rate(START_MS + 500), 1000.0 / 10.5);
        assert_eq!(window.throttle_ms(50.0, START_MS + 500), 9_500);
    }

    /// After a first burst, which fills the window.
    #[test]
    fn a_client_that_waits_as_told_gets_its_limit_with_small_and_with_large_pieces() {
        for piece in [10.0, 100.0, 1000.0, 9000.0] {
            let (mut window, mut now_ms) = (RateWindow::default(), START_MS);
            let (mut units, mut units_at_20_s) = (0.0, 0.0);
            while now_ms < START_MS + 320_000 {
                if now_ms < START_MS + 20_000 {
                    units_at_20_s = units;
                }
                window.record(piece, now_ms);
                units += piece;
                now_ms += 1 + u64::from(window.throttle_ms(1000.0, now_ms));
            }
            let rate = (units - units_at_20_s) / 300.0;
            // The formula lets a little more pass if pieces are large.
            assert!((900.0..=1150.0).contains(&rate), "{piece}: {rate}");
        }
    }

    #[test]
    fn a_steady_rate_is_measured_as_it_is() {
        let mut window = RateWindow::default();
        for step in 0..200 {
            window.record(10.0, START_MS + step * 100);
        }
        let rate = window.rate(START_MS + 200 * 100);
        assert!((99.0..=110.0).contains(&rate), "{rate}");
        assert_eq!(window.throttle_ms(110.0, START_MS + 20_000), 0);
    }

    #[test]
    fn what_was_long_ago_counts_no_more() {
        let mut window = RateWindow::default();
        window.record(1e9, START_MS);
        assert!(window.rate(START_MS + 10_999) > 0.0);
        assert_eq!(window.rate(START_MS + 11_000), 0.0);
        assert_eq!(window.throttle_ms(1.0, START_MS + 11_000), 0);
    }

    #[test]
    fn a_sample_that_began_before_the_window_counts_while_its_last_event_is_within() {
        let mut window = RateWindow::default();
        window.record(1.0, START_MS);
        window.record(1.0, START_MS + 999);
        for second in 1..=11 {
            window.record(1.0, START_MS + second * 1000);
        }
        assert_eq!(window.rate(START_MS + 11_000), 13.0 / 11.0);
        assert_eq!(window.rate(START_MS + 11_999), 11.0 / 10.999);
    }

    #[test]
    fn units_that_were_taken_back_never_passed() {
        let mut window = RateWindow::default();
        window.record(300.0, START_MS);
        window.record(50_000.0, START_MS + 10);
        window.take_back(50_000.0, START_MS + 10);
        assert_eq!(window.rate(START_MS + 10), 300.0 / 10.01);
    }

    #[test]
    fn the_largest_piece_is_no_violation_and_a_larger_one_is() {
        for limit in [1.0, 1000.0, 1e9] {
            let throttle_ms = |units| {
                let mut window = RateWindow::default();
                window.record(units, START_MS);
                window.throttle_ms(limit, START_MS)
            };
            assert_eq!(throttle_ms(RateWindow::units_max(limit)), 0);
            assert!(throttle_ms(RateWindow::units_max(limit) * 1.01) > 0);
        }
    }

    #[test]
    fn absurd_limits_and_times_are_bounded() {
        for limit in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE] {
            let mut window = RateWindow::default();
            window.record(f64::MAX, START_MS);
            assert_eq!(window.throttle_ms(limit, START_MS), THROTTLE_MS_MAX);
        }
        let mut window = RateWindow::default();
        for now_ms in [u64::MAX, 0, START_MS, u64::MAX] {
            window.record(1.0, now_ms);
            assert!(window.rate(now_ms).is_finite() && window.throttle_ms(1e9, now_ms) == 0);
        }
        for units in [f64::NAN, f64::INFINITY] {
            window.record(units, u64::MAX);
            window.take_back(units, u64::MAX);
        }
        assert!(window.rate(u64::MAX).is_finite());
    }
}
