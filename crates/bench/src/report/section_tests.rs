//! Runs that were never run, for the tests of what is shown of them.

use std::time::Duration;

use serde_json::Value;

use super::Round;
use crate::recorder::Distribution;
use crate::recorder::interval_log::LoggedInterval;

/// A second in which so many messages ended, each with this latency.
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
