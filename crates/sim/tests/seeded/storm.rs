//! Nodes as they ship, under faults. `TAILRACE_SEED=N` runs one seed, `TAILRACE_SEEDS=N` that many.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_sim::Mask;
use tailrace_sim::storm::{self, StormOptions};

const SEEDS: u64 = 3;
const STORM_MS: u64 = 3_000;

#[test]
fn what_nodes_acknowledged_under_faults_is_there_once_and_where_they_said() {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TAILRACE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TAILRACE_SEEDS").unwrap_or(SEEDS),
    };
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let options = StormOptions { seed, storm_ms: STORM_MS, mask: Mask::default() };
        let report = storm::run(&options).unwrap_or_else(|error| panic!("TAILRACE_SEED={seed}: {error}"));
        assert_eq!(Ok(&report), storm::run(&options).as_ref(), "TAILRACE_SEED={seed}: two runs differ");
        for (what, times) in report.counts {
            *counts.entry(what).or_insert(0) += times;
        }
    }
    eprintln!("{counts:?}");
    assert!(
        counts.get("a batch was acknowledged").is_some_and(|times| *times > 0),
        "nothing was acknowledged"
    );
}

/// A leader writes a batch and then not its index, and stops: the next start finds the batch.
#[test]
fn a_batch_whose_write_failed_half_way_is_not_called_refused() {
    let mask = Mask { listed: BTreeSet::from([2]), only: true };
    let report = storm::run(&StormOptions { seed: 2053, storm_ms: 625, mask });
    report.unwrap_or_else(|error| panic!("TAILRACE_SEED=2053: {error}"));
}
