//! `cargo xtask bench security`: what users, rules, quotas and TLS cost, beside a tailrace without them,
//! Apache Kafka and nats-server, as ratios with their spread.
//!
//! The loads come from `security_load`, an example of the crate `tailrace-bench`: raw requests over blocking
//! sockets, so that all servers get the same ones. As in the other comparisons, no result accepts or rejects
//! a commit.

mod loads;
mod programs;
mod servers;
mod targets;

use std::fs;

use super::lab::Lab;
use super::machine;
use super::peers::Peers;
use super::progress::Progress;
use super::report::{Plan, Report};
use super::sample::Record;
use super::setup::{binary, folders, run_number};
use programs::Programs;

pub(super) const USAGE: &str = "usage: cargo xtask bench security [OPTIONS]
  --only PART[,PART]   of rights decisions rule logins tls handshakes memory (all of them)
  --rounds N --quick --peers DIR --tailrace PATH --out DIR: as for kafka";

const PLAN: Plan = Plan {
    introduction: "# What security costs

Written by `cargo xtask bench security`. [README.md](README.md) says how to read and how to repeat it.
The servers run on the same machine in the same run, with the same clients on loopback, and take turns
going first. A ratio is tailrace's figure divided by the other's in the same round. Figures are medians
(lowest..highest) of the rounds.

*on* is a tailrace with 1,000 users, 10,000 rules, three quotas for each user that nobody reaches, and
required logins. *off* is one with none of that. Clients log in before the measured time. Kafka and
tailrace run without fsync. SCRAM uses 4,096 iterations. TLS is 1.3 with one certificate (P-256) for all
servers; sessions are not resumed. Memory of a connection is resident anonymous memory of a fresh server
beyond what it had with 50 connections, after 4 s of silence.
",
    parts: &[
        ("rights", "Produce, fetch and publish with everything on and with everything off"),
        ("decisions", "Decisions, with 10,000 rules"),
        ("rule", "A rule is changed, until it holds on open connections"),
        ("logins", "Connections that log in with SCRAM-SHA-256 and close"),
        ("tls", "Produce, fetch and publish over TLS"),
        ("handshakes", "Connections that make a TLS handshake and close"),
        ("memory", "Idle connections"),
    ],
    targets: targets::TARGETS,
};

pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let mut options = PLAN.options(arguments, USAGE)?;
    if !arguments.iter().any(|argument| argument == "--rounds") {
        // All of it within ten minutes.
        options.rounds = if options.quick { 1 } else { 3 };
    }
    let peers = Peers::find(options.peers.as_deref(), &["kafka/libs", "bin/nats-server"])?;
    let programs = Programs::build()?;
    let binary = binary(options.tailrace.as_deref())?;
    peers.sweep();
    let scratch = peers.scratch();
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let version = machine::printed(&peers.program("bin/nats-server").display().to_string(), &["--version"]);
    let peer = format!("Kafka {}, {version}", peers.kafka_version());
    let setting = machine::setting(&scratch, peer, options.rounds, options.quick);
    let (folder, raw) = folders(options.out.as_deref(), options.quick);
    let record = Record::open(&raw, "security.jsonl", run_number()?, &setting)?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let planned =
        options.parts.iter().map(|part| loads::planned_s(part, options.rounds, options.quick)).sum();
    let mut lab = Lab {
        report: Report::new(&folder.join("security.md"), record, &PLAN),
        progress: Progress::new(planned),
        rounds: options.rounds,
        quick: options.quick,
        kafka: None,
        scratch,
        binary,
        peers,
    };
    let mut failed = Vec::new();
    for part in &options.parts {
        lab.progress.begin(part, loads::planned_s(part, options.rounds, options.quick));
        if let Err(reason) = loads::run(part, &mut lab, &programs) {
            lab.progress.say(&format!("part {part} failed: {reason}"));
            failed.push(format!("{part}: {reason}"));
        }
    }
    let _ = fs::remove_dir_all(&lab.scratch);
    println!("{}\n{}", lab.report.verdicts(), lab.report.path().display());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let text = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(PLAN.options(&text("--only tls"), USAGE).unwrap().parts, ["tls"]);
        assert!(PLAN.options(&text("--only speed"), USAGE).err().unwrap().starts_with("no part 'speed'"));
    }

    #[test]
    fn every_target_belongs_to_a_part_and_everything_takes_ten_minutes_at_most() {
        for target in PLAN.targets {
            assert!(PLAN.parts.iter().any(|(name, _)| *name == target.part), "{}", target.what);
        }
        let planned = |rounds, quick| -> f64 {
            PLAN.parts.iter().map(|(part, _)| loads::planned_s(part, rounds, quick)).sum()
        };
        assert!(planned(3, false) <= 600.0 && planned(1, true) <= 130.0);
    }
}
