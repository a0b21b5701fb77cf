//! The parts of the comparison: which servers, under which loads.

use std::path::Path;

use super::super::client::parse_blast;
use super::super::lab::{Lab, Slot, alternated, succeeded};
use super::super::nats::measured::{Outcome, Program, outcome};
use super::super::proc;
use super::super::servers::{self, Durability, Endpoint, Flush, JVM, Server};

/// Kafka's own default heap is 1 GiB. Here the heap starts smaller and may grow to that size, so that memory
/// that Kafka does not need does not count.
const COMPACTION_JVM: &[&str] =
    &["-Xms128m", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true"];

/// Settings of both servers: no delays of their own, heartbeats every 100 ms, and a cleaner that checks
/// often.
const SETTINGS: &[&str] = &[
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.min.assignment.interval.ms=0",
    "log.cleaner.backoff.ms=100",
    "log.segment.delete.delay.ms=1000",
];

const MEMBERS: &str = "100";
const COMMITS_PER_S: &str = "1000";
const RECORDS: u64 = 10_000_000;
const KEYS: u64 = 1_000_000;
/// The approximate size of one record of the compaction load.
const RECORD_BYTES: u64 = 120;

/// The expected duration of a part on two cores: that of the preparation plus that of each round.
pub(super) fn planned_s(part: &str, rounds: u32, quick: bool) -> f64 {
    let (once, round) = match part {
        "rebalance" => (15.0, 25.0),
        "commits" => (15.0, 40.0),
        "transactions" => (15.0, 60.0),
        _ => (0.0, 150.0),
    };
    let seconds = once + round * f64::from(rounds);
    if quick { seconds / 3.0 } else { seconds }
}

pub(super) fn run(part: &str, lab: &mut Lab, program: &Path) -> Result<(), String> {
    match part {
        "rebalance" => rebalance(lab, program),
        "commits" => commits(lab, program),
        "transactions" => transactions(lab, program),
        "compaction" => compaction(lab, program),
        _ => Err("no such part".to_owned()),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn tailrace(lab: &Lab, durability: Durability) -> Result<Server, String> {
    let data = servers::empty(lab.scratch.join("tailrace"))?;
    servers::tailrace_with(&lab.binary, &lab.scratch, &data, durability, SETTINGS)
}

fn kafka(lab: &Lab, jvm: &[&str]) -> Result<Server, String> {
    let mut properties = SETTINGS.join("\n");
    properties.push('\n');
    servers::kafka_with(&lab.peers, &lab.scratch, Flush::Default, &properties, jvm)
}

/// Runs a load and keeps its result.
fn keep(
    lab: &mut Lab,
    slot: Slot,
    endpoint: &Endpoint,
    path: &Path,
    arguments: &[String],
) -> Result<(), String> {
    let program = Program { path, arguments, parse: parse_blast };
    let Outcome { figures, failed, line } = outcome(lab, endpoint, &program)?;
    lab.keep(slot, endpoint.system, figures, failed, line)
}

/// Runs the same load without keeping the result: a JVM interprets before it compiles, and coordinators load
/// at their first request.
fn warm(lab: &Lab, endpoint: &Endpoint, program: &Path, arguments: &[String]) -> Result<(), String> {
    let finished = lab.tool_at(program, arguments)?;
    succeeded(&format!("groupsload on {}", endpoint.system), &finished)
}

fn rebalance(lab: &mut Lab, program: &Path) -> Result<(), String> {
    let ours = tailrace(lab, Durability::Relaxed)?;
    let theirs = kafka(lab, JVM)?;
    let arguments = |mode: &str, endpoint: &Endpoint, name: &str| {
        words(&[mode, "-addr", &endpoint.address, "-name", name, "-members", MEMBERS])
    };
    for endpoint in [ours.endpoint(), theirs.endpoint()] {
        for mode in ["classic", "modern"] {
            for turn in 0..3 {
                warm(lab, &endpoint, program, &arguments(mode, &endpoint, &format!("warm-{mode}-{turn}")))?;
            }
        }
    }
    for round in 1..=lab.rounds {
        for mode in ["classic", "modern"] {
            for endpoint in alternated(round, &ours.endpoint(), &theirs.endpoint()) {
                let slot = Slot { part: "rebalance", load: mode, round };
                let arguments = arguments(mode, &endpoint, &format!("{mode}-{round}"));
                keep(lab, slot, &endpoint, program, &arguments)?;
            }
        }
    }
    theirs.discard()?;
    ours.discard()
}

/// Runs loads on both servers, tailrace without fsync like Kafka. Then runs them on tailrace alone, with
/// fsync.
fn relaxed_and_strict(
    lab: &mut Lab,
    program: &Path,
    part: &'static str,
    loads: &[(&'static str, Option<&'static str>)],
    arguments: &dyn Fn(&str, &Endpoint, &str) -> Vec<String>,
) -> Result<(), String> {
    let theirs = kafka(lab, JVM)?;
    for load in loads {
        warm(lab, &theirs.endpoint(), program, &arguments(load.0, &theirs.endpoint(), "warm"))?;
    }
    for round in 1..=lab.rounds {
        let ours = tailrace(lab, Durability::Relaxed)?;
        for (load, _) in loads {
            for endpoint in alternated(round, &ours.endpoint(), &theirs.endpoint()) {
                let name = format!("{part}-{}-{round}", load.replace([' ', ','], ""));
                let slot = Slot { part, load, round };
                keep(lab, slot, &endpoint, program, &arguments(load, &endpoint, &name))?;
            }
        }
        ours.discard()?;
        let ours = tailrace(lab, Durability::Strict)?;
        for strict in loads.iter().filter_map(|(_, strict)| *strict) {
            let endpoint = ours.endpoint();
            let slot = Slot { part, load: strict, round };
            keep(lab, slot, &endpoint, program, &arguments(strict, &endpoint, "strict"))?;
        }
        ours.discard()?;
    }
    theirs.discard()
}

fn commits(lab: &mut Lab, program: &Path) -> Result<(), String> {
    let seconds = if lab.quick { "3" } else { "10" };
    relaxed_and_strict(lab, program, "commits", &[("relaxed", Some("strict"))], &|_, endpoint, name| {
        let address = &endpoint.address;
        let fixed = ["commits", "-addr", address, "-name", name, "-members", MEMBERS, "-rate", COMMITS_PER_S];
        words(&[&fixed[..], &["-seconds", seconds]].concat())
    })
}

fn transactions(lab: &mut Lab, program: &Path) -> Result<(), String> {
    let seconds = if lab.quick { "3" } else { "10" };
    let loads = [("relaxed", Some("strict")), ("relaxed, one", None)];
    relaxed_and_strict(lab, program, "transactions", &loads, &|load, endpoint, name| {
        let producers = if load.ends_with("one") { "1" } else { "8" };
        let address = &endpoint.address;
        // The topic has a partition for each producer.
        let name = format!("{name}-{producers}");
        words(&["transactions", "-addr", address, "-name", &name, "-members", producers, "-seconds", seconds])
    })
}

/// Measures compaction on each server in turn, alone on the machine. Fills the log, restarts the server so
/// that its memory is that of an idle server, then triggers compaction.
fn compaction(lab: &mut Lab, program: &Path) -> Result<(), String> {
    let (records, keys) = (lab.scaled(RECORDS).to_string(), lab.scaled(KEYS).to_string());
    for round in 1..=lab.rounds {
        let mut systems = ["tailrace", "kafka"];
        if round % 2 == 0 {
            systems.reverse();
        }
        for system in systems {
            lab.warm_free_memory(RECORDS * RECORD_BYTES);
            let is_kafka = system == "kafka";
            let server =
                if is_kafka { kafka(lab, COMPACTION_JVM)? } else { tailrace(lab, Durability::Relaxed)? };
            let endpoint = server.endpoint();
            let arguments = |mode: &str, endpoint: &Endpoint| {
                let data = endpoint.data.display().to_string();
                let fixed = [mode, "-addr", &endpoint.address, "-name", "compacted", "-n", &records];
                words(&[&fixed[..], &["-keys", &keys, "-data", &data]].concat())
            };
            warm(lab, &endpoint, program, &arguments("fill", &endpoint))?;
            let data = server.stop()?;
            let server = if is_kafka {
                servers::kafka_again(&lab.peers, &lab.scratch, &endpoint.address, &data, COMPACTION_JVM)?
            } else {
                servers::tailrace_with(&lab.binary, &lab.scratch, &data, Durability::Relaxed, SETTINGS)?
            };
            lab.settle();
            let endpoint = server.endpoint();
            let idle = proc::memory_mib(endpoint.pid, "VmRSS");
            let arguments = arguments("compact", &endpoint);
            let program = Program { path: program, arguments: &arguments, parse: parse_blast };
            let Outcome { mut figures, failed, line } = outcome(lab, &endpoint, &program)?;
            if let (Some(idle), Some(peak)) = (idle, figures.get("peak_rss_mib").copied()) {
                figures.insert("idle_rss_mib".to_owned(), idle);
                figures.insert("more_rss_mib".to_owned(), peak - idle);
            }
            let slot = Slot { part: "compaction", load: "compaction", round };
            lab.keep(slot, endpoint.system, figures, failed, line)?;
            server.discard()?;
        }
    }
    Ok(())
}
