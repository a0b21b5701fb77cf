//! Nodes as they ship, under faults. `TAILRACE_SEED=N` runs one seed, `TAILRACE_SEEDS=N` that many. Otherwise
//! some seeds are those of the day.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use tailrace_sim::Mask;
use tailrace_sim::storm::{self, StormOptions};

use crate::common::seeds;

/// The number of seeds that are always played.
const SEEDS: u64 = 2;

/// The number of each day's own seeds.
const DAILY: u64 = 4;

const STORM_MS: u64 = 3_000;

/// Events that the judge compares. If none of them happened, nothing could be wrong.
const JUDGED: [&str; 15] = [
    "a batch was acknowledged",
    "a group with offsets was deleted",
    "a message was delivered",
    "a message was delivered to a queue group",
    "a password was refused",
    "a processor's transaction was committed",
    "a reader skipped an aborted batch",
    "a record was delivered to a subscriber",
    "a share group was deleted",
    "a transaction was committed",
    "an assignment was applied",
    "an offset was committed",
    "records were acquired",
    "the rules let a user do something",
    "the rules refused a user something",
];

/// Plays a seed, and returns how often each event happened. Seeds that were chosen, and those that are always
/// played, are played twice, and must tell the same both times.
fn play(seed: u64, is_daily: bool) -> BTreeMap<&'static str, u64> {
    let options = StormOptions { seed, storm_ms: STORM_MS, mask: Mask::default() };
    let report = storm::run(&options).unwrap_or_else(|error| panic!("TAILRACE_SEED={seed}: {error}"));
    if !is_daily {
        assert_eq!(Ok(&report), storm::run(&options).as_ref(), "TAILRACE_SEED={seed}: two runs differ");
    }
    report.counts
}

#[test]
fn what_nodes_acknowledged_under_faults_is_there_once_and_where_they_said() {
    let chosen = seeds::chosen();
    let of_the_day = chosen.is_none();
    let seeds: Vec<u64> = match chosen {
        Some(chosen) => chosen.collect(),
        None => (0..SEEDS).chain(seeds::of_the_day(DAILY)).collect(),
    };
    seeds::tell("nodes", &seeds);
    let several = seeds.len() > 1;
    let (seeds, counts) = (Mutex::new(seeds.into_iter()), Mutex::new(BTreeMap::new()));
    let play_some = || {
        let next = || seeds.lock().expect("nothing panics under the lock").next();
        while let Some(seed) = next() {
            let counted = play(seed, of_the_day && seed >= SEEDS);
            let mut counts = counts.lock().expect("nothing panics under the lock");
            counted.into_iter().for_each(|(what, times)| *counts.entry(what).or_insert(0) += times);
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from))
            .for_each(|_| drop(scope.spawn(play_some)));
    });
    let counts = counts.into_inner().expect("nothing panics under the lock");
    eprintln!("{counts:?}");
    for what in JUDGED.into_iter().filter(|_| several) {
        assert!(counts.get(what).is_some_and(|times| *times > 0), "no seed saw '{what}'");
    }
}
