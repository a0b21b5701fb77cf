//! `cargo xtask bench groups`: compares consumer groups, commits, transactions and compaction with Apache
//! Kafka, as ratios with their spread.
//!
//! The loads come from `groupsload` in interop/go. It scripts members and committers from raw requests, so
//! that both servers receive the same requests. Kafka does not sync by default, so the comparison runs
//! tailrace without fsync. The report also has tailrace's figures with fsync. As in the other comparisons, no
//! result accepts or rejects a commit.

mod loads;
mod targets;

use std::fs;

use super::lab::Lab;
use super::machine;
use super::peers::Peers;
use super::progress::Progress;
use super::report::{Plan, Report};
use super::sample::Record;
use super::setup::{binary, folders, go_program, run_number};

pub(super) const USAGE: &str = "usage: cargo xtask bench groups [OPTIONS]
  --only PART[,PART]   of rebalance commits transactions compaction (all of them)
  --rounds N --quick --peers DIR --tailrace PATH --out DIR: as for kafka";

const PLAN: Plan = Plan {
    introduction: "# Groups, transactions and compaction beside Apache Kafka

Written by `cargo xtask bench groups`. [README.md](README.md) says how to read and how to repeat it.
Both servers run on the same machine in the same run, with the same clients, over plain TCP on
loopback, and take turns going first. A ratio is tailrace's figure divided by Kafka's in the same
round. Figures are medians (lowest..highest) of the rounds. Both servers run with initial delay 0,
assignment interval 0, heartbeats every 100 ms and cleaner backoff 100 ms. Kafka does not sync before
it acknowledges, so it is compared with a tailrace that does not either (`flush.messages`). *strict*
is tailrace with its defaults.

The broker time of a classic rebalance is the time from the last JoinGroup to its last response, plus
that from the last SyncGroup to its last response. It does not include the time that members wait
until their next heartbeat is due. The broker time of a KIP-848 rebalance is the time during which at
least one heartbeat was unanswered, from the departure until all partitions are assigned. Commits are
an open loop: a commit's response time counts from the moment at which it was due. Kafka's heap is 1
to 2 GiB. For compaction it is 128 MiB to 1 GiB, the process is restarted after the log was filled,
and memory is the peak over that of the idle process.
",
    parts: &[
        ("rebalance", "A rebalance of a group of 100 scripted members"),
        ("commits", "1,000 offset commits per second from 100 groups, open loop"),
        ("transactions", "Transactions of 100 records of 1 KB"),
        ("compaction", "Compaction of 10 million records of 100 B over 1 million keys"),
    ],
    targets: targets::TARGETS,
};

pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let options = PLAN.options(arguments, USAGE)?;
    let peers = Peers::find(options.peers.as_deref(), &["kafka/libs"])?;
    let program = go_program("groupsload")?;
    let binary = binary(options.tailrace.as_deref())?;
    peers.sweep();
    let scratch = peers.scratch();
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let peer = format!("Kafka {}", peers.kafka_version());
    let setting = machine::setting(&scratch, peer, options.rounds, options.quick);
    let (folder, raw) = folders(options.out.as_deref(), options.quick);
    let record = Record::open(&raw, "groups.jsonl", run_number()?, &setting)?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let planned =
        options.parts.iter().map(|part| loads::planned_s(part, options.rounds, options.quick)).sum();
    let mut lab = Lab {
        report: Report::new(&folder.join("groups.md"), record, &PLAN),
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
        if let Err(reason) = loads::run(part, &mut lab, &program) {
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
        assert_eq!(PLAN.options(&text("--only commits"), USAGE).unwrap().parts, ["commits"]);
        assert!(PLAN.options(&text("--only speed"), USAGE).err().unwrap().starts_with("no part 'speed'"));
    }

    #[test]
    fn every_target_belongs_to_a_part() {
        for target in PLAN.targets {
            assert!(PLAN.parts.iter().any(|(name, _)| *name == target.part), "{}", target.what);
        }
    }
}
