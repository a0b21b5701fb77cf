//! `cargo xtask bench kafka`: compares tailrace with Apache Kafka on this machine, as ratios with their
//! spread. `cargo xtask bench nats`: compares tailrace with nats-server; see `nats`. `cargo xtask bench
//! groups`: compares groups, transactions and compaction with Apache Kafka; see `groups`. `cargo xtask bench
//! cluster`: compares three nodes with three of Apache Kafka; see `cluster`. `cargo xtask bench security`:
//! measures what users, rules, quotas and TLS cost; see `security`. `cargo xtask bench subjects`: compares
//! the subject matcher with others; see `subjects`.
//!
//! The results are for people to read. They do not accept or reject a commit: a missed target is reported,
//! but it is not a failure. The measurements are in `parts`, the targets in `targets`.

mod client;
mod cluster;
mod groups;
mod lab;
mod limits;
mod machine;
mod nats;
mod options;
mod parts;
mod peers;
mod proc;
mod process;
mod progress;
mod report;
mod sample;
mod security;
mod servers;
mod setup;
mod stats;
mod subjects;
mod targets;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use lab::Lab;
use options::{Options, USAGE};
use parts::Part;
use peers::Peers;
use progress::Progress;
use report::{Plan, Report};
use sample::Record;
use setup::{binary, folders, run_number};
use targets::TARGETS;

const REPORT: &str = "kafka.md";
/// The name of the raw file in its folder.
const RAW_FILE: &str = "kafka.jsonl";
const PLAN: Plan = Plan {
    introduction: "# tailrace beside Apache Kafka

Written by `cargo xtask bench kafka`. [README.md](README.md) says how to read and how to repeat it.
Both servers run on the same machine in the same run, with the same clients, over plain TCP on
loopback, and take turns going first. A ratio is tailrace's figure divided by the other's in the same
round. Figures are medians (lowest..highest) of the rounds.
",
    parts: &Part::TITLES,
    targets: TARGETS,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask bench: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [first, rest @ ..] if process::is_become(first) => process::r#become(rest),
        [first, rest @ ..] if first == "kafka" => kafka(&Options::parse(rest)?),
        [first, rest @ ..] if first == "nats" => nats::run(rest),
        [first, rest @ ..] if first == "groups" => groups::run(rest),
        [first, rest @ ..] if first == "cluster" => cluster::run(rest),
        [first, rest @ ..] if first == "security" => security::run(rest),
        [first, rest @ ..] if first == "subjects" => subjects::run(rest),
        _ => {
            Err([USAGE, nats::USAGE, groups::USAGE, cluster::USAGE, security::USAGE, subjects::USAGE]
                .join("\n"))
        }
    }
}

fn kafka(options: &Options<Part>) -> Result<(), String> {
    let programs = ["blast-kafka", "openloop", "phys", "kafka/libs"];
    let peers = Peers::find(options.peers.as_deref(), &programs)?;
    let binary = binary(options.tailrace.as_deref())?;
    peers.sweep();
    let scratch = peers.scratch();
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let planned = options.parts.iter().map(|part| part.planned_s(options.rounds, options.quick)).sum();
    let mut lab = Lab {
        report: report(options, &peers, &scratch)?,
        progress: Progress::new(planned),
        rounds: options.rounds,
        quick: options.quick,
        kafka: None,
        scratch,
        binary,
        peers,
    };
    let outcome = measure(&mut lab, options);
    drop(lab.kafka.take());
    let _ = fs::remove_dir_all(&lab.scratch);
    println!("{}\n{}", lab.report.verdicts(), lab.report.path().display());
    outcome
}

/// Runs all parts, even if one fails.
fn measure(lab: &mut Lab, options: &Options<Part>) -> Result<(), String> {
    let mut failed = Vec::new();
    for part in &options.parts {
        lab.progress.begin(part.name(), part.planned_s(options.rounds, options.quick));
        if let Err(reason) = parts::run(*part, lab) {
            lab.progress.say(&format!("part {} failed: {reason}", part.name()));
            failed.push(format!("{}: {reason}", part.name()));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn report(options: &Options<Part>, peers: &Peers, scratch: &Path) -> Result<Report, String> {
    let peer = format!(
        "Kafka {}, librdkafka {}",
        peers.kafka_version(),
        machine::printed("pkg-config", &["--modversion", "rdkafka"])
    );
    let setting = machine::setting(scratch, peer, options.rounds, options.quick);
    let (folder, raw) = folders(options.out.as_deref(), options.quick);
    let record = Record::open(&raw, RAW_FILE, run_number()?, &setting)?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(Report::new(&folder.join(REPORT), record, &PLAN))
}
