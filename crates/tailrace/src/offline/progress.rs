//! Progress of reading a data folder, on standard error; and its rate limit.

use std::time::{Duration, Instant};

use tailrace_cli::failure::tell;
use tailrace_cli::text::units;
use tailrace_log::{LogError, Pace};

/// Time between two lines, and before the first one.
const INTERVAL: Duration = Duration::from_secs(5);

/// Longest pause after a single piece, whatever the rate.
const COST_MAX: Duration = Duration::from_secs(60);

/// Reports progress every few seconds, and limits the rate.
pub(super) struct Progress {
    total: u64,
    done: u64,
    began: Instant,
    said: Instant,
    /// Bytes per second.
    rate: Option<f64>,
    next: Instant,
}

impl Progress {
    /// Starts a progress of about `total` bytes.
    pub(super) fn new(total: u64, rate: Option<f64>) -> Self {
        let now = Instant::now();
        Self { total, done: 0, began: now, said: now, rate, next: now }
    }

    fn line(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        let rate = self.done as f64 / seconds.max(0.001);
        let left = self.total.saturating_sub(self.done) as f64 / rate.max(1.0);
        format!(
            "read {} of {}, {}/s, {} to go",
            units::bytes(self.done as f64),
            units::bytes(self.total as f64),
            units::bytes(rate),
            units::duration(left)
        )
    }
}

impl Pace for Progress {
    fn spend(&mut self, bytes: u64) -> Result<(), LogError> {
        self.done += bytes;
        if self.said.elapsed() >= INTERVAL {
            self.said = Instant::now();
            tell(&self.line());
        }
        if let Some(rate) = self.rate {
            let cost = Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(COST_MAX).min(COST_MAX);
            self.next = self.next.max(Instant::now()) + cost;
            std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_much_is_left() {
        let mut progress = Progress::new(100_000_000, None);
        progress.began =
            Instant::now().checked_sub(Duration::from_secs(10)).expect("a clock that has run for a while");
        progress.spend(50_000_000).expect("nothing stops it");
        let line = progress.line();
        assert!(
            line.starts_with("read 50") && line.contains(" of 100") && line.ends_with(" to go"),
            "{line}"
        );
    }

    #[test]
    fn a_rate_is_kept() {
        let mut progress = Progress::new(1000, Some(10_000.0));
        let began = Instant::now();
        (0..10).for_each(|_| progress.spend(100).expect("nothing stops it"));
        assert!(began.elapsed() >= Duration::from_millis(99), "{:?}", began.elapsed());
    }
}
