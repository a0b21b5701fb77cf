//! `tailrace bench calibrate`: checks that the instrument shows a stall of known length as it must.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tailrace_cli::failure::{Failure, plain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::units::parse_duration;

use super::arguments::nanoseconds;
use super::interrupt::stop_on_interrupt;
use super::live::successes;
use crate::calibrate::{CHECKED, Judgement, Stall, judge};
use crate::clock::{Clock, MonotonicClock};
use crate::engine::{self, Interval, Load, LoadOptions};
use crate::recorder::{Distribution, interval_log};
use crate::report::{Chart, Horizontal, Line, Stroke, latency_points, read_hgrm};
use crate::schedule::{Rate, Schedule};
use crate::systems::{self, EchoProtocol, EchoServer, Settings, Target};
use crate::verdict::percentile;

#[derive(Debug, Args)]
#[command(
    after_help = "The system under test is an echo server within this program, frozen for the second half of the run. What must \
    come out is computed by hand: with 100 s of 200 s frozen, p50 is the service time, p75 is 50 s and p99.99 is 100 s. \
    The open loop must show the stall. A closed loop is run as well, to demonstrate how it hides it.\n\n\
    Examples:\n  \
    tailrace bench calibrate --svg stall.svg\n  \
    tailrace bench calibrate --duration 200s --stall 100s --rate 100\n  \
    tailrace bench calibrate --judge wrk2.hgrm --unit ms --duration 200s --stall 100s"
)]
pub(super) struct CalibrateArguments {
    /// Length of the run, including the stall
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Time for which the system is frozen, at the end of the run
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    stall: Duration,
    /// Messages per second
    #[arg(long, default_value = "1000")]
    rate: Rate,
    /// Judge another tool's file instead, .hgrm or interval log, recorded with such a stall
    #[arg(long, value_name = "FILE")]
    judge: Option<PathBuf>,
    /// Unit of the values in that file
    #[arg(long, value_enum, default_value_t = Unit::Ms)]
    unit: Unit,
    /// Tolerance of a percentile, as a share
    #[arg(long, default_value_t = 0.02)]
    tolerance: f64,
    /// Tolerance of a percentile, as a time
    #[arg(long, default_value = "50ms", value_parser = parse_duration)]
    slack: Duration,
    /// Draw the result, the result with HdrHistogram's correction, and the expected curve
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the same as a PNG picture
    #[arg(long, value_name = "FILE.png")]
    png: Option<PathBuf>,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unit {
    Ns,
    Us,
    Ms,
    S,
}

impl Unit {
    fn seconds(self) -> f64 {
        match self {
            Self::Ns => 1e-9,
            Self::Us => 1e-6,
            Self::Ms => 1e-3,
            Self::S => 1.0,
        }
    }
}

/// A verdict, and its subject.
#[derive(Debug, Serialize)]
struct Judged {
    subject: String,
    #[serde(flatten)]
    judgement: Judgement,
}

pub(super) fn run(arguments: &CalibrateArguments) -> Result<ExitCode, Failure> {
    if arguments.stall.is_zero() || arguments.stall >= arguments.duration {
        return Err("--stall must be longer than 0 and shorter than --duration".into());
    }
    if arguments.judge.is_some() && (arguments.svg.is_some() || arguments.png.is_some()) {
        return Err("--svg and --png draw what calibrate has measured itself: not with --judge".into());
    }
    let measured = match &arguments.judge {
        Some(path) => vec![(judge_file(arguments, path)?, Vec::new())],
        None => {
            // Before the run, not after it.
            if let Some(path) =
                arguments.png.as_ref().filter(|path| path.extension().is_none_or(|e| e != "png"))
            {
                return Err(format!("--png {}: expected a name that ends in .png", path.display()).into());
            }
            vec![measure(arguments, true)?, measure(arguments, false)?]
        }
    };
    draw(arguments, &measured)?;
    let judged: Vec<_> = measured.into_iter().map(|(judged, _)| judged).collect();
    match arguments.output {
        Output::Text => print(&judged.iter().map(render).collect::<String>())?,
        Output::Json => print_json(&judged)?,
    }
    // The closed loop is expected to be wrong.
    Ok(if judged[0].judgement.right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a load against an echo server that is frozen for the second part.
fn measure(arguments: &CalibrateArguments, open: bool) -> Result<(Judged, Vec<Line>), Failure> {
    let schedule = Schedule::constant(arguments.rate)?;
    let mut options = LoadOptions::new(if open { Load::Open(schedule) } else { Load::Closed(schedule) });
    options.warm_up_ns = 0;
    options.duration_ns = nanoseconds(arguments.duration);
    options.timeout_ns = nanoseconds(arguments.duration * 10);
    options.drain_ns = options.timeout_ns;
    options.lead_ns = 200_000_000;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::default());
    let server = EchoServer::start(EchoProtocol::Tcp).map_err(|error| plain(&error))?;
    let target = Target {
        system: "tcp-echo".to_owned(),
        address: Some(server.address().to_string()),
        connections: 1,
        payload_bytes: options.payload_bytes,
        run: options.run,
        settings: Settings::default(),
    };
    let mut opened = systems::open(&target)?;
    systems::set_up(&mut opened.requesters, &target, &*clock)?;
    let begin = clock.now_ns() + options.lead_ns;
    let thaw_ns = begin + options.duration_ns;
    let freeze_ns = thaw_ns - nanoseconds(arguments.stall);
    let freezer = std::thread::spawn(move || freeze(&server, freeze_ns, thaw_ns));
    let (outcome, _requesters) =
        engine::run(&options, opened.requesters, &clock, &stop_on_interrupt(), &mut |_: &Interval<'_>| {})?;
    freezer.join().map_err(|_| "the thread that freezes the server failed")?;
    if outcome.interrupted {
        return Err("interrupted".into());
    }
    let found = successes(&outcome.total);
    let subject = if open { "open loop" } else { "closed loop, for comparison" };
    let mut lines = vec![line(subject, latency_points(found), !open, Stroke::Solid)];
    if let Some(corrected) = outcome.corrected(found) {
        lines.push(line("closed loop, corrected", latency_points(&corrected), true, Stroke::Dashed));
    } else {
        let stall = stall(arguments, found.at_quantile_ns(0.25) as f64 / 1e9);
        let by_hand = CHECKED.map(|quantile| (quantile, stall.expected_seconds(quantile) * 1e3));
        lines.push(line("computed by hand", by_hand.into(), false, Stroke::Dots));
    }
    let judged =
        judged(arguments, subject, found.at_quantile_ns(0.25), found, |found, q| found.at_quantile_ns(q));
    Ok((judged, lines))
}

fn line(label: &str, points: Vec<(f64, f64)>, closed: bool, stroke: Stroke) -> Line {
    Line { label: label.to_owned(), points, colour: usize::from(closed), stroke, ..Line::default() }
}

/// Draws the picture, if requested.
fn draw(arguments: &CalibrateArguments, measured: &[(Judged, Vec<Line>)]) -> Result<(), Failure> {
    let seconds = |time: Duration| time.as_secs_f64();
    let chart = Chart {
        title: format!(
            "latency by percentile: {} s, of which the server stood still for {} s",
            seconds(arguments.duration),
            seconds(arguments.stall)
        ),
        vertical: "milliseconds".to_owned(),
        logarithmic: true,
        horizontal: Horizontal::Percentile,
        lines: measured.iter().flat_map(|(_, lines)| lines).cloned().collect(),
        ..Chart::default()
    };
    if let Some(path) = &arguments.svg {
        std::fs::write(path, chart.svg())
            .map_err(|error| format!("cannot write {}: {}", path.display(), plain(&error)))?;
    }
    if let Some(path) = &arguments.png {
        chart.write_png(path)?;
    }
    Ok(())
}

fn freeze(server: &EchoServer, freeze_ns: u64, thaw_ns: u64) {
    let clock = MonotonicClock::default();
    clock.wait(freeze_ns, &mut []);
    server.freeze(true);
    clock.wait(thaw_ns, &mut []);
    server.freeze(false);
}

fn judged(
    arguments: &CalibrateArguments,
    subject: &str,
    service_ns: u64,
    found: &Distribution,
    at: impl Fn(&Distribution, f64) -> u64,
) -> Judged {
    let stall = stall(arguments, service_ns as f64 / 1e9);
    let slack = arguments.slack.as_secs_f64();
    let judgement = judge(&stall, |quantile| at(found, quantile) as f64 / 1e9, arguments.tolerance, slack);
    Judged { subject: subject.to_owned(), judgement }
}

fn stall(arguments: &CalibrateArguments, service_seconds: f64) -> Stall {
    Stall {
        stalled_seconds: arguments.stall.as_secs_f64(),
        run_seconds: arguments.duration.as_secs_f64(),
        service_seconds,
    }
}

/// Judges another tool's file: an interval log if it starts like one, otherwise `.hgrm`.
fn judge_file(arguments: &CalibrateArguments, path: &Path) -> Result<Judged, Failure> {
    let bytes =
        std::fs::read(path).map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
    let name = path.display().to_string();
    let unit = arguments.unit.seconds();
    let text = String::from_utf8_lossy(&bytes);
    let slack = arguments.slack.as_secs_f64();
    let judgement = if text.contains("Interval_Compressed_Histogram") {
        let mut found = Distribution::default();
        for interval in interval_log::read(&name, &bytes)? {
            // Other kinds in our own logs are not latencies of the system.
            if ["", "receipt"].contains(&interval.tag.as_str()) {
                found.add(&interval.distribution);
            }
        }
        let at = |quantile| found.at_quantile_ns(quantile) as f64 * unit;
        judge(&stall(arguments, at(0.25)), at, arguments.tolerance, slack)
    } else {
        let rows = read_hgrm(&name, &text)?;
        let last = rows.last().map_or(0.0, |row| row.value);
        let at = |quantile: f64| {
            rows.iter().find(|row| row.quantile >= quantile).map_or(last, |row| row.value) * unit
        };
        judge(&stall(arguments, at(0.25)), at, arguments.tolerance, slack)
    };
    Ok(Judged { subject: name, judgement })
}

fn render(judged: &Judged) -> String {
    let mut table = Table::new(2, &["PERCENTILE", "MUST BE", "FOUND", ""]);
    for check in &judged.judgement.checks {
        table.row(vec![
            percentile(check.quantile),
            format!("{:.3} s", check.expected_seconds),
            format!("{:.3} s", check.found_seconds),
            if check.agrees { "agrees" } else { "WRONG" }.to_owned(),
        ]);
    }
    let verdict = match (judged.judgement.right, judged.judgement.omits) {
        (true, _) => "right: it shows the stall as it was",
        (false, true) => "it OMITS: most of the stall is not in the distribution",
        (false, false) => "wrong, though the stall is visible",
    };
    format!("{}\n{}  {verdict}\n\n", judged.subject, table.render())
}
