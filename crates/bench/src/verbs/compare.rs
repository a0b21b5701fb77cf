//! `tailrace bench compare A B`: tells whether two sets of runs differ, or whether it is noise.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;

use super::results;
use crate::compare::{Comparison, compare};
use crate::recorder::Mishaps;
use crate::verdict::Verdict;

#[derive(Debug, Args)]
#[command(
    after_help = "A and B are folders: of one run (bench run --out), or of several such folders. One run is one observation; \
    four runs or more on each side can show a difference that is unlikely to be noise (p below 0.05).\n\n\
    Example: tailrace bench compare results/before results/after"
)]
pub(super) struct CompareArguments {
    /// Folder of the first run or runs
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Folder of the second run or runs
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Percentiles to compare: any run of a few seconds has enough messages beyond them.
const COMPARED: [(&str, &str); 5] =
    [("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"), ("0.999", "p99.9"), ("1", "max")];

/// Conditions that must be the same in all runs. Otherwise they cannot be compared.
const CONDITIONS: [&str; 6] =
    ["mode", "schedule", "rate_per_second", "payload_bytes", "connections", "receipt_is_reply"];

/// Below this p value a difference is reported as one.
const P_VALUE_DIFFERENT: f64 = 0.05;

pub(super) fn run(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let (a, b) = (results::load(&arguments.a, 1)?, results::load(&arguments.b, 1)?);
    results::check_alike(&CONDITIONS, a.iter().chain(&b))?;
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for name in ["acknowledgement", "receipt"] {
        for (quantile, label) in COMPARED {
            let pick = |runs: &[Value]| -> Option<Vec<f64>> {
                runs.iter().map(|run| run["latency"][name]["quantiles_ns"][quantile].as_f64()).collect()
            };
            let found = pick(&a).zip(pick(&b)).and_then(|(a, b)| compare(&a, &b));
            let is_measured = a.iter().chain(&b).all(|run| run["latency"][name].is_object());
            match found {
                Some(found) => rows.push((name, label, found)),
                None if is_measured => left_out.push(format!("{name} {label}")),
                None => {}
            }
        }
    }
    if rows.is_empty() {
        return Err("the two sets have no distribution in common".into());
    }
    match arguments.output {
        Output::Json => print_json(&json(&a, &b, &rows, &left_out))?,
        Output::Text => print(&render(&a, &b, &rows, &left_out))?,
    }
    Ok(ExitCode::SUCCESS)
}

type Row<'a> = (&'a str, &'a str, Comparison);

fn json(a: &[Value], b: &[Value], rows: &[Row<'_>], left_out: &[String]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|(name, label, found)| {
            json!({"distribution": name, "percentile": label, "differs": found.p_value < P_VALUE_DIFFERENT, "comparison": found})
        })
        .collect();
    let mishaps = |runs: &[Value]| {
        let mut all = Mishaps::default();
        runs.iter().for_each(|run| all.add(&Mishaps::of_result(run)));
        all
    };
    let verdicts = |runs: &[Value]| -> Vec<String> {
        runs.iter().map(|run| Verdict::of_result(run).headline()).collect()
    };
    json!({
        "runs_a": a.len(), "runs_b": b.len(), "rows": rows, "left_out": left_out,
        "mishaps_a": mishaps(a), "mishaps_b": mishaps(b), "verdicts_a": verdicts(a), "verdicts_b": verdicts(b),
    })
}

fn render(a: &[Value], b: &[Value], rows: &[Row<'_>], left_out: &[String]) -> String {
    let mut table =
        Table::new(0, &["MILLISECONDS", "", "A", "B", "B/A", "95 %", "NOISE A", "NOISE B", "P", ""]);
    for (name, label, found) in rows {
        let verdict = if found.p_value < P_VALUE_DIFFERENT { "differs" } else { "no difference shown" };
        table.row(vec![
            (*name).to_owned(),
            (*label).to_owned(),
            format!("{:.3}", found.median_a / 1e6),
            format!("{:.3}", found.median_b / 1e6),
            format!("{:.2}", found.ratio),
            found.ratio_interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.2}..{high:.2}")),
            format!("x{:.2}", found.spread_a),
            format!("x{:.2}", found.spread_b),
            format!("{:.3}", found.p_value),
            verdict.to_owned(),
        ]);
    }
    let mut text = format!("A: {} runs of {}, B: {} runs of {}\n", a.len(), system(a), b.len(), system(b));
    text.push_str(&table.render());
    text.push_str(
        "A and B are medians over runs. 95 %: the interval that contains the true B/A, by a bootstrap over runs. Noise is the largest run \
         divided by the smallest.\n",
    );
    if !left_out.is_empty() {
        text.push_str(&format!("left out, as not every run tells it: {}\n", left_out.join(", ")));
    }
    text.push_str(&results::worth(&[("A", a), ("B", b)]));
    let least = Comparison::p_value_least(a.len(), b.len());
    if least >= P_VALUE_DIFFERENT {
        text.push_str(&format!(
            "So few runs cannot show a difference: the smallest possible p is {least:.2}.\n"
        ));
    }
    text
}

fn system(runs: &[Value]) -> &str {
    runs[0]["system"].as_str().unwrap_or("?")
}
