//! What went wrong in a run, as columns in every table: a percentile without them is half of the truth.

use serde::Serialize;
use serde_json::Value;

/// Numbers of messages, and of breaks, in one run or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Mishaps {
    /// Sent, and never received.
    pub lost: u64,
    /// Rejected, answered wrongly, or in flight when the connection broke.
    pub errors: u64,
    /// Not answered in time.
    pub timeouts: u64,
    /// Never sent.
    pub unsent: u64,
    /// In flight when the connection broke, and never received.
    pub cut_off: u64,
    /// How often connections broke.
    pub broken_connections: u64,
    /// How often they were reconnected.
    pub reconnected: u64,
    /// Duplicates, reordered, corrupt, from other runs, unknown, or received before they were due.
    pub odd: u64,
}

impl Mishaps {
    /// Headings of the columns.
    pub(crate) const COLUMNS: [&str; 7] =
        ["LOST", "ERRORS", "TIMEOUTS", "UNSENT", "CUT OFF", "BROKEN", "ODD"];

    /// What the columns mean, for the reader of a table.
    pub(crate) const LEGEND: &str = "errors and timeouts are in no percentile; cut off: lost when a connection broke; broken: connections (and how many \
        came back); odd: duplicates, reordered, corrupt, of other runs, unknown, or before they were due";

    /// Reads them from a run's `result.json`.
    pub(crate) fn of_result(result: &Value) -> Self {
        let count = |key: &str| result["counts"][key].as_u64().unwrap_or(0);
        // A message that is both acknowledged and received fails twice, but is one message.
        let ended = |how: &str| {
            let of = |what: &str| result["latency"][format!("{what}-{how}")]["count"].as_u64().unwrap_or(0);
            of("acknowledgement").max(of("receipt"))
        };
        let odd = ["duplicates", "reordered", "corrupt", "foreign", "unknown", "negative"];
        Self {
            lost: count("lost"),
            errors: ended("error"),
            timeouts: ended("timeout"),
            unsent: count("unsent"),
            cut_off: count("cut_off"),
            broken_connections: count("broken_connections"),
            reconnected: count("reconnected"),
            odd: odd.into_iter().map(count).sum(),
        }
    }

    /// Adds another run's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.unsent += other.unsent;
        self.cut_off += other.cut_off;
        self.broken_connections += other.broken_connections;
        self.reconnected += other.reconnected;
        self.odd += other.odd;
    }

    /// The cells below [`Mishaps::COLUMNS`].
    pub(crate) fn cells(&self) -> [String; 7] {
        let broken = match self.broken_connections {
            0 => "0".to_owned(),
            times => format!("{times} ({} back)", self.reconnected),
        };
        let [lost, errors, timeouts, unsent, cut_off, odd] =
            [self.lost, self.errors, self.timeouts, self.unsent, self.cut_off, self.odd]
                .map(|n| n.to_string());
        [lost, errors, timeouts, unsent, cut_off, broken, odd]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_that_failed_counts_once() {
        let result = json!({
            "counts": {"lost": 2, "cut_off": 30, "broken_connections": 3, "reconnected": 2, "duplicates": 4, "negative": 1, "unsent": 5},
            "latency": {"acknowledgement-error": {"count": 32}, "receipt-error": {"count": 31}, "receipt-timeout": {"count": 7}},
        });
        let mut found = Mishaps::of_result(&result);
        assert_eq!(found.cells(), ["2", "32", "7", "5", "30", "3 (2 back)", "5"]);
        found.add(&Mishaps { lost: 1, ..Mishaps::default() });
        assert_eq!(found.lost, 3);
        assert_eq!(Mishaps::of_result(&json!({})).cells(), ["0"; 7]);
    }
}
