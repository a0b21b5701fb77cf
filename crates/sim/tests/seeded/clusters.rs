//! A whole cluster under faults: controller, partitions, coordinators and clients of all kinds. `TAILRACE_SEED=N` runs one seed,
//! `TAILRACE_SEEDS=N` that many.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what went wrong")]

use std::collections::{BTreeMap, BTreeSet};

use tailrace_replication::raft::DeliberateBug;
use tailrace_sim::Mask;
use tailrace_sim::cluster::{self, Bug, ClusterOptions};

const SEEDS: u64 = 20;
/// A deliberate bug must be noticed within that many.
const BUG_SEEDS: u64 = 500;
/// Seeds in which something went wrong once (docs/simulation.md).
const FOUND: [u64; 19] = [
    33, 133, 343, 416, 791, 906, 1017, 1330, 1639, 2709, 5763, 7202, 8072, 15160, 18115, 28713, 29923,
    200405, 406562,
];
const STORM_MS: u64 = 6_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

fn options(seed: u64, bug: Option<Bug>) -> ClusterOptions {
    ClusterOptions { seed, storm_ms: STORM_MS, bug, mask: Mask::default() }
}

#[test]
fn clients_of_a_cluster_under_faults_are_told_and_shown_what_was_promised() {
    let seeds = match number("TAILRACE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TAILRACE_SEEDS").unwrap_or(SEEDS),
    };
    let several = seeds.end - seeds.start > 1;
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let report =
            cluster::run(options(seed, None)).unwrap_or_else(|error| panic!("TAILRACE_SEED={seed}: {error}"));
        assert_eq!(
            Ok(&report),
            cluster::run(options(seed, None)).as_ref(),
            "TAILRACE_SEED={seed}: two runs differ"
        );
        for (what, times) in &report.counts {
            *counts.entry(*what).or_insert(0) += times;
        }
    }
    eprintln!("{counts:?}");
    // What is rarer than that must come up in a campaign (`cargo xtask sim`), which runs more seeds.
    let common = [
        "batches acknowledged",
        "a transaction was committed",
        "records processed exactly once",
        "a disk was replaced",
    ];
    for what in common.into_iter().filter(|_| several) {
        assert!(counts.get(what).is_some_and(|times| *times > 0), "no seed saw '{what}'");
    }
}

#[test]
fn faults_that_are_left_out_do_not_happen_and_the_others_do() {
    let all: Vec<usize> =
        cluster::run(options(1, None)).unwrap().faults.iter().map(|fault| fault.number).collect();
    let kept: BTreeSet<usize> = all.iter().copied().filter(|number| *number < 4).collect();
    assert!(kept.len() > 1 && kept.len() < all.len());
    let only = Mask { listed: kept.clone(), only: true };
    let report = cluster::run(ClusterOptions { mask: only, ..options(1, None) }).unwrap();
    assert_eq!(report.faults.iter().map(|fault| fault.number).collect::<BTreeSet<_>>(), kept);
    let without = Mask { listed: all.into_iter().collect(), only: false };
    let report = cluster::run(ClusterOptions { mask: without, ..options(1, None) }).unwrap();
    assert!(report.faults.iter().all(|fault| fault.number >= 1_000), "{:?}", report.faults);
}

#[test]
fn seeds_that_have_found_something_pass() {
    for seed in FOUND {
        cluster::run(options(seed, None)).unwrap_or_else(|error| panic!("TAILRACE_SEED={seed}: {error}"));
    }
}

fn is_noticed(bug: Bug) {
    for seed in 0..BUG_SEEDS {
        // A bug may as well trip over an assertion.
        let outcome = std::panic::catch_unwind(|| cluster::run(options(seed, Some(bug))));
        // A seed that fails without it says nothing.
        if !matches!(outcome, Ok(Ok(_))) && cluster::run(options(seed, None)).is_ok() {
            eprintln!("{bug:?} is noticed by seed {seed}: {outcome:?}");
            return;
        }
    }
    panic!("{BUG_SEEDS} seeds did not notice {bug:?}");
}

#[test]
fn a_replica_id_that_is_used_again_after_the_loss_of_a_disk_is_noticed() {
    is_noticed(Bug::ReuseReplicaId);
}

#[test]
fn reads_from_a_leader_that_does_not_know_yet_what_is_committed_are_noticed() {
    is_noticed(Bug::StaleLeaderReads);
}

#[test]
fn markers_of_an_earlier_coordinator_that_are_accepted_are_noticed() {
    is_noticed(Bug::Replicas(DeliberateBug::AcceptOlderCoordinators));
}
