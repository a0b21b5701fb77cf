//! Invented runs, for tests of reports.

use std::time::Duration;

use serde_json::Value;

use super::{ResourceSample, Resources, Round, Section, Series};
use crate::recorder::Distribution;
use crate::recorder::interval_log::LoggedInterval;

/// A second in which this many messages ended, each with this latency.
pub(super) fn interval(second: u64, tag: &str, latency_ns: u64, count: u64) -> LoggedInterval {
    let mut distribution = Distribution::default();
    distribution.record_n(latency_ns, count);
    let (begin, length) = (Duration::from_secs(second), Duration::from_secs(1));
    LoggedInterval { tag: tag.to_owned(), begin, length, distribution }
}

pub(super) fn round(result: &Value, intervals: Vec<LoggedInterval>) -> Round {
    let mut round = Round::new("round-1", result.to_string()).unwrap();
    intervals.iter().for_each(|interval| round.add(interval));
    round
}

/// A series per result, each with one round of these intervals.
pub(super) fn section(results: &[Value], intervals: &[LoggedInterval]) -> Section {
    let series = results.iter().enumerate().map(|(number, result)| Series {
        label: format!("s{number}"),
        rounds: vec![round(result, intervals.to_vec())],
    });
    Section { series: series.collect(), ..Section::default() }
}

/// Messages that ended in each possible way.
pub(super) fn every_end() -> Vec<LoggedInterval> {
    const MS: u64 = 1_000_000;
    vec![
        interval(0, "receipt", MS, 990),
        interval(1, "receipt-timeout", 9000 * MS, 10),
        interval(0, "acknowledgement-error", MS, 4),
        interval(0, "lateness", 5000, 1000),
        interval(0, "held", 5000, 3),
    ]
}

/// Samples of a server, a generator and two agents.
pub(super) fn resources() -> Resources {
    let sample = |second: f64| ResourceSample {
        second,
        cpu_seconds: second * 0.5,
        resident_bytes: 3 << 20,
        voluntary_switches: (second * 100.0) as u64,
        involuntary_switches: (second * 20.0) as u64,
        read_bytes: (second * 4e6) as u64,
        ..ResourceSample::default()
    };
    Resources {
        server: vec![sample(0.0), sample(1.0), sample(3.0)],
        generator: vec![sample(0.0), sample(1.0)],
        agents: vec![
            ("h:1".to_owned(), vec![sample(0.0), sample(1.0)]),
            ("h:2".to_owned(), vec![sample(0.5)]),
        ],
    }
}
