//! The CTRL+Z test: what a distribution must look like if the system stood still for a known time.
//!
//! A system answers at once, except for a stall of s seconds out of d. Requests that come during the stall
//! wait for its end, so their latencies are spread evenly from s down to 0. The share s/d of all latencies is
//! thus a straight line, and every percentile is known. A tool that shows less has stopped sending during the
//! stall. This module runs no load.

use serde::Serialize;

/// A stall of known length within a run of known length, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Stall {
    /// Length of the stall.
    pub stalled_seconds: f64,
    /// Length of the run, including the stall.
    pub run_seconds: f64,
    /// Latency outside the stall.
    pub service_seconds: f64,
}

impl Stall {
    /// The latency at `quantile`, in seconds.
    pub(crate) fn expected_seconds(&self, quantile: f64) -> f64 {
        let share = self.stalled_seconds / self.run_seconds;
        if quantile <= 1.0 - share {
            return self.service_seconds;
        }
        let waited = 1.0 - (1.0 - quantile) / share;
        self.service_seconds + self.stalled_seconds * waited
    }
}

/// A percentile of a distribution, next to its expected value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Check {
    /// The percentile, as a share.
    pub quantile: f64,
    /// The expected latency, in seconds.
    pub expected_seconds: f64,
    /// The latency found, in seconds.
    pub found_seconds: f64,
    /// Whether the two agree.
    pub agrees: bool,
}

/// The verdict on a distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Judgement {
    /// The checks of all percentiles.
    pub checks: Vec<Check>,
    /// Whether all of them agree.
    pub right: bool,
    /// Whether the distribution shows far less of the stall than it must: coordinated omission.
    pub omits: bool,
}

/// Percentiles to compare. The highest ones depend on single messages, so they need runs with enough of them.
pub(crate) const CHECKED: [f64; 6] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/// Compares a distribution, given as latency in seconds by share, with its expected values.
///
/// Values agree if they differ by at most `tolerance` as a share, or by `slack_seconds`.
pub(crate) fn judge(
    stall: &Stall,
    found_seconds: impl Fn(f64) -> f64,
    tolerance: f64,
    slack_seconds: f64,
) -> Judgement {
    let checks: Vec<Check> = CHECKED
        .iter()
        .map(|quantile| {
            let (expected, found) = (stall.expected_seconds(*quantile), found_seconds(*quantile));
            let agrees = (found - expected).abs() <= (expected * tolerance).max(slack_seconds);
            Check { quantile: *quantile, expected_seconds: expected, found_seconds: found, agrees }
        })
        .collect();
    // Within the stall's share all latencies must be present. Omission leaves most of them at the service
    // time.
    let omits = checks.iter().any(|check| {
        check.expected_seconds > 2.0 * slack_seconds && check.found_seconds < check.expected_seconds / 2.0
    });
    Judgement { right: checks.iter().all(|check| check.agrees), omits, checks }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CTRL_Z: Stall = Stall { stalled_seconds: 100.0, run_seconds: 200.0, service_seconds: 0.001 };

    /// What a tool shows that sends one request at a time and counts each once: one request met the stall.
    fn omitting_seconds(stall: &Stall, quantile: f64, per_second: f64) -> f64 {
        let requests = (stall.run_seconds - stall.stalled_seconds) * per_second + 1.0;
        if quantile > 1.0 - 1.0 / requests {
            stall.service_seconds + stall.stalled_seconds
        } else {
            stall.service_seconds
        }
    }

    #[test]
    fn the_known_example() {
        for (quantile, seconds) in [(0.5, 0.001), (0.75, 50.0), (0.9999, 100.0)] {
            assert!((CTRL_Z.expected_seconds(quantile) - seconds).abs() < 0.03, "{quantile}");
        }
        assert_eq!(omitting_seconds(&CTRL_Z, 0.9999, 100.0), 0.001);
    }

    #[test]
    fn who_omits_is_told() {
        let honest = judge(&CTRL_Z, |quantile| CTRL_Z.expected_seconds(quantile), 0.01, 0.01);
        assert!(honest.right && !honest.omits);
        let usual = judge(&CTRL_Z, |quantile| omitting_seconds(&CTRL_Z, quantile, 100.0), 0.01, 0.01);
        assert!(!usual.right && usual.omits);
        let slow = judge(&CTRL_Z, |quantile| 2.0 * CTRL_Z.expected_seconds(quantile), 0.01, 0.01);
        assert!(!slow.right && !slow.omits);
    }
}
