//! Two sets of runs, before and after: how much they differ, and whether that is more than noise.
//!
//! One run is one observation. The test is that of [`crate::compare`].

use std::fmt::Write as _;

use serde_json::Value;

use super::page::scrolled;
use super::section::{Kind, Section, Series};
use super::{Note, escape};
use crate::compare::{Comparison, compare};
use crate::verdict::percentile;

/// Percentiles to compare: runs of a few seconds have enough messages beyond them.
const COMPARED: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// Percentiles that the picture mentions.
const SPOKEN: [f64; 2] = [0.5, 0.99];

/// Conditions that must be the same in all runs. Otherwise a difference says nothing about the systems.
const CONDITIONS: [&str; 6] =
    ["mode", "schedule", "rate_per_second", "payload_bytes", "connections", "receipt_is_reply"];

/// Below this a difference is called more than noise.
const P_VALUE_DIFFERENT: f64 = 0.05;

/// One percentile of both sets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) kind: &'static str,
    pub(super) quantile: f64,
    pub(super) found: Comparison,
}

impl Row {
    /// In words, whether it is more than noise.
    pub(super) fn judgement(&self, p_value_least: f64) -> &'static str {
        if self.found.p_value < P_VALUE_DIFFERENT {
            "more than noise"
        } else if p_value_least >= P_VALUE_DIFFERENT {
            "too few runs to tell it from noise"
        } else {
            "no more than noise"
        }
    }
}

/// Two sets of runs, compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    before: String,
    after: String,
    pub(super) runs: (usize, usize),
    pub(super) rows: Vec<Row>,
    /// Why they are not compared; `None` if they are.
    pub(super) refused: Option<String>,
}

impl Difference {
    /// The difference of a section's two series, if they are to be compared.
    pub(super) fn of(section: &Section) -> Option<Self> {
        let [before, after] = section.series.as_slice() else { return None };
        if !section.compared {
            return None;
        }
        let refused = refusal(before, after);
        let kinds = [Kind::Acknowledgement, Kind::Receipt];
        let rows = if refused.is_some() {
            Vec::new()
        } else {
            kinds.into_iter().flat_map(|kind| rows(before, after, kind)).collect()
        };
        let refused =
            refused.or_else(|| rows.is_empty().then(|| "they have no percentile in common".to_owned()));
        let runs = (before.rounds.len(), after.rounds.len());
        Some(Self { before: before.label.clone(), after: after.label.clone(), runs, rows, refused })
    }

    /// The smallest p that this many runs can give.
    pub(super) fn p_value_least(&self) -> f64 {
        Comparison::p_value_least(self.runs.0, self.runs.1)
    }

    /// Sentences under a chart, about the latency that users experience.
    pub(super) fn notes(&self) -> Vec<Note> {
        if let Some(reason) = &self.refused {
            return vec![Note::alarm(format!(
                "{} and {} are not compared: {reason}",
                self.before, self.after
            ))];
        }
        // The receipt is the latency that users experience; it comes last.
        let felt = self.rows.last().map_or("", |row| row.kind);
        let spoken = self.rows.iter().filter(|row| row.kind == felt && SPOKEN.contains(&row.quantile));
        spoken.map(|row| Note::plain(self.sentence(row))).collect()
    }

    /// One row in words.
    pub(super) fn sentence(&self, row: &Row) -> String {
        let (name, found) = (percentile(row.quantile), &row.found);
        format!(
            "{} of {}: {name} is {:.2} times that of {} (p = {:.3}, {} and {} runs): {}.",
            self.after,
            row.kind,
            found.ratio,
            self.before,
            found.p_value,
            self.runs.1,
            self.runs.0,
            row.judgement(self.p_value_least())
        )
    }
}

/// A table of before and after, with the difference and whether it is more than noise. Empty if there is no
/// comparison.
pub(super) fn table(section: &Section) -> String {
    let Some(found) = Difference::of(section) else { return String::new() };
    let mut text = String::from("<h3>The difference</h3>\n");
    for note in found.notes() {
        let class = if note.alarm { " class=\"alarm\"" } else { "" };
        let _ = writeln!(text, "<p{class}>{}</p>", escape(&note.text));
    }
    if found.rows.is_empty() {
        return text;
    }
    let (before, after) = (&section.series[0].label, &section.series[1].label);
    let mut table = format!(
        "<table class=\"numbers\"><thead><tr><th scope=\"col\">milliseconds</th><th scope=\"col\">{}</th><th scope=\"col\">{}</th>\
         <th scope=\"col\">ratio</th><th scope=\"col\">noise of each</th><th scope=\"col\">p</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n",
        escape(before),
        escape(after)
    );
    for row in &found.rows {
        let Comparison { median_a, median_b, spread_a, spread_b, ratio, p_value, ratio_interval } = row.found;
        let around = ratio_interval
            .map_or_else(String::new, |(low, high)| format!("<small>{low:.2}..{high:.2}</small>"));
        let _ = writeln!(
            table,
            "<tr><th scope=\"row\">{}, {}</th><td>{:.3}</td><td>{:.3}</td><td>x{ratio:.2}{around}</td><td>x{spread_a:.2}, x{spread_b:.2}</td>\
             <td>{p_value:.3}</td><td class=\"word\">{}</td></tr>",
            row.kind,
            percentile(row.quantile),
            median_a / 1e6,
            median_b / 1e6,
            row.judgement(found.p_value_least())
        );
    }
    table.push_str("</tbody></table>\n");
    let remark = "Medians over runs. The ratio is that of geometric means. Below it is the interval that contains the true ratio with about 95 % confidence (a bootstrap over four runs or more). Noise is the largest run divided by the smallest. p: how often runs \
                  that are dealt to two sets at random would differ as much.";
    let _ = writeln!(text, "{}<p class=\"remark\">{remark}</p>", scrolled(&table));
    text
}

