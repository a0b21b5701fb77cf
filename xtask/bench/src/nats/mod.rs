//! `cargo xtask bench nats`: compares tailrace's NATS front with nats-server, Redis and the bare echo, as
//! ratios with their spread.
//!
//! The measuring programs are those of the peers (blast-nats, openloop), and `natsload` of interop/go for
//! loads that those do not support. As in the other comparisons, no result accepts or rejects a commit.

mod loads;
pub(super) mod measured;
mod targets;

use std::fs;

use super::lab::Lab;
use super::machine;
use super::options::Options;
use super::peers::Peers;
use super::progress::Progress;
use super::report::{Plan, Report};
use super::sample::Record;
use super::setup::{binary, folders, go_program, run_number};

pub(super) const USAGE: &str = "usage: cargo xtask bench nats [OPTIONS]
  --only PART[,PART]   of core million latency captured fsync (all of them)
  --rounds N --quick --peers DIR --tailrace PATH --out DIR: as for kafka";

const PLAN: Plan = Plan {
    introduction: "# tailrace beside nats-server

Written by `cargo xtask bench nats`. [README.md](README.md) says how to read and how to repeat it.
The servers run on the same machine in the same run, with the same clients, over plain TCP on
loopback, and take turns going first. A ratio is tailrace's figure divided by the other's in the same
round. Figures are medians (lowest..highest) of the rounds.
",
    parts: &[
        ("core", "Publish and subscribe at full throttle: payload, publishers x subscribers"),
        ("million", "One million subscriptions with unique subjects, 1 % replaced each second"),
        ("latency", "Response time, open loop, publish to receipt"),
        ("captured", "Publishing with acknowledgement to the log, 1 KB, neither with fsync"),
        ("fsync", "Response time with fsync before every acknowledgement"),
    ],
    targets: targets::TARGETS,
};

pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let options = PLAN.options(arguments, USAGE)?;
    let programs = ["blast-nats", "openloop", "phys", "bin/nats-server"];
    let peers = Peers::find(options.peers.as_deref(), &programs)?;
    let natsload = go_program("natsload")?;
    let binary = binary(options.tailrace.as_deref())?;
    peers.sweep();
    let scratch = peers.scratch();
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let version = machine::printed(&peers.program("bin/nats-server").display().to_string(), &["--version"]);
    let setting = machine::setting(&scratch, version, options.rounds, options.quick);
    let (folder, raw) = folders(options.out.as_deref(), options.quick);
    let record = Record::open(&raw, "nats.jsonl", run_number()?, &setting)?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let planned =
        options.parts.iter().map(|part| loads::planned_s(part, options.rounds, options.quick)).sum();
    let mut lab = Lab {
        report: Report::new(&folder.join("nats.md"), record, &PLAN),
        progress: Progress::new(planned),
        rounds: options.rounds,
        quick: options.quick,
        kafka: None,
        scratch,
        binary,
        peers,
    };
    let outcome = measure(&mut lab, &options, &natsload);
    let _ = fs::remove_dir_all(&lab.scratch);
    println!("{}\n{}", lab.report.verdicts(), lab.report.path().display());
    outcome
}

/// Runs all parts, even if one fails.
fn measure(lab: &mut Lab, options: &Options<&'static str>, natsload: &std::path::Path) -> Result<(), String> {
    let mut failed = Vec::new();
    for part in &options.parts {
        lab.progress.begin(part, loads::planned_s(part, options.rounds, options.quick));
        if let Err(reason) = loads::run(part, lab, natsload) {
            lab.progress.say(&format!("part {part} failed: {reason}"));
            failed.push(format!("{part}: {reason}"));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options<&'static str>, String> {
        PLAN.options(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), USAGE)
    }

    #[test]
    fn defaults_are_everything_five_times() {
        let options = parse("").unwrap();
        assert_eq!((options.parts.len(), options.rounds, options.quick), (PLAN.parts.len(), 5, false));
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |text| parse(text).err().unwrap();
        assert!(wrong("--only speed").starts_with("no part 'speed'"));
        assert!(wrong("--fast").starts_with("unknown argument '--fast'"));
    }

    #[test]
    fn every_target_belongs_to_a_part() {
        for target in PLAN.targets {
            assert!(PLAN.parts.iter().any(|(name, _)| *name == target.part), "{}", target.what);
        }
    }
}
