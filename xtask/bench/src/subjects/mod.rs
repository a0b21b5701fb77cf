//! `cargo xtask bench subjects`: compares the subject matcher with nats-server's sublist and the five
//! classical algorithms.
//!
//! The measuring programs are in `crates/subjects-bench`. One process measures one system in one part. A run
//! does not count if two systems find different subscriptions for the same subjects. Missed targets are
//! reported, but they are not failures.

mod build;
mod options;
mod part;
mod parts;
mod plan;
mod plots;
mod report;
mod targets;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::machine;
use super::process::Tool;
use super::progress::Progress;
use super::sample::{Figures, Record, Sample};
use super::setup::run_number;
use build::Programs;
use options::Options;
use part::Part;
use plan::Job;
use xtask::run::root;

pub(super) use options::USAGE;

const FOLDER: &str = "target/subjects-bench";
const RAW_FILE: &str = "subjects.jsonl";
/// Quick runs have a separate file, so that none of their figures replaces a real one.
const QUICK_FILE: &str = "subjects-quick.jsonl";
/// The time limit of a process, on top of its measurements. A process builds its table, then measures up to
/// 160 combinations. One that takes longer is stuck.
const PROCESS_LIMIT: Duration = Duration::from_secs(180);
const MEASUREMENTS_MAX: f64 = 200.0;
/// About the memory of the largest process.
const WARM_BYTES: u64 = 4 << 30;

/// A line that the programs print for each measurement.
#[derive(Deserialize)]
struct Line {
    load: String,
    system: String,
    figures: Figures,
    check: String,
}

struct Bench<'a> {
    options: &'a Options,
    programs: Programs,
    progress: Progress,
    record: Record,
    scratch: PathBuf,
    /// The subscriptions that the first system found, as a check value, by part and load.
    checks: BTreeMap<(String, String), String>,
}

pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let folder = options.out.clone().unwrap_or_else(|| root().join(FOLDER));
    let raw = if options.quick { QUICK_FILE } else { RAW_FILE };
    let outcome = if options.write_only { Ok(()) } else { measure(&options, &folder, raw) };
    let newest = Record::read(&folder, raw).newest();
    println!("{}", report::tables(&newest));
    if options.write || options.write_only {
        report::write(&newest, &folder)?;
    }
    outcome
}

fn measure(options: &Options, folder: &std::path::Path, raw: &str) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let programs = Programs::build(options)?;
    let setting = machine::setting(folder, programs.peer(), options.rounds, options.quick);
    let planned = options.parts.iter().map(|part| part.planned_s(options)).sum();
    let mut bench = Bench {
        options,
        programs,
        progress: Progress::new(planned),
        record: Record::open(folder, raw, run_number()?, &setting)?,
        scratch: folder.to_owned(),
        checks: BTreeMap::new(),
    };
    if options.no_nats {
        bench.progress.say("without nats: there will be no ratios to it");
    }
    machine::warm_free_memory(WARM_BYTES);
    let mut failed = Vec::new();
    for part in &options.parts {
        bench.progress.begin(part.name(), part.planned_s(options));
        for round in 1..=part.rounds(options.rounds) {
            for job in part.jobs(options, round) {
                if let Err(reason) = bench.measure(*part, &job, round) {
                    bench.progress.say(&format!("{} {} failed: {reason}", part.name(), job.system));
                    failed.push(format!("{} {}: {reason}", part.name(), job.system));
                }
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

impl Bench<'_> {
    fn measure(&mut self, part: Part, job: &Job, round: u32) -> Result<(), String> {
        let program = self.programs.of(job)?;
        let mut arguments = vec![job.part.to_owned(), job.system.to_owned()];
        arguments.extend_from_slice(&job.arguments);
        let name = format!("{}-{}", part.name(), job.system);
        let limit = PROCESS_LIMIT + Duration::from_secs_f64(self.options.seconds * MEASUREMENTS_MAX);
        let finished = Tool::start(&self.scratch, &name, &program, &arguments)?.finish(limit)?;
        let rounds = part.rounds(self.options.rounds);
        for text in finished.stdout.lines() {
            let line: Line = serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
            let sample = self.sample(part, round, line, text);
            self.progress.sample(&sample, rounds);
            self.record.add(sample)?;
        }
        if finished.status.success() {
            return Ok(());
        }
        Err(format!("{}: {}", finished.status, finished.stderr.trim()))
    }

    fn sample(&mut self, part: Part, round: u32, line: Line, text: &str) -> Sample {
        let key = (part.name().to_owned(), line.load.clone());
        let expected = self.checks.entry(key).or_insert_with(|| line.check.clone());
        let failed = (*expected != line.check)
            .then(|| format!("it found {} where another system found {expected}", line.check));
        Sample {
            part: part.name().to_owned(),
            load: line.load,
            system: line.system,
            round,
            figures: line.figures,
            failed,
            line: text.to_owned(),
        }
    }
}
