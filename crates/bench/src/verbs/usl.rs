//! `tailrace bench usl RESULTS...`: fits the universal scalability law to runs at several loads.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, plain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::units;

use super::results;
use crate::report::{Chart, Horizontal, Line, Stroke};
use crate::scalability::{Fit, Point, fit};
use crate::verdict::Verdict;

#[derive(Debug, Args)]
#[command(
    after_help = "X(N) = gamma N / (1 + sigma (N - 1) + kappa N (N - 1)), fitted to throughput by least squares; each run is one observation. \
    The runs must be of one system and differ only in their load, at four different loads or more; six or more give a useful fit.\n\n\
    Examples:\n  \
    tailrace bench run docs/benchmarks/plans/scalability.toml --out results\n  \
    tailrace bench usl results/nats --svg usl.svg\n  \
    tailrace bench usl --load in-flight c1 c2 c4 c8 -o json"
)]
pub(super) struct UslArguments {
    /// Folders: of one run, of several runs, or of a system in a plan's results
    #[arg(value_name = "RESULTS", required = true)]
    folders: Vec<PathBuf>,
    /// What counts as the load N
    #[arg(long, value_enum, default_value_t = LoadKind::Connections)]
    load: LoadKind,
    /// Draw observations and fit to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw them to this file as a PNG picture
    #[arg(long, value_name = "FILE.png")]
    png: Option<PathBuf>,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadKind {
    /// Number of connections; runs must be in full throttle or a closed loop
    Connections,
    /// Connections times the bound in flight; runs must be in full throttle
    InFlight,
    /// Throughput times mean latency (Little's law): messages due but not done, on average
    Measured,
}

impl LoadKind {
    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::InFlight => "in flight",
            Self::Measured => "messages due and not done",
        }
    }

    /// Modes in which the system, not the schedule, determines the throughput.
    fn modes(self) -> &'static [&'static str] {
        match self {
            Self::Connections => &["full-throttle", "closed-loop"],
            Self::InFlight => &["full-throttle"],
            Self::Measured => &["full-throttle", "closed-loop", "open-loop"],
        }
    }
}

/// Conditions that must be the same in all runs.
const CONDITIONS: [&str; 5] = ["system", "mode", "payload_bytes", "receipt_is_reply", "settings"];

/// Points of the curve in the chart.
const CURVE_POINTS: u32 = 200;

