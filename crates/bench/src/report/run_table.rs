//! The outcome of each run: its verdict, its latencies, losses, errors, and breaks.

use std::fmt::Write as _;

use super::axis::grouped;
use super::facts::readable;
use super::figures::milliseconds;
use super::page::{badge, scrolled};
use super::section::{Round, Section, Series};
use super::{Told, escape};
use crate::verdict::percentile;

/// Percentiles shown for a single run.
const OF_RUNS: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// A number of messages, or of events on connections.
struct Column {
    name: &'static str,
    /// What it means; empty if the name is clear.
    meaning: &'static str,
    /// Whether it is shown even if it is 0 everywhere.
    always: bool,
    value: fn(&Round) -> u64,
}

/// What can happen to messages and connections.
const COLUMNS: [Column; 17] = [
    Column { name: "due", meaning: "", always: true, value: |round| round.count("due") },
    Column { name: "sent", meaning: "", always: true, value: |round| round.count("sent") },
    Column { name: "acknowledged", meaning: "", always: false, value: |round| round.count("acknowledged") },
    Column { name: "received", meaning: "", always: false, value: |round| round.count("received") },
    Column {
        name: "lost",
        meaning: "sent, and not received before waiting ended",
        always: true,
        value: |round| round.count("lost"),
    },
    Column {
        name: "errors",
        meaning: "refused by the system, or failed with a connection",
        always: true,
        value: errors,
    },
    Column { name: "given up", meaning: "nothing came in time", always: true, value: timeouts },
    Column {
        name: "cut off",
        meaning: "in flight when a connection broke, and never received",
        always: true,
        value: |round| round.count("cut_off"),
    },
    Column {
        name: "breaks",
        meaning: "how often connections broke",
        always: true,
        value: |round| round.count("broken_connections"),
    },
    Column {
        name: "reconnections",
        meaning: "how often they were reconnected",
        always: true,
        value: |round| round.count("reconnected"),
    },
    Column {
        name: "never sent",
        meaning: "due, and not sent before the run or their timeout ended",
        always: false,
        value: |round| round.count("unsent"),
    },
    Column {
        name: "duplicates",
        meaning: "received again",
        always: false,
        value: |round| round.count("duplicates"),
    },
    Column {
        name: "reordered",
        meaning: "received after a later one",
        always: false,
        value: |round| round.count("reordered"),
    },
    Column {
        name: "damaged",
        meaning: "with a wrong checksum or length",
        always: false,
        value: |round| round.count("corrupt"),
    },
    Column {
        name: "foreign",
        meaning: "of another run",
        always: false,
        value: |round| round.count("foreign"),
    },
    Column {
        name: "redelivered",
        meaning: "in flight at a break, and received afterwards",
        always: false,
        value: |round| round.count("redelivered"),
    },
    Column {
        name: "before due",
        meaning: "received before they were due, by the clocks of two machines",
        always: false,
        value: |round| round.count("negative"),
    },
];

// A message that awaits both ends twice.
fn errors(round: &Round) -> u64 {
    round.total.receipt.error.count().max(round.total.acknowledgement.error.count())
}

fn timeouts(round: &Round) -> u64 {
    round.total.receipt.timeout.count().max(round.total.acknowledgement.timeout.count())
}

/// The table of runs: one row each, with verdict, latencies, and what happened to its messages.
pub(super) fn runs(section: &Section) -> String {
    let rounds = || section.series.iter().flat_map(|series| &series.rounds);
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| column.always || rounds().any(|round| (column.value)(round) > 0))
        .collect();
    let mut text = String::from(
        "<table class=\"numbers runs\"><thead><tr><th scope=\"col\">run</th><th scope=\"col\">began, UTC</th><th scope=\"col\">verdict</th>",
    );
    for quantile in OF_RUNS {
        let _ = write!(text, "<th scope=\"col\">{}, ms</th>", percentile(quantile));
    }
    for column in &columns {
        let _ = write!(text, "<th scope=\"col\">{}</th>", column.name);
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for series in &section.series {
        for round in &series.rounds {
            text.push_str(&run(series, round, &columns));
        }
    }
    text.push_str("</tbody></table>\n");
    scrolled(&text) + &meanings(&columns)
}

fn run(series: &Series, round: &Round, columns: &[&Column]) -> String {
    let name = if round.name == series.label {
        series.label.clone()
    } else {
        format!("{}, {}", series.label, round.name)
    };
    let began = round.result["started_at"].as_str().and_then(readable);
    let began = began.map_or_else(|| "not recorded".to_owned(), |(day, time)| format!("{day} {time}"));
    let mut text = format!(
        "<tr><th scope=\"row\">{}</th><td class=\"word\">{}</td><td class=\"word\">{}</td>",
        escape(&name),
        escape(&began),
        badge(round.verdict().kind(), round.verdict().kind().word())
    );
    let felt = series.felt().map(|kind| (kind, kind.outcomes(&round.total).together()));
    for quantile in OF_RUNS {
        let told = felt
            .as_ref()
            .filter(|(_, all)| all.count() > 0)
            .map_or(Told::Nothing, |(kind, all)| series.described(kind.name(), all).told(quantile));
        let _ = write!(text, "<td>{}</td>", escape(&told.text(milliseconds)));
    }
    for column in columns {
        let count = (column.value)(round);
        let odd = if count > 0 && !column.meaning.is_empty() { " class=\"odd\"" } else { "" };
        let _ = write!(text, "<td{odd}>{}</td>", grouped(count));
    }
    text.push_str("</tr>\n");
    text
}

fn meanings(columns: &[&Column]) -> String {
    let named = columns.iter().filter(|column| !column.meaning.is_empty());
    let texts: Vec<String> =
        named.map(|column| format!("<b>{}</b>: {}", column.name, column.meaning)).collect();
    format!("<p class=\"remark\">{}.</p>\n", texts.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::section_tests::{every_end, section};

    #[test]
    fn what_went_wrong_has_columns() {
        let counts = json!({"due": 2400, "sent": 2400, "received": 2368, "lost": 32, "reconnected": 1, "duplicates": 2});
        let late = json!({"valid": false, "counts": counts, "started_at": "2026-11-24T09:08:07.250Z"});
        let text = runs(&section(&[late], &every_end()));
        for words in [
            "<th scope=\"row\">s0, round-1</th><td class=\"word\">2026-11-24 09:08:07</td>",
            ">INVALID</span></td>",
            "<th scope=\"col\">lost</th><th scope=\"col\">errors</th><th scope=\"col\">given up</th><th scope=\"col\">cut off</th>",
            "<td>2,368</td><td class=\"odd\">32</td><td class=\"odd\">4</td><td class=\"odd\">10</td><td>0</td>",
            "<th scope=\"col\">duplicates</th>",
            "<b>lost</b>: sent, and not received before waiting ended",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // A column that is 0 everywhere is left out.
        assert!(!text.contains("reordered") && !text.contains("acknowledged</th>"), "{text}");
    }
}
