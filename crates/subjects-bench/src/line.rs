//! The output of a measurement: one JSON object on one line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The part of the benchmark.
    pub part: String,
    /// The work done: equal for systems that may be compared.
    pub load: String,
    /// The algorithm, and the way of asking it if there are several.
    pub system: String,
    /// The figures. Names end with their unit.
    pub figures: BTreeMap<String, f64>,
    /// Checksums of the texts, the number of subscriptions found for a fixed list of subjects, and the sum of
    /// their values. They must be equal for every system, or the comparison is void.
    pub check: String,
}

impl Line {
    /// A measurement without figures.
    #[must_use]
    pub(crate) fn new(part: &str, load: &str, system: &str, check: &str) -> Self {
        Self {
            part: part.into(),
            load: load.into(),
            system: system.into(),
            check: check.into(),
            ..Self::default()
        }
    }

    /// Adds a figure.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: f64) -> Self {
        self.figures.insert(name.to_owned(), value);
        self
    }

    /// Adds the time of one lookup and the lookups per second.
    #[must_use]
    pub(crate) fn rate(self, match_ns: f64) -> Self {
        self.with("match_ns", match_ns).with("matches_per_s", 1e9 / match_ns)
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        println!("{}", serde_json::to_string(self).expect("figures have names"));
    }
}

/// `100000` as `100k`.
#[must_use]
pub(crate) fn short(count: usize) -> String {
    match count {
        _ if count >= 1_000_000 && count.is_multiple_of(100_000) => format!("{}M", count as f64 / 1e6),
        _ if count >= 1_000 && count.is_multiple_of(100) => format!("{}k", count as f64 / 1e3),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        assert_eq!(
            [1_000, 100_000, 1_000_000, 1_500_000, 1_234].map(short),
            ["1k", "100k", "1M", "1.5M", "1234"]
        );
    }
}
