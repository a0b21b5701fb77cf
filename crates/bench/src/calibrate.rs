//! The CTRL+Z test: what a distribution must look like when the system stood still for a known time.
//!
//! A system that answers at once, and stalls for s of d seconds, makes those who come during the stall wait for its end: their
//! latencies spread evenly from s down to 0. So the share s/d of all latencies is a straight line, and every percentile is known.
//! A tool that shows less has stopped asking while the system was away. Nothing here runs a load.

use serde::Serialize;

/// A stall of known length within a run of known length, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Stall {
    /// Time without answers.
    pub stalled_seconds: f64,
    /// Length of the run, the stall included.
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

/// A percentile of a distribution beside what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Check {
    /// The share of all.
    pub quantile: f64,
    /// What it must be, in seconds.
    pub expected_seconds: f64,
    /// What was found, in seconds.
    pub found_seconds: f64,
    /// Whether the two agree.
    pub agrees: bool,
}

/// The judgement about a distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Judgement {
    /// Percentile by percentile.
    pub checks: Vec<Check>,
    /// Whether all agree.
    pub right: bool,
    /// Whether the stall shows far less than it must: coordinated omission.
    pub omits: bool,
}

/// Percentiles that are compared. The highest depends on single messages, so it is left to those with enough of them.
pub(crate) const CHECKED: [f64; 6] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/// Compares a distribution, given as latency in seconds by share, with what it must be.
///
/// They agree within `tolerance` as a share, or `slack_seconds`.
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
    // Within the stall's share every latency must be there; omission leaves most of it at the service time.
    let omits = checks.iter().any(|check| {
        check.expected_seconds > 2.0 * slack_seconds && check.found_seconds < check.expected_seconds / 2.0
    });
    Judgement { right: checks.iter().all(|check| check.agrees), omits, checks }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CTRL_Z: Stall = Stall { stalled_seconds: 100.0, run_seconds: 200.0, service_seconds: 0.001 };

    /// What a tool shows that sends one request at a time and counts each once: one request saw the stall.
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
