//! `cargo xtask bench cluster`: compares three nodes of tailrace with three of Apache Kafka on this machine,
//! as ratios with their spread.
//!
//! Kafka does not sync before it acknowledges, so the comparison runs tailrace without fsync, and then with
//! fsync against the same Kafka. As in the other comparisons, no result accepts or rejects a commit.

mod loads;
mod nodes;
mod targets;

use std::fs;

use super::lab::Lab;
use super::machine;
use super::peers::Peers;
use super::progress::Progress;
use super::report::{Plan, Report};
use super::sample::Record;
use super::setup::{binary, folders, run_number};

pub(super) const USAGE: &str = "usage: cargo xtask bench cluster [OPTIONS]
  --only PART[,PART]   of produce strict idle start (all of them)
  --rounds N --quick --peers DIR --tailrace PATH --out DIR: as for kafka";

const PLAN: Plan = Plan {
    introduction: "# Three nodes beside three of Apache Kafka

Written by `cargo xtask bench cluster`. [README.md](README.md) says how to read and how to repeat it.
Three nodes of each system run on the same machine in the same run, with the same client, over plain
TCP on loopback, and take turns going first. The nodes that are not being measured are idle; while
idle nodes are measured, the others do not run. Topics have replication factor 3. A ratio is
tailrace's figure divided by Kafka's in the same round. Figures are medians (lowest..highest) of the
rounds. CPU is that of all three nodes together, unless it is given per node.

Each Kafka node is both broker and controller (KRaft), has a heap of 1 to 2 GiB, and does not sync
before it acknowledges. *relaxed* is a tailrace that does not sync either (`flush.messages`).
*strict* is tailrace with its defaults: a majority has a batch on disk before the batch is
acknowledged. Start-up time is the time from the start of all three processes until every partition
has a leader that answers. Kafka opens three files for each replica. With 10,000 of them that is more
than this machine allows a process, so its start-up is measured with 1,000.
",
    parts: &[
        ("produce", "Producing 1 KB, acks=all, without fsync on either side"),
        ("strict", "Producing 1 KB, acks=all: tailrace with fsync, Kafka without"),
        ("idle", "1,000 idle partitions"),
        ("start", "Start of three nodes"),
    ],
    targets: targets::TARGETS,
};

pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let options = PLAN.options(arguments, USAGE)?;
    let peers = Peers::find(options.peers.as_deref(), &["blast-kafka", "kafka/libs"])?;
    let binary = binary(options.tailrace.as_deref())?;
    peers.sweep();
    let scratch = peers.scratch();
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let version = machine::printed("pkg-config", &["--modversion", "rdkafka"]);
    let peer = format!("Kafka {}, librdkafka {version}", peers.kafka_version());
    let setting = machine::setting(&scratch, peer, options.rounds, options.quick);
    let (folder, raw) = folders(options.out.as_deref(), options.quick);
    let record = Record::open(&raw, "cluster.jsonl", run_number()?, &setting)?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let planned =
        options.parts.iter().map(|part| loads::planned_s(part, options.rounds, options.quick)).sum();
    let mut lab = Lab {
        report: Report::new(&folder.join("cluster.md"), record, &PLAN),
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
        if let Err(reason) = loads::run(part, &mut lab) {
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
        assert_eq!(PLAN.options(&text("--only idle"), USAGE).unwrap().parts, ["idle"]);
        assert!(PLAN.options(&text("--only speed"), USAGE).err().unwrap().starts_with("no part 'speed'"));
    }

    #[test]
    fn every_target_belongs_to_a_part() {
        for target in PLAN.targets {
            assert!(PLAN.parts.iter().any(|(name, _)| *name == target.part), "{}", target.what);
        }
    }
}
