//! Nodes as they ship, under faults. `TAILRACE_SEED=N` runs one seed, `TAILRACE_SEEDS=N` that many. Otherwise some seeds are the day's.

use std::collections::BTreeMap;
use std::time::SystemTime;

use tailrace_sim::Mask;
use tailrace_sim::storm::{self, StormOptions};

/// Seeds that are always played.
const SEEDS: u64 = 2;

/// Where seeds of days begin, and how many each day has.
const DAYS: u64 = 1_000_000;
const DAILY: u64 = 4;

const STORM_MS: u64 = 3_000;

/// What the judge compares: where none of it happened, there was nothing to be wrong.
const JUDGED: [&str; 12] = [
    "a batch was acknowledged",
    "a group with offsets was deleted",
    "a message was heard",
    "a message was heard by a queue group",
    "a processor's transaction was committed",
    "a reader passed over an aborted batch",
    "a record was heard",
    "a share group was deleted",
    "a transaction was committed",
    "an assignment was taken",
    "an offset was committed",
    "records were acquired",
];

#[test]
fn what_nodes_acknowledged_under_faults_is_there_once_and_where_they_said() {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds: Vec<u64> = match (number("TAILRACE_SEED"), number("TAILRACE_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(seeds)) => (0..seeds).collect(),
        (None, None) => {
            let first = DAYS + today() * DAILY;
            (0..SEEDS).chain(first..first + DAILY).collect()
        }
    };
    eprintln!("seeds {seeds:?}");
    let (several, mut counts) = (seeds.len() > 1, BTreeMap::new());
    for seed in seeds {
        let options = StormOptions { seed, storm_ms: STORM_MS, mask: Mask::default() };
        let report = storm::run(&options).unwrap_or_else(|error| panic!("TAILRACE_SEED={seed}: {error}"));
        assert_eq!(Ok(&report), storm::run(&options).as_ref(), "TAILRACE_SEED={seed}: two runs differ");
        for (what, times) in report.counts {
            *counts.entry(what).or_insert(0) += times;
        }
    }
    eprintln!("{counts:?}");
    for what in JUDGED.into_iter().filter(|_| several) {
        assert!(counts.get(what).is_some_and(|times| *times > 0), "no seed saw '{what}'");
    }
}

/// In days since 1970.
fn today() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.expect("the clock is right").as_secs() / 86_400
}
