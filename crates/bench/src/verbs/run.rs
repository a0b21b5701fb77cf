//! `tailrace bench run`: one load against one system.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use tailrace_cli::failure::{Failure, Status, complain, complain_with, note, plain};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units::plural;

use super::arguments::RunArguments;
use super::driver::Driver;
use super::files::Files;
use super::interrupt::stop_on_interrupt;
use super::live::Live;
use super::signals::{Done, Signals};
use super::table;
use crate::clock::{Clock, MonotonicClock};
use crate::engine::{Interval, LoadOptions, Outcome};
use crate::error::BenchError;
use crate::report::{Summary, rfc3339};
use crate::requester::Requester;
use crate::sampler::Sampler;
use crate::systems::{self, Target};
use crate::verdict::VerdictKind;
use crate::version::{self, Told};

/// The result of a run, whether or not it could be written.
pub(super) struct Finished {
    pub(super) summary: Summary,
    /// Why it could not be written.
    pub(super) unwritten: Option<Failure>,
}

pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    let finished = execute(arguments, &stop_on_interrupt())?;
    match arguments.output {
        Output::Text => print(&table::render(&finished.summary))?,
        Output::Json => print_json(&finished.summary)?,
    }
    let status = status(&finished.summary);
    match finished.unwritten {
        Some(error) => Err(error),
        None => {
            let out =
                arguments.out.as_deref().filter(|_| finished.summary.verdict.nothing_measured.is_none());
            out.map_or(Ok(()), |out| super::report::leave_page(out, arguments.output))?;
            Ok(status)
        }
    }
}

/// Runs one load, from the first connection to the files of its results.
pub(super) fn execute(arguments: &RunArguments, stop: &Arc<AtomicBool>) -> Result<Finished, Failure> {
    let run = run_number();
    let options = arguments.load_options(run)?;
    check_server(arguments.server_pid)?;
    let target = arguments.target(run)?;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new(arguments.waiting()));
    if !arguments.quiet && systems::check(&target).is_ok() {
        announce(&target);
    }
    let (driver, version) = connect(arguments, &target, &options, &clock, stop)
        .map_err(|error| arguments.without_secrets(&error.to_string()))?;
    let comment = format!("tailrace bench {} {}", arguments.program.version, arguments.system);
    let mut files = arguments.out.as_deref().map(|folder| Files::create(folder, &comment)).transpose()?;
    let shown = arguments.progress || (!arguments.quiet && std::io::stderr().is_terminal());
    let mut live = Live::new(shown, arguments.warm_up + arguments.duration);
    let mut observer = |interval: &Interval<'_>| {
        live.show(interval);
        if let Some(files) = &mut files {
            files.interval(interval);
        }
    };
    let server = &arguments.server;
    let pid = server.as_ref().map(|server| server.pid());
    let pid = pid.or_else(|| Some(Arc::new(AtomicU32::new(arguments.server_pid?))));
    let sampler = arguments.out.as_ref().map(|_| Sampler::start(pid));
    let lead = Duration::from_nanos(options.lead_ns);
    let signals =
        server.as_ref().map(|server| Signals::start(Arc::clone(server), arguments.signals.clone(), lead));
    let address = driver.address().map(str::to_owned);
    let started = SystemTime::now();
    let driven = driver.run(&options, &clock, stop, &mut observer);
    let ended = SystemTime::now();
    let signals = signals.map(Signals::finish).unwrap_or_default();
    let mut resources = sampler.map(Sampler::finish).unwrap_or_default();
    live.clear();
    let driven = driven?;
    let mut outcome = driven.outcome;
    tear_down(driven.requesters, &outcome, stop);
    driven.complaints.iter().for_each(|complaint| note(&format!("could not clean up: {complaint}")));
    resources.agents = driven.resources;
    let texts = outcome.failures.iter_mut().chain(&mut outcome.refusals);
    for text in texts.chain(outcome.breaks.iter_mut().map(|found| &mut found.cause)) {
        *text = arguments.without_secrets(text);
    }
    let mut origin = arguments.origin(version);
    origin.trouble.extend(signals.iter().map(|done| done.told.clone()));
    let count = arguments.connections as usize;
    let mut summary = Summary::new(&arguments.system, address.as_deref(), count, &options, &outcome, origin);
    if let Some(report) = driven.report {
        summary.come_from(report);
    }
    summary.lack_trouble(not_made(arguments, &signals, &outcome), arguments.without_trouble_if_impossible);
    summary.earlier_attempts.clone_from(&arguments.earlier_attempts);
    (summary.origin.started_at, summary.origin.ended_at) = (rfc3339(started), rfc3339(ended));
    let unwritten = files.and_then(|files| files.finish(&summary, &outcome.total, &resources).err());
    Ok(Finished { summary, unwritten })
}

/// Requested trouble that was not made. If the user stopped the run, the rest of the trouble does not count.
fn not_made(arguments: &RunArguments, signals: &[Done], outcome: &Outcome) -> Vec<String> {
    let signals = signals.iter().filter(|done| !done.made && !outcome.interrupted);
    arguments.trouble_not_made.iter().cloned().chain(signals.map(|done| done.told.clone())).collect()
}

