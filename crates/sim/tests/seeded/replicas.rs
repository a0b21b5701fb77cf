//! A replicated partition under faults: nothing acknowledged is lost, duplicated or reordered, and consumers
//! of any replica see the same. `TAILRACE_SEED=N` runs one seed, `TAILRACE_SEEDS=N` that many. Otherwise some
//! seeds are those of the day.

use std::collections::BTreeMap;

use tailrace_replication::raft::DeliberateBug;
use tailrace_sim::Mask;
use tailrace_sim::group::{self, Bug, GroupOptions, RARE};

use crate::common::seeds;

/// The number of seeds that are always played, and the number of each day's own seeds.
const SEEDS: u64 = 30;
const DAILY: u64 = 30;
/// A deliberate bug must be noticed within this many seeds.
const BUG_SEEDS: u64 = 500;
const STORM_MS: u64 = 4_000;

#[test]
fn nothing_acknowledged_is_lost_doubled_or_reordered() {
    let seeds: Vec<u64> = match seeds::chosen() {
        Some(chosen) => chosen.collect(),
        None => (0..SEEDS).chain(seeds::of_the_day(DAILY)).collect(),
    };
    seeds::tell("one partition", &seeds);
    let several = seeds.len() > 1;
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let options = GroupOptions { seed, storm_ms: STORM_MS, bug: None, mask: Mask::default() };
        let report =
            group::run(options.clone()).unwrap_or_else(|error| panic!("TAILRACE_SEED={seed}: {error}"));
        assert_eq!(Ok(&report), group::run(options).as_ref(), "TAILRACE_SEED={seed}: two runs differ");
        for (what, times) in &report.counts {
            *counts.entry(*what).or_insert(0) += times;
        }
        *counts.entry("acknowledged").or_insert(0) += report.acknowledged;
        *counts.entry("read").or_insert(0) += report.read;
    }
    eprintln!("{counts:?}");
    for what in RARE.into_iter().chain(["acknowledged", "read"]).filter(|_| several) {
        assert!(counts.get(what).is_some_and(|times| *times > 0), "no seed saw '{what}'");
    }
}

fn is_noticed(bug: Bug) {
    for seed in 0..BUG_SEEDS {
        let options = GroupOptions { seed, storm_ms: STORM_MS, bug: Some(bug), mask: Mask::default() };
        // A bug may also trip an assertion.
        let outcome = std::panic::catch_unwind(|| group::run(options));
        if !matches!(outcome, Ok(Ok(_))) {
            eprintln!("{bug:?} is noticed by seed {seed}: {outcome:?}");
            return;
        }
    }
    panic!("{BUG_SEEDS} seeds did not notice {bug:?}");
}

#[test]
fn an_acknowledgement_before_the_sync_is_noticed() {
    is_noticed(Bug::AcknowledgeBeforeSync);
}

#[test]
fn a_replica_id_that_is_used_again_is_noticed() {
    is_noticed(Bug::ReuseReplicaId);
}

#[test]
fn a_read_of_what_is_not_committed_is_noticed() {
    is_noticed(Bug::ReadUncommitted);
}

#[test]
fn an_acknowledgement_by_the_leader_alone_is_noticed() {
    is_noticed(Bug::AcknowledgeOnAppend);
}

#[test]
fn a_leader_that_asks_nobody_whether_it_leads_is_noticed() {
    is_noticed(Bug::BarrierWithoutMajority);
}

#[test]
fn a_truncation_that_is_skipped_is_noticed() {
    is_noticed(Bug::Replicas(DeliberateBug::SkipTruncation));
}

#[test]
fn an_older_terms_entry_that_is_committed_by_counting_replicas_is_noticed() {
    is_noticed(Bug::Replicas(DeliberateBug::CountOlderTerms));
}
