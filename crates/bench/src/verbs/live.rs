//! The progress line of a run.

use std::io::Write as _;
use std::time::Duration;

use tailrace_cli::text::units;

use crate::engine::Interval;
use crate::recorder::{Distribution, Outcomes, Recorder, confidence};
use crate::report::milliseconds;

#[derive(Debug)]
pub(super) struct Live {
    shown: bool,
    whole: Duration,
    line_is_there: bool,
}

impl Live {
    /// Creates it; `whole` is the planned length of the run.
    pub(super) fn new(shown: bool, whole: Duration) -> Self {
        Self { shown, whole, line_is_there: false }
    }

    pub(super) fn show(&mut self, interval: &Interval<'_>) {
        if !self.shown {
            return;
        }
        let done = Duration::from_nanos(interval.begin_ns + interval.length_ns);
        let left = self.whole.saturating_sub(done).as_secs();
        let counts = interval.recorder.counts;
        let rate = units::count(counts.sent as f64 * 1e9 / interval.length_ns as f64);
        let _ = write!(
            std::io::stderr(),
            "\r{} s, {left} s left  {rate}/s  {} in flight  now {}  all {}\x1b[K",
            done.as_secs(),
            interval.in_flight,
            brief(interval.recorder),
            brief(interval.total),
        );
        self.line_is_there = true;
    }

    /// Clears the line before other output.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.line_is_there) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// p50/p99/p99.9/max in milliseconds, as far as the number of messages tells them.
fn brief(recorder: &Recorder) -> String {
    let felt = felt(recorder).together();
    if felt.count() == 0 {
        return "-".to_owned();
    }
    let at = |quantile| {
        let is_told = confidence::is_told(felt.count(), quantile);
        if is_told { milliseconds(felt.at_quantile_ns(quantile)) } else { "-".to_owned() }
    };
    format!("{}/{}/{}/{} ms", at(0.5), at(0.99), at(0.999), milliseconds(felt.max_ns()))
}

/// The latency that a user experiences: the receipt, or the acknowledgement if nothing is received.
pub(super) fn felt(recorder: &Recorder) -> &Outcomes {
    if recorder.receipt.count() > 0 { &recorder.receipt } else { &recorder.acknowledgement }
}

/// The distribution to judge: successes of that latency.
pub(super) fn successes(recorder: &Recorder) -> &Distribution {
    &felt(recorder).success
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_few_messages_tells_little() {
        let mut recorder = Recorder::default();
        assert_eq!(brief(&recorder), "-");
        recorder.receipt.success.record_n(1_000_000, 400);
        let told = brief(&recorder);
        assert!(told.starts_with("1.000/1.000/-/1.000"), "{told}");
    }
}
