//! The results of a plan: a row per workload, system and distribution, with what went wrong and how many
//! rounds are valid.

use std::path::Path;

use serde_json::{Value, json};
use tailrace_cli::text::table::Table;

use super::format::Plan;
use super::turn::Turn;
use crate::compare::median;
use crate::recorder::Mishaps;
use crate::report::milliseconds;
use crate::verdict::{Verdict, VerdictKind};

/// Percentiles of the table.
const SHOWN: [(&str, &str); 4] = [("0.5", "P50"), ("0.99", "P99"), ("0.999", "P99.9"), ("1", "MAX")];

/// A round with a result that was not interrupted.
struct Round {
    number: u32,
    result: Value,
    verdict: Verdict,
}

/// Collects all results, by workload and system.
pub(super) fn collect(plan: &Plan, out: &Path) -> Value {
    let mut rows = Vec::new();
    for workload in &plan.workloads {
        for system in &plan.systems {
            let round = |number| {
                let result = Turn { round: number, system, workload, trouble: None }.result(out)?;
                let verdict = Verdict::of_result(&result);
                (result["interrupted"] != true).then_some(Round { number, result, verdict })
            };
            let rounds: Vec<Round> = (1..=plan.rounds).filter_map(round).collect();
            let measured =
                |name: &&str| rounds.iter().any(|round| round.result["latency"][*name].is_object());
            let mut names: Vec<&str> = ["acknowledgement", "receipt"].into_iter().filter(measured).collect();
            // If nothing succeeded there is all the more to report.
            if names.is_empty() && !rounds.is_empty() {
                names.push("nothing succeeded");
            }
            rows.extend(names.into_iter().map(|name| row(&workload.name, &system.name, name, &rounds)));
        }
    }
    Value::Array(rows)
}

/// Median, lowest and highest value of each percentile over the valid rounds, if all of them tell it; never a
/// mean of percentiles within a run. What went wrong is summed over all rounds.
fn row(workload: &str, system: &str, name: &str, rounds: &[Round]) -> Value {
    let valid: Vec<&Round> = rounds.iter().filter(|round| round.verdict.is_valid()).collect();
    let percentiles: serde_json::Map<String, Value> =
        SHOWN.iter().map(|(quantile, _)| ((*quantile).to_owned(), over(&valid, name, quantile))).collect();
    let count = |is_so: &dyn Fn(&Round) -> bool| rounds.iter().filter(|round| is_so(round)).count();
    let has = |round: &Round, key: &str| round.result[key].as_array().is_some_and(|list| !list.is_empty());
    let mut mishaps = Mishaps::default();
    rounds.iter().for_each(|round| mishaps.add(&Mishaps::of_result(&round.result)));
    let verdicts: Vec<Value> = rounds
        .iter()
        .map(|Round { number, verdict, .. }| {
            json!({"round": number, "kind": verdict.kind(), "headline": verdict.headline(), "text": verdict.lines().join("; "), "reasons": verdict.reasons()})
        })
        .collect();
    json!({
        "workload": workload, "system": system, "distribution": name, "percentiles": percentiles,
        "runs": rounds.len(), "valid_runs": valid.len(),
        "doubtful_runs": count(&|round| round.verdict.kind() == VerdictKind::Doubtful),
        "repeated_runs": count(&|round| has(round, "earlier_attempts")),
        "runs_without_trouble": count(&|round| has(round, "trouble_not_made")),
        "mishaps": mishaps, "mishap_cells": mishaps.cells(), "verdicts": verdicts,
    })
}

fn over(rounds: &[&Round], name: &str, quantile: &str) -> Value {
    let told: Option<Vec<f64>> =
        rounds.iter().map(|round| round.result["latency"][name]["quantiles_ns"][quantile].as_f64()).collect();
    let Some(values) = told.filter(|values| !values.is_empty()) else { return Value::Null };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(0.0, f64::max);
    json!({"median_ns": median(&values) as u64, "least_ns": least as u64, "greatest_ns": greatest as u64})
}

pub(super) fn render(results: &Value, rounds: u32) -> String {
    let mut head = vec!["WORKLOAD", "SYSTEM", "MILLISECONDS"];
    head.extend(SHOWN.iter().map(|(_, label)| *label));
    head.extend(Mishaps::COLUMNS);
    head.push("VALID");
    let mut table = Table::new(0, &head);
    let mut reasons = Vec::new();
    for result in results.as_array().into_iter().flatten() {
        table.row(cells(result));
        let found = reasons_of(result);
        // Both distributions of a run have the same reasons.
        reasons.extend(found.into_iter().filter(|reason| !reasons.contains(reason)).collect::<Vec<_>>());
    }
    let mut text = table.render();
    text.push_str(&format!(
        "median (least..greatest) over valid rounds; with {rounds} rounds the true median is between them with {:.0} % confidence; `bench compare` tells \
         noise from difference\n{}\n",
        held(rounds) * 100.0,
        Mishaps::LEGEND
    ));
    for reason in reasons {
        text.push_str(&reason);
        text.push('\n');
    }
    text
}