/// Why two sets must not be compared.
fn refusal(before: &Series, after: &Series) -> Option<String> {
    let rounds = || {
        before
            .rounds
            .iter()
            .map(|round| (before, round))
            .chain(after.rounds.iter().map(|round| (after, round)))
    };
    let unfit =
        rounds().find(|(_, round)| !round.verdict().is_valid() || round.result["interrupted"] == true);
    if let Some((series, round)) = unfit {
        return Some(format!("{}, {} is {}", series.label, round.name, round.verdict().headline()));
    }
    let first = &before.rounds.first()?.result;
    for key in CONDITIONS {
        if let Some((_, other)) = rounds().find(|(_, round)| round.result[key] != first[key]) {
            return Some(format!("{key} is {} and {}", first[key], other.result[key]));
        }
    }
    None
}

fn rows(before: &Series, after: &Series, kind: Kind) -> Vec<Row> {
    let pick = |series: &Series, quantile: f64| -> Option<Vec<f64>> {
        let rounds = series.rounds.iter();
        rounds.map(|round| quantile_ns(&round.result, kind, quantile)).collect()
    };
    let rows = COMPARED.into_iter().filter_map(|quantile| {
        let found = compare(&pick(before, quantile)?, &pick(after, quantile)?)?;
        Some(Row { kind: after.word(kind), quantile, found })
    });
    rows.collect()
}

fn quantile_ns(result: &Value, kind: Kind, quantile: f64) -> Option<f64> {
    result["latency"][kind.name()]["quantiles_ns"][quantile.to_string()].as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::section_tests::round;

    fn series(label: &str, medians: &[u64], rate: f64) -> Series {
        let rounds = medians.iter().map(|median| {
            let quantiles = json!({"0.5": median, "0.99": 5_000_000, "0.999": null});
            let result = json!({
                "valid": true, "interrupted": false, "mode": "open-loop", "rate_per_second": rate,
                "latency": {"receipt": {"quantiles_ns": quantiles}},
            });
            round(&result, Vec::new())
        });
        Series { label: label.to_owned(), rounds: rounds.collect() }
    }

    fn difference(before: Series, after: Series) -> Difference {
        Difference::of(&Section { series: vec![before, after], compared: true, ..Section::default() })
            .unwrap()
    }

    #[test]
    fn a_difference_is_told_from_noise() {
        let found = difference(
            series("before", &[100, 101, 102, 103], 1.0),
            series("after", &[200, 202, 204, 206], 1.0),
        );
        let told: Vec<(f64, &str)> =
            found.rows.iter().map(|row| (row.quantile, row.judgement(found.p_value_least()))).collect();
        assert_eq!(told, [(0.5, "more than noise"), (0.99, "no more than noise")]);
        let notes = found.notes();
        assert_eq!(
            notes[0].text,
            "after of receipt: p50 is 2.00 times that of before (p = 0.029, 4 and 4 runs): more than noise."
        );
        assert!(notes.len() == 2 && !notes[0].alarm, "{notes:?}");
    }

    #[test]
    fn single_runs_are_too_few() {
        let found = difference(series("before", &[100], 1.0), series("after", &[900], 1.0));
        assert!(
            found.notes()[0].text.ends_with("too few runs to tell it from noise."),
            "{:?}",
            found.notes()
        );
    }

    #[test]
    fn what_is_not_alike_is_not_compared() {
        let found = difference(series("before", &[100], 1.0), series("after", &[100], 2.0));
        assert_eq!(
            found.notes(),
            [Note::alarm("before and after are not compared: rate_per_second is 1.0 and 2.0")]
        );
        let mut invalid = series("after", &[100], 1.0);
        invalid.rounds[0].result["valid"] = json!(false);
        let found = difference(series("before", &[100], 1.0), invalid);
        assert!(
            found.refused.as_deref().is_some_and(|reason| reason.starts_with("after, round-1 is INVALID")),
            "{found:?}"
        );
        let nothing =
            Series { rounds: vec![round(&json!({"valid": true}), Vec::new())], ..Series::default() };
        assert!(difference(nothing.clone(), nothing).refused.is_some());
        assert!(
            Difference::of(&Section {
                series: vec![series("a", &[1], 1.0)],
                compared: true,
                ..Section::default()
            })
            .is_none()
        );
    }

    #[test]
    fn a_difference_is_a_table() {
        let result = |median: u64| json!({"valid": true, "interrupted": false, "latency": {"receipt": {"quantiles_ns": {"0.5": median}}}});
        let set = |medians: [u64; 4]| medians.map(|median| round(&result(median), Vec::new())).to_vec();
        let before = Series {
            label: "be<fore".to_owned(),
            rounds: set([1_000_000, 1_000_000 + 1, 1_000_000 + 2, 1_000_000 + 3]),
        };
        let after = Series {
            label: "after".to_owned(),
            rounds: set([2 * 1_000_000, 2 * 1_000_000 + 1, 2 * 1_000_000 + 2, 2 * 1_000_000 + 3]),
        };
        let mut section = Section { series: vec![before, after], compared: true, ..Section::default() };
        let text = table(&section);
        assert!(
            text.contains("be&lt;fore")
                && text.contains("<td>x2.00<small>2.00..2.00</small></td>")
                && text.contains(">more than noise</td>"),
            "{text}"
        );
        section.compared = false;
        assert_eq!(table(&section), "");
    }
}