pub(super) fn run(arguments: &UslArguments) -> Result<ExitCode, Failure> {
    let mut runs = Vec::new();
    for folder in &arguments.folders {
        runs.extend(results::load(folder, results::PLAN_DEPTH)?);
    }
    results::check_alike(&CONDITIONS, &runs)?;
    let points = runs.iter().map(|run| point(run, arguments.load)).collect::<Result<Vec<_>, _>>()?;
    let fit = fit(&points)?;
    let system = runs[0]["system"].as_str().unwrap_or("?");
    if let Some(path) = &arguments.svg {
        write(path, chart(&fit, system, arguments.load).svg().as_bytes())?;
    }
    if let Some(path) = &arguments.png {
        chart(&fit, system, arguments.load).write_png(path)?;
    }
    match arguments.output {
        Output::Json => print_json(&json!({
            "system": system, "load": arguments.load.name(), "runs": runs.len(), "fit": fit,
            "verdicts": runs.iter().map(|run| Verdict::of_result(run).headline()).collect::<Vec<_>>(),
        }))?,
        Output::Text => {
            print(&(render(&fit, system, arguments.load) + &results::worth(&[("runs", &runs[..])])))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Load and throughput of a run: messages received per second, or acknowledged if nothing is received.
fn point(run: &Value, load: LoadKind) -> Result<Point, Failure> {
    let mode = run["mode"].as_str().unwrap_or_default();
    if !load.modes().contains(&mode) {
        let modes = load.modes().join(" or ");
        let mode =
            if mode == "open-loop" { "an open loop, whose schedule decides how much is sent" } else { mode };
        return Err(format!("a run was in {mode}: --load {} needs {modes}", load.option()).into());
    }
    let number = |value: &Value, what: &str| {
        value
            .as_f64()
            .ok_or_else(|| Failure::from(format!("a result has no {what}: it is of another version")))
    };
    let received = number(&run["received_per_second"], "received_per_second")?;
    let (throughput, felt) = if received > 0.0 {
        (received, "receipt")
    } else {
        (number(&run["acknowledged_per_second"], "acknowledged_per_second")?, "acknowledgement")
    };
    let connections = number(&run["connections"], "connections")?;
    let load = match load {
        LoadKind::Connections => connections,
        LoadKind::InFlight => connections * number(&run["in_flight_max"], "in_flight_max")?,
        LoadKind::Measured => throughput * number(&run["latency"][felt]["mean_ns"], "mean_ns")? / 1e9,
    };
    Ok(Point { load, throughput })
}

impl LoadKind {
    fn option(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::InFlight => "in-flight",
            Self::Measured => "measured",
        }
    }
}

fn render(fit: &Fit, system: &str, load: LoadKind) -> String {
    let mut table = Table::new(0, &["LOAD", "SEEN/s", "FITTED/s", "RESIDUAL/s", "RESIDUAL"]);
    for row in &fit.residuals {
        table.row(vec![
            rounded(row.point.load),
            rounded(row.point.throughput),
            rounded(row.fitted),
            rounded(row.residual),
            format!("{:+.1} %", 100.0 * row.residual / row.point.throughput),
        ]);
    }
    let law = &fit.law;
    let mut text = format!("{system}, {} runs; load: {}\n", fit.residuals.len(), load.name());
    text.push_str(&table.render());
    text.push_str(&format!(
        "gamma {:.6} per second at a load of 1\nsigma {:.6} contention\nkappa {:.9} coherency\n",
        law.gamma, law.sigma, law.kappa
    ));
    text.push_str(&match (fit.peak_load, fit.peak_throughput, fit.ceiling) {
        (Some(load), Some(throughput), _) => {
            let guess =
                if fit.peak_is_extrapolated { ", beyond all loads that were tried: a guess" } else { "" };
            format!("peak N* {}: {} per second{guess}\n", rounded(load), units::count(throughput))
        }
        (.., Some(ceiling)) => {
            format!("no peak: throughput comes near {} per second\n", units::count(ceiling))
        }
        _ => "no peak: throughput grows with the load\n".to_owned(),
    });
    text.push_str(&format!(
        "residuals: {} per second (root mean square), {:.1} % at most, R squared {:.4}\n",
        rounded(fit.residual_rms),
        100.0 * fit.residual_share_max,
        fit.r_squared
    ));
    if !fit.held_at_zero.is_empty() {
        text.push_str(&format!(
            "held at 0, as the best value would be below: {}. The law does not describe these runs well\n",
            fit.held_at_zero.join(", ")
        ));
    }
    text
}

fn rounded(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Observations as points, and the law as a curve, up to the peak if that is near.
fn chart(fit: &Fit, system: &str, load: LoadKind) -> Chart {
    let greatest = fit.residuals.iter().map(|row| row.point.load).fold(1.0, f64::max);
    let end = greatest.max(fit.peak_load.filter(|peak| *peak < 2.0 * greatest).unwrap_or(0.0) * 1.1);
    let curve = (0..=CURVE_POINTS).map(|step| {
        let at = 1.0 + (end - 1.0) * f64::from(step) / f64::from(CURVE_POINTS);
        (at, fit.law.throughput(at))
    });
    let seen = fit.residuals.iter().map(|row| (row.point.load, row.point.throughput));
    Chart {
        title: format!("{system}: throughput by load ({})", load.name()),
        across: load.name().to_owned(),
        vertical: "messages per second".to_owned(),
        horizontal: Horizontal::Number,
        lines: vec![
            Line { label: "fitted law".to_owned(), points: curve.collect(), ..Line::default() },
            Line {
                label: "runs".to_owned(),
                points: seen.collect(),
                colour: 1,
                stroke: Stroke::Dots,
                ..Line::default()
            },
        ],
        ..Chart::default()
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes)
        .map_err(|error| format!("cannot write {}: {}", path.display(), plain(&error)).into())
}
