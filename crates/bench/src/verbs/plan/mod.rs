//! `tailrace bench run PLAN.toml`: systems x workloads, in turn, for several rounds. It resumes where it
//! stopped.
//!
//! Each run has its own folder `SYSTEM/WORKLOAD/round-N`. A run that has a result is not repeated, unless it
//! was interrupted or is invalid. A result that replaces another one says so. Systems take turns within each
//! round, and a different one starts each round.

mod agents;
mod format;
mod system;
mod table;
mod trouble;
mod turn;
mod version;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tailrace_cli::failure::{Failure, complain, note, plain};
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::RunArguments;
use super::files::write_whole;
use super::interrupt::stop_on_interrupt;
use super::run::execute;
use super::secrets;
use super::server::Server;
use crate::verdict::Verdict;
use format::Plan;
use turn::{Turn, Why, check_force, turns};

/// How often to check whether a wait was ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn run(path: &Path, arguments: &RunArguments) -> Result<ExitCode, Failure> {
    let (plan, text) = Plan::read(path)?;
    let out = arguments.out.as_deref().ok_or("a plan needs --out DIR for its results")?;
    let turns = turns(&plan);
    check_force(&arguments.force, &turns)?;
    claim(out, &text)?;
    let stop = stop_on_interrupt();
    let mut failed = 0;
    for repetition in 0..=arguments.repeat_invalid {
        failed += pass(&plan, &turns, repetition == 0, arguments, &stop);
    }
    let results = table::collect(&plan, out);
    match arguments.output {
        Output::Json => print_json(&results)?,
        Output::Text => print(&table::render(&results, plan.rounds))?,
    }
    super::report::leave_page(out, arguments.output)?;
    if stop.load(Ordering::Relaxed) {
        return Err("interrupted: the same command continues from here".into());
    }
    let mut complaints = worthless(&plan, &turns, out);
    if failed > 0 {
        complaints.push(format!("{failed} runs failed; the same command tries them again"));
    }
    complaints.iter().for_each(|complaint| complain(complaint));
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs what is due. Returns how many runs failed.
fn pass(
    plan: &Plan,
    turns: &[Turn<'_>],
    first: bool,
    arguments: &RunArguments,
    stop: &Arc<AtomicBool>,
) -> u32 {
    let Some(out) = &arguments.out else { return 0 };
    let mut failed = 0;
    for (number, turn) in turns.iter().enumerate() {
        let Some(why) = turn.is_due(out, first, &arguments.force) else { continue };
        if stop.load(Ordering::Relaxed) {
            break;
        }
        note(&match why {
            Why::Missing => format!("run {} of {}: {}", number + 1, turns.len(), turn.title()),
            Why::Again(headline) => format!("repeats {}, which was {headline}", turn.name()),
        });
        if let Err(error) = one(plan, turn, out, arguments, stop) {
            failed += 1;
            complain(&format!("{}: {error}", turn.title()));
        }
        pause(plan.pause, stop);
    }
    failed
}

/// Problems of existing results: invalid ones, lost agents, connections broken at the end.
fn worthless(plan: &Plan, turns: &[Turn<'_>], out: &Path) -> Vec<String> {
    let results: Vec<(String, Value)> =
        turns.iter().filter_map(|turn| Some((turn.name(), turn.result(out)?))).collect();
    let named = |is_so: &dyn Fn(&Value) -> bool| -> Vec<&str> {
        results.iter().filter(|(_, result)| is_so(result)).map(|(name, _)| name.as_str()).collect()
    };
    let mut complaints = Vec::new();
    let is_cut_short = |result: &Value| result["interrupted"] == true;
    let cut_short = named(&is_cut_short);
    if !cut_short.is_empty() {
        let names = cut_short.join(", ");
        complaints.push(format!("an agent was lost in {names}; the same command runs that again"));
    }
    let invalid = named(&|result| !is_cut_short(result) && !Verdict::of_result(result).is_valid());
    if !invalid.is_empty() {
        let (count, all, names) = (invalid.len(), turns.len(), invalid.join(", "));
        complaints.push(format!(
            "{count} of {all} runs are invalid or measured nothing: {names}; the same command runs invalid ones again"
        ));
    }
    // If trouble was requested, connections may be broken at the end.
    let broken = named(&|result| {
        let failed = result["failures"].as_array().is_some_and(|list| !list.is_empty());
        failed && plan.trouble.is_none() && !is_cut_short(result)
    });
    if !broken.is_empty() {
        complaints.push(format!("connections were broken at the end of {}", broken.join(", ")));
    }
    complaints
}

/// Waits, unless Ctrl-C ends it.
fn pause(length: Duration, stop: &AtomicBool) {
    let end = Instant::now() + length;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Claims the folder. It must be new, or belong to the same plan, a copy of which is in it, without
/// passwords.
fn claim(out: &Path, text: &str) -> Result<(), Failure> {
    let text = secrets::plan(text);
    let path = out.join("plan.toml");
    let wrong = |error: &io::Error| format!("cannot use {}: {}", path.display(), plain(error));
    match fs::read_to_string(&path) {
        Ok(found) if secrets::plan(&found) == text => Ok(()),
        Ok(_) => Err(format!("{} belongs to another plan: choose another folder", out.display()).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(out)
            .map_err(|error| wrong(&error).into())
            .and_then(|()| write_whole(&path, text.as_bytes())),
        Err(error) => Err(wrong(&error).into()),
    }
}

fn one(
    plan: &Plan,
    turn: &Turn<'_>,
    out: &Path,
    arguments: &RunArguments,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    // Before anything of an earlier run is removed. It is dropped after the server that runs in it.
    let allowed = arguments.without_trouble_if_impossible;
    let surroundings = turn.trouble.map(|trouble| trouble.surround(allowed)).transpose()?.unwrap_or_default();
    let (folder, earlier_attempts) = (turn.folder(out), turn.attempts(out));
    let folder = folder.as_path();
    // Leftovers of an interrupted run must not be mixed with this one.
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| format!("cannot clear {}: {}", folder.display(), plain(&error)))?;
    }
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot create {}: {}", folder.display(), plain(&error)))?;
    let mut run = plan.run(turn.system, turn.workload, surroundings.host())?;
    run.trouble.extend(surroundings.told.clone());
    run.trouble_not_made.extend(surroundings.not_made.clone());
    (run.without_trouble_if_impossible, run.earlier_attempts) = (allowed, earlier_attempts);
    run.out = Some(folder.to_owned());
    run.program = arguments.program;
    (run.progress, run.quiet) = (arguments.progress, arguments.quiet);
    let log = folder.join("server.log");
    let server =
        turn.system.server.as_ref().map(|server| server.on(surroundings.host(), surroundings.prefix()));
    let server = server.map(|server| Server::start(&server, &log, stop)).transpose()?;
    if let Some(command) = &turn.system.version {
        run.version_command_output = Some(version::ask("version", command, stop)?);
    }
    if let Some(command) = &turn.system.commit {
        run.commit_command_output = Some(version::ask("commit", command, stop)?);
    }
    let proxy = turn.trouble.map_or(Ok(Vec::new()), |trouble| trouble.apply(&mut run))?;
    run.server = server.map(Arc::new);
    let result = execute(&run, stop);
    drop(proxy);
    let finished = result?;
    match finished.unwritten {
        None => Ok(()),
        Some(error) => {
            // It is not shown anywhere else.
            let _ = write!(io::stderr(), "{}", super::table::render(&finished.summary));
            Err(error)
        }
    }
}