/// Prints the names of what the run is about to create on the system, which would remain if this process were
/// killed.
fn announce(target: &Target) {
    let Some((kind, first, last)) = systems::made_by(target) else { return };
    let names =
        if first == last { format!("the {kind} {first}") } else { format!("the {kind}s {first} to {last}") };
    let system = &target.system;
    note(&format!("creates {names}; `tailrace bench clean {system}` removes leftovers if this is killed"));
}

/// Establishes and checks the connections, and queries the system's version.
fn connect(
    arguments: &RunArguments,
    target: &Target,
    options: &LoadOptions,
    clock: &Arc<dyn Clock>,
    stop: &Arc<AtomicBool>,
) -> Result<(Driver, Told), Failure> {
    if let Some(path) = &arguments.agent_key_file {
        // This checks `stop` itself.
        let driver = Driver::agents(path, arguments, target, options, clock, stop)?;
        let first = driver.address().and_then(|address| systems::addresses(address).next());
        let version = first.map(|address| version::ask(target, address)).unwrap_or_default();
        return Ok((driver, version));
    }
    let (target, clock, its_stop) = (target.clone(), Arc::clone(clock), Arc::clone(stop));
    let connected = aside(stop, move || {
        let mut opened = systems::open(&target)?;
        // An echo server of our own has the version of this program.
        let asked = opened.address.as_deref().filter(|_| opened.server.is_none());
        let first = asked.and_then(|address| systems::addresses(address).next());
        let version = first.map(|address| version::ask(&target, address)).unwrap_or_default();
        let complete = systems::set_up_unless(&mut opened.requesters, &target, &*clock, &its_stop)?;
        Ok::<_, BenchError>(complete.then_some((opened, version)))
    })?;
    match connected {
        Some(Ok(Some((opened, version)))) => Ok((Driver::Here(opened), version)),
        Some(Err(error)) if !stop.load(Ordering::Relaxed) => Err(error.into()),
        _ => Err("interrupted while connecting: nothing was measured".into()),
    }
}

/// How long to wait for a blocking operation after the run was stopped.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a blocking operation on a thread of its own, so that Ctrl-C can end the wait for it. `None` if it
/// did.
fn aside<T: Send + 'static>(
    stop: &AtomicBool,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (sender, receiver) = mpsc::channel();
    let send = move || {
        // After Ctrl-C the receiver is gone.
        let _ = sender.send(body());
    };
    let thread = std::thread::Builder::new().name("connect".to_owned()).spawn(send);
    thread.map_err(|error| format!("cannot start a thread: {}", plain(&error)))?;
    while !stop.load(Ordering::Relaxed) {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(found) => return Ok(Some(found)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
    Ok(receiver.recv_timeout(GRACE).ok())
}

/// Fails if the process does not exist, since its samples would be empty.
fn check_server(pid: Option<u32>) -> Result<(), Failure> {
    match pid {
        Some(pid) if !std::path::Path::new(&format!("/proc/{pid}")).exists() => {
            Err(format!("--server-pid: there is no process {pid} on this machine").into())
        }
        _ => Ok(()),
    }
}

fn tear_down(mut requesters: Vec<Box<dyn Requester>>, outcome: &Outcome, stop: &AtomicBool) {
    let torn_down =
        aside(stop, move || requesters.iter_mut().try_for_each(|requester| requester.tear_down()));
    let failure = match torn_down {
        Ok(Some(Ok(()))) => return,
        Ok(Some(Err(error))) => error.to_string(),
        Ok(None) => "the system did not answer in time".to_owned(),
        Err(error) => error.to_string(),
    };
    // After a broken connection this is no surprise.
    if outcome.failures.is_empty() {
        note(&format!("could not clean up: {failure}"));
    }
}

fn status(summary: &Summary) -> ExitCode {
    let (verdict, failures) = (&summary.verdict, &summary.failures);
    match verdict.kind() {
        VerdictKind::NothingMeasured => {
            // It is no failure, unless a connection broke.
            let status = if failures.is_empty() { Status::NothingMeasured } else { Status::Failed };
            let reason = verdict.nothing_measured.as_deref().unwrap_or_default();
            complain_with(&format!("nothing was measured: {reason}"), status);
            status.into()
        }
        VerdictKind::Invalid => {
            complain(&format!("the run is invalid: {}", verdict.reasons().join("; ")));
            ExitCode::FAILURE
        }
        VerdictKind::Valid | VerdictKind::Doubtful | VerdictKind::Interrupted => match failures.as_slice() {
            [] => ExitCode::SUCCESS,
            [first, ..] => {
                let failures = plural(failures.len() as u64, "failure");
                complain(&format!("the run ended with {failures}, the first: {first}"));
                ExitCode::FAILURE
            }
        },
    }
}

/// A number that distinguishes this run's messages from those of others.
fn run_number() -> u16 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mixed = now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 20);
    (mixed ^ (mixed >> 16) ^ (mixed >> 32)) as u16
}
