//! `tailrace bench run PLAN.toml`: systems x workloads, in turn, several rounds, and again from where it stopped.
//!
//! Each run leaves its folder `SYSTEM/WORKLOAD/round-N`. A run whose result is there is not repeated; one that was
//! interrupted is. Systems take turns within each round, and another one begins each round.

mod agents;
mod format;
mod namespace;
mod netem;
mod server;
mod trouble;
mod version;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::RunArguments;
use super::files::write_whole;
use super::run::{execute, stop_on_interrupt};
use super::secrets;
use super::table::{self, milliseconds};
use crate::args::Output;
use crate::failure::{Failure, complain, note, plain};
use crate::output::{print, print_json};
use crate::text::table::Table;
use format::{Plan, PlannedSystem, Workload};
pub(super) use namespace::{NETEM, namespaces_left, remove_namespaces};
pub(super) use server::Server;
use trouble::TroublePlan;

/// How often a wait looks whether it was ended.
const LOOK: Duration = Duration::from_millis(20);

/// Percentiles of the table at the end.
const SHOWN: [(&str, &str); 4] = [("0.5", "P50"), ("0.99", "P99"), ("0.999", "P99.9"), ("1", "MAX")];

pub(super) fn run(path: &Path, arguments: &RunArguments) -> Result<ExitCode, Failure> {
    let (plan, text) = Plan::read(path)?;
    let out = arguments.out.as_deref().ok_or("a plan needs --out DIR for its results")?;
    claim(out, &text)?;
    let stop = stop_on_interrupt();
    let turns = turns(&plan);
    let mut failed = 0_u32;
    for (done, turn) in turns.iter().enumerate() {
        let folder = turn.folder(out);
        if is_complete(&folder) {
            continue;
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        note(&format!("run {} of {}: {}", done + 1, turns.len(), turn.title()));
        if let Err(error) = one(&plan, turn, &folder, arguments, &stop) {
            failed += 1;
            complain(&format!("{}: {error}", turn.title()));
        }
        pause(plan.pause, &stop);
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let results = collect(&plan, out);
    match arguments.output {
        Output::Json => print_json(&results)?,
        Output::Text => print(&render(&results))?,
    }
    if interrupted {
        return Err("interrupted: the same command goes on from here".into());
    }
    if failed > 0 {
        return Err(format!("{failed} runs failed; the same command tries them again").into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits, until Ctrl-C.
fn pause(length: Duration, stop: &AtomicBool) {
    let end = Instant::now() + length;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
}

/// For a program that ends at once: kills the server that runs, and removes what was made for it.
pub(super) fn give_up() {
    server::kill_servers();
    namespace::remove_active();
}

/// One run of a plan.
struct Turn<'a> {
    round: u32,
    system: &'a PlannedSystem,
    workload: &'a Workload,
    trouble: Option<&'a TroublePlan>,
}

impl Turn<'_> {
    fn folder(&self, out: &Path) -> PathBuf {
        out.join(&self.system.name).join(&self.workload.name).join(format!("round-{}", self.round))
    }

    fn title(&self) -> String {
        format!("{}, {}, round {}", self.system.name, self.workload.name, self.round)
    }
}

/// Systems alternate within a round, so that a machine that slows down slows all of them down.
fn turns(plan: &Plan) -> Vec<Turn<'_>> {
    let mut turns = Vec::new();
    for round in 1..=plan.rounds {
        for workload in &plan.workloads {
            for place in 0..plan.systems.len() {
                let system = &plan.systems[(place + round as usize - 1) % plan.systems.len()];
                turns.push(Turn { round, system, workload, trouble: plan.trouble.as_ref() });
            }
        }
    }
    turns
}

/// The folder must be new, or belong to the same plan, which stands there without passwords.
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

fn is_complete(folder: &Path) -> bool {
    load(folder).is_some_and(|result| result["interrupted"] == false)
}

fn load(folder: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(folder.join("result.json")).ok()?).ok()
}

fn one(
    plan: &Plan,
    turn: &Turn<'_>,
    folder: &Path,
    arguments: &RunArguments,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    // What an interrupted run left behind is not mixed with this one.
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| format!("cannot clear {}: {}", folder.display(), plain(&error)))?;
    }
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot make {}: {}", folder.display(), plain(&error)))?;
    // Dropped behind the server that is in it.
    let surroundings = turn.trouble.map(TroublePlan::surround).unwrap_or_default();
    let mut run = plan.run(turn.system, turn.workload, surroundings.host())?;
    run.trouble.extend(surroundings.told.clone());
    run.out = Some(folder.to_owned());
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
            // Nobody will find it anywhere else.
            let _ = write!(io::stderr(), "{}", table::render(&finished.summary));
            Err(error)
        }
    }
}

/// What is there, by workload and system.
fn collect(plan: &Plan, out: &Path) -> Value {
    let mut rows = Vec::new();
    for workload in &plan.workloads {
        for system in &plan.systems {
            let results: Vec<Value> = (1..=plan.rounds)
                .filter_map(|round| load(&Turn { round, system, workload, trouble: None }.folder(out)))
                .filter(|result| result["interrupted"] == false)
                .collect();
            for name in ["acknowledgement", "receipt"] {
                rows.extend(row(&workload.name, &system.name, name, &results));
            }
        }
    }
    Value::Array(rows)
}

/// Median (of an even number the upper one), least and greatest over the rounds, of each percentile; never a mean.
fn row(workload: &str, system: &str, name: &str, results: &[Value]) -> Option<Value> {
    let mut percentiles = serde_json::Map::new();
    for (quantile, _) in SHOWN {
        let mut values: Vec<u64> = results
            .iter()
            .filter_map(|result| result["latency"][name]["quantiles_ns"][quantile].as_u64())
            .collect();
        values.sort_unstable();
        let (least, greatest) = (*values.first()?, *values.last()?);
        let median = values[values.len() / 2];
        percentiles.insert(
            quantile.to_owned(),
            serde_json::json!({"median_ns": median, "least_ns": least, "greatest_ns": greatest}),
        );
    }
    let valid = results.iter().filter(|result| result["valid"] == true).count();
    Some(serde_json::json!({
        "workload": workload, "system": system, "distribution": name,
        "runs": results.len(), "valid_runs": valid, "percentiles": percentiles,
    }))
}

fn render(results: &Value) -> String {
    let mut head = vec!["WORKLOAD", "SYSTEM", "MILLISECONDS"];
    head.extend(SHOWN.iter().map(|(_, label)| *label));
    head.push("VALID");
    let mut table = Table::new(0, &head);
    for result in results.as_array().into_iter().flatten() {
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        let mut cells = vec![text("workload"), text("system"), text("distribution")];
        for (quantile, _) in SHOWN {
            let found = &result["percentiles"][quantile];
            let at = |key: &str| milliseconds(found[key].as_u64().unwrap_or(0));
            cells.push(format!("{} ({}..{})", at("median_ns"), at("least_ns"), at("greatest_ns")));
        }
        cells.push(format!("{} of {}", result["valid_runs"], result["runs"]));
        table.row(cells);
    }
    format!(
        "{}median (least..greatest) over rounds; `bench compare` tells noise from difference\n",
        table.render()
    )
}
