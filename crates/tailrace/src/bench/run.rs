//! `tailrace bench run`: one load against one system.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use tailrace_bench::clock::{Clock, MonotonicClock};
use tailrace_bench::engine::{Interval, Outcome};
use tailrace_bench::report::Summary;
use tailrace_bench::sampler::Sampler;
use tailrace_bench::version;

use super::arguments::RunArguments;
use super::driver::Driver;
use super::files::Files;
use super::live::Live;
use super::signals::Signals;
use super::table;
use crate::args::Output;
use crate::failure::{Failure, complain};
use crate::output::{print, print_json};

pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    if let Some(plan) = &arguments.plan {
        return super::plan::run(plan, arguments);
    }
    let (summary, outcome) = execute(arguments, &stop_on_interrupt())?;
    match arguments.output {
        Output::Text => print(&table::render(&summary))?,
        Output::Json => print_json(&summary)?,
    }
    Ok(status(&outcome))
}

/// One run, from the first connection to the files that it leaves.
pub(super) fn execute(
    arguments: &RunArguments,
    stop: &Arc<AtomicBool>,
) -> Result<(Summary, Outcome), Failure> {
    let run = run_number();
    let options = arguments.load_options(run)?;
    check_server(arguments.server_pid)?;
    let target = arguments.target(run);
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new(arguments.waiting()));
    let driver = Driver::prepare(arguments, &target, &options, &clock, stop)?;
    let version = driver.system_address().and_then(|address| version::ask(&arguments.system, address));
    let comment = format!("tailrace bench {} {}", env!("CARGO_PKG_VERSION"), arguments.system);
    let mut files = arguments.out.as_deref().map(|folder| Files::create(folder, &comment)).transpose()?;
    let shown = arguments.progress || (!arguments.quiet && std::io::stderr().is_terminal());
    let mut live = Live::new(shown, arguments.warm_up + arguments.duration);
    let mut observer = |interval: &Interval<'_>| {
        live.show(interval);
        if let Some(files) = &mut files {
            files.interval(interval);
        }
    };
    let sampler = arguments.out.as_ref().map(|_| Sampler::start(arguments.server_pid));
    let signals = arguments.server_pid.map(|server| Signals::start(server, arguments.signals.clone()));
    let address = driver.address().map(str::to_owned);
    let driven = driver.run(&options, &clock, stop, &mut observer);
    let signals = signals.map(Signals::finish).unwrap_or_default();
    let mut resources = sampler.map(Sampler::finish).unwrap_or_default();
    live.clear();
    let driven = driven?;
    driven.complaints.iter().for_each(|complaint| complain(&format!("could not clean up: {complaint}")));
    resources.agents = driven.resources;
    let mut origin = arguments.origin(version);
    origin.trouble.extend(signals);
    let (outcome, count) = (driven.outcome, target.connections as usize);
    let mut summary = Summary::new(&arguments.system, address.as_deref(), count, &options, &outcome, origin);
    summary.remote = driven.report;
    if let Some(files) = files {
        files.finish(&summary, &outcome.total, &resources)?;
    }
    Ok((summary, outcome))
}

/// A process that is not there would be sampled as nothing.
fn check_server(pid: Option<u32>) -> Result<(), Failure> {
    match pid {
        Some(pid) if !std::path::Path::new(&format!("/proc/{pid}")).exists() => {
            Err(format!("--server-pid: there is no process {pid} on this machine").into())
        }
        _ => Ok(()),
    }
}

fn status(outcome: &Outcome) -> ExitCode {
    if !outcome.verdict.is_valid() {
        complain("the run is invalid: the generator was late, so the latencies are not the system's");
        return ExitCode::FAILURE;
    }
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tells this run's messages from those of others.
fn run_number() -> u16 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mixed = now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 20);
    (mixed ^ (mixed >> 16) ^ (mixed >> 32)) as u16
}

/// Ctrl-C ends the sending; the second one ends the program.
pub(super) fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // A run without this thread cannot be ended early, and is as good otherwise.
    let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if flag.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
    });
    stop
}