/// The probability that the true median is between the lowest and the highest round: not all rounds are on
/// the same side of it.
fn held(rounds: u32) -> f64 {
    1.0 - 2.0 * 0.5_f64.powi(rounds.min(1000) as i32)
}

fn cells(result: &Value) -> Vec<String> {
    let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
    let mut cells = vec![text("workload"), text("system"), text("distribution")];
    for (quantile, _) in SHOWN {
        let found = &result["percentiles"][quantile];
        let at = |key: &str| found[key].as_u64().map(milliseconds);
        let told = at("median_ns").zip(at("least_ns")).zip(at("greatest_ns"));
        cells.push(told.map_or_else(
            || "-".to_owned(),
            |((median, least), greatest)| format!("{median} ({least}..{greatest})"),
        ));
    }
    let mishaps = result["mishap_cells"].as_array().into_iter().flatten();
    cells.extend(mishaps.map(|cell| cell.as_str().unwrap_or_default().to_owned()));
    cells.push(worth(result));
    cells
}

/// How many rounds are valid, doubtful and so on.
fn worth(result: &Value) -> String {
    let mut text = format!("{} of {}", result["valid_runs"], result["runs"]);
    for (key, what) in [
        ("doubtful_runs", "doubtful"),
        ("repeated_runs", "repeated"),
        ("runs_without_trouble", "WITHOUT TROUBLE"),
    ] {
        match result[key].as_u64() {
            None | Some(0) => {}
            Some(runs) => text.push_str(&format!(", {runs} {what}")),
        }
    }
    text
}

/// One line per reason, with the rounds that have it.
fn reasons_of(result: &Value) -> Vec<String> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for verdict in result["verdicts"].as_array().into_iter().flatten() {
        let headline = verdict["text"].as_str().unwrap_or_default();
        if verdict["reasons"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let round = verdict["round"].to_string();
        match found.iter_mut().find(|(other, _)| *other == headline) {
            Some((_, rounds)) => rounds.push(round),
            None => found.push((headline, vec![round])),
        }
    }
    let place = format!(
        "{}, {}",
        result["system"].as_str().unwrap_or_default(),
        result["workload"].as_str().unwrap_or_default()
    );
    found
        .into_iter()
        .map(|(headline, rounds)| format!("{place}, round {}: {headline}", rounds.join(", ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: u32, p50: Option<u64>, lost: u64, invalid: &[&str]) -> Round {
        let result = json!({
            "valid": invalid.is_empty(), "format": 2, "counts": {"lost": lost},
            "latency": {"receipt": {"quantiles_ns": {"0.5": p50, "1": 9_000_000}}},
            "verdict": {"invalid": invalid}, "earlier_attempts": if number == 2 { vec!["INVALID: late"] } else { Vec::new() },
        });
        Round { number, verdict: Verdict::of_result(&result), result }
    }

    #[test]
    fn the_median_of_two_rounds_is_between_them() {
        let rounds = [round(1, Some(1_000_000), 0, &[]), round(2, Some(3_000_000), 32, &[])];
        let found = row("w", "s", "receipt", &rounds);
        assert_eq!(
            found["percentiles"]["0.5"],
            json!({"median_ns": 2_000_000, "least_ns": 1_000_000, "greatest_ns": 3_000_000})
        );
        let text = render(&Value::Array(vec![found]), 2);
        let line = text.lines().nth(1).unwrap();
        assert!(line.contains("2.000 (1.000..3.000)") && line.ends_with("2 of 2, 1 repeated"), "{text}");
        // Neither tells p99. The losses are next to it.
        assert_eq!(line.split_whitespace().filter(|cell| *cell == "-").count(), 2, "{text}");
        assert!(text.lines().next().unwrap().contains("LOST") && line.contains("  32  "), "{text}");
        assert!(
            text.contains("with 2 rounds the true median is between them with 50 % confidence"),
            "{text}"
        );
    }

    #[test]
    fn invalid_rounds_are_in_no_percentile_and_say_why() {
        let rounds =
            [round(1, Some(1_000_000), 0, &["it was late"]), round(3, Some(3_000_000), 0, &["it was late"])];
        let found = row("w", "s", "receipt", &rounds);
        assert!(found["percentiles"]["0.5"].is_null() && found["valid_runs"] == 0, "{found}");
        let text = render(&Value::Array(vec![found.clone(), found]), 2);
        assert!(text.contains(" 0 of 2\n"), "{text}");
        assert_eq!(text.matches("s, w, round 1, 3: INVALID: it was late\n").count(), 1, "{text}");
    }
}
