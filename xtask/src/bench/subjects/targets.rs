//! The targets of the matcher, and whether a run meets them. A ratio is taken within each round; what counts is the median of the
//! ratios.

use std::collections::BTreeMap;

use crate::bench::sample::{PartRun, Sample};
use crate::bench::stats::Spread;
use crate::bench::targets::Bound::{self, AtLeast, AtMost, Stated};

/// A figure of a system under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) load: &'static str,
    pub(super) system: &'static str,
    pub(super) name: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) part: &'static str,
    pub(super) what: &'static str,
    pub(super) mine: Figure,
    /// What it is divided by.
    pub(super) over: Option<Figure>,
    pub(super) bound: Bound,
    /// On a machine with fewer cores the target says nothing.
    pub(super) cores_min: usize,
}

const fn figure(load: &'static str, system: &'static str, name: &'static str) -> Figure {
    Figure { load, system, name }
}

const RATE: &str = "matches_per_s";
const NS: &str = "match_ns";

/// Rates under one load, one over the other.
const fn rates(
    part: &'static str,
    load: &'static str,
    (mine, over): (&'static str, &'static str),
    bound: Bound,
    what: &'static str,
) -> Target {
    Target {
        part,
        what,
        mine: figure(load, mine, RATE),
        over: Some(figure(load, over, RATE)),
        bound,
        cores_min: 1,
    }
}

/// A figure without comparison.
const fn plain(part: &'static str, mine: Figure, bound: Bound, what: &'static str) -> Target {
    Target { part, what, mine, over: None, bound, cores_min: 1 }
}

const fn on(cores_min: usize, target: Target) -> Target {
    Target { cores_min, ..target }
}

/// The times of two systems under one load, one over the other.
const fn times(
    part: &'static str,
    load: &'static str,
    (mine, over): (&'static str, &'static str),
    name: &'static str,
    bound: Bound,
    what: &'static str,
) -> Target {
    Target {
        part,
        what,
        mine: figure(load, mine, name),
        over: Some(figure(load, over, name)),
        bound,
        cores_min: 1,
    }
}

const TWO: &str = "100k unique, 2 threads, 10% writes";
const SIXTEEN: &str = "100k unique, 16 threads, 10% writes";
const INSERT: Target = Target {
    part: "million",
    what: "an insert, over a match of unique subjects",
    mine: figure("1M build", "tailrace", "insert_ns"),
    over: Some(figure("1M unique", "tailrace", NS)),
    bound: AtMost(2.0),
    cores_min: 1,
};

pub(super) const TARGETS: &[Target] = &[
    rates(
        "million",
        "1M unique",
        ("tailrace", "nats"),
        AtLeast(8.0),
        "1 M patterns: matches/s, over nats uncached",
    ),
    rates(
        "million",
        "1M unique",
        ("tailrace-batch64", "nats"),
        AtLeast(25.0),
        "1 M patterns, batches of 64: matches/s, over nats uncached",
    ),
    rates("million", "1M unique", ("tailrace-batch16", "nats"), Stated, "the same, batches of 16"),
    rates(
        "table",
        "100k hot",
        ("tailrace-cache", "nats-cached"),
        AtLeast(3.0),
        "512 hot subjects of 100 k patterns, cached: matches/s, over nats cached",
    ),
    rates("million", "1M hot", ("tailrace-cache", "nats-cached"), AtLeast(3.0), "the same with 1 M patterns"),
    rates(
        "threads",
        TWO,
        ("tailrace", "nats"),
        AtLeast(10.0),
        "2 threads, 10 % writes: matches/s, over nats uncached",
    ),
    rates(
        "threads",
        TWO,
        ("tailrace", "nats-cached"),
        AtLeast(10.0),
        "2 threads, 10 % writes: over nats cached",
    ),
    on(
        16,
        rates(
            "threads",
            SIXTEEN,
            ("tailrace", "nats"),
            AtLeast(100.0),
            "16 threads, 10 % writes: over nats uncached",
        ),
    ),
    on(
        16,
        rates(
            "threads",
            SIXTEEN,
            ("tailrace", "cs-trie"),
            AtLeast(40.0),
            "16 threads, 10 % writes: over our CS-trie",
        ),
    ),
    on(
        16,
        plain(
            "threads",
            figure(SIXTEEN, "tailrace-batch64", RATE),
            AtLeast(120e6),
            "16 threads, 10 % writes, batches of 64: matches/s (the goal)",
        ),
    ),
    plain(
        "million",
        figure("1M build", "tailrace", "resident_bytes"),
        AtMost(90.0),
        "resident bytes per subscription at 1 M",
    ),
    plain("million", figure("1M build", "tailrace", "resident_bytes"), AtMost(70.0), "the same (the goal)"),
    plain(
        "memory",
        figure("1M", "tailrace", "heap_bytes"),
        Stated,
        "bytes per subscription as asked of the allocator",
    ),
    INSERT,
    times(
        "million",
        "1M unique",
        ("tailrace-cache", "tailrace"),
        NS,
        AtMost(1.1),
        "unique subjects, 1 M patterns: a lookup through the cache, over one without",
    ),
    times(
        "table",
        "100k unique",
        ("tailrace-cache", "tailrace"),
        NS,
        AtMost(1.1),
        "the same with 100 k patterns",
    ),
    times(
        "storm",
        "100k unique, storm",
        ("tailrace-cache", "tailrace"),
        NS,
        AtMost(1.1),
        "unique subjects in a subscribe storm: the same",
    ),
    times(
        "storm",
        "100k hot, storm",
        ("tailrace-cache", "tailrace"),
        NS,
        AtMost(1.1),
        "hot subjects in a subscribe storm: the same",
    ),
    plain(
        "churn",
        figure("1M pairs", "tailrace", "singly_ratio"),
        AtMost(1.1),
        "resident memory after 1 M pairs, one at a time, over before",
    ),
    plain(
        "churn",
        figure("1M pairs", "tailrace", "given_back_ratio"),
        AtMost(1.1),
        "resident memory after 1 M were there at once, and free pages were given back, over before",
    ),
    plain(
        "churn",
        figure("1M pairs", "tailrace", "at_once_ratio"),
        Stated,
        "the same with the free pages that the allocator keeps",
    ),
    times(
        "growth",
        "0 to 2M",
        ("tailrace", "tailrace's empty loop"),
        "p99_ns",
        Stated,
        "p99 of an insert while the table grows, over an empty loop's",
    ),
    times(
        "growth",
        "0 to 2M",
        ("tailrace", "tailrace's empty loop"),
        "p99.99_ns",
        Stated,
        "p99.99 of an insert while the table grows, over an empty loop's",
    ),
    times(
        "growth",
        "0 to 2M",
        ("tailrace", "tailrace's empty loop"),
        "max_ns",
        Stated,
        "the slowest insert, over an empty loop's",
    ),
    // The published figures of the CS-trie, 1,000 patterns and hot caches: subscribe 380, unsubscribe 359, lookup 1,296 ns, and
    // 927,000 matches/s of the three-word set.
    times(
        "thousand",
        "1k hot",
        ("naive", "cs-trie"),
        NS,
        AtLeast(302_905.0 / 1_296.0),
        "lookup: naive map over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("inverted-bitmap", "cs-trie"),
        NS,
        AtLeast(455.0 / 1_296.0),
        "lookup: inverted bitmap over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("optimized-bitmap", "cs-trie"),
        NS,
        AtLeast(2_587.0 / 1_296.0),
        "lookup: optimized bitmap over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("trie", "cs-trie"),
        NS,
        AtLeast(2_103.0 / 1_296.0),
        "lookup: trie over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("naive", "cs-trie"),
        "subscribe_ns",
        AtLeast(154.0 / 380.0),
        "subscribe: naive map over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("inverted-bitmap", "cs-trie"),
        "subscribe_ns",
        AtLeast(2_585.0 / 380.0),
        "subscribe: inverted bitmap over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("optimized-bitmap", "cs-trie"),
        "subscribe_ns",
        AtLeast(935.0 / 380.0),
        "subscribe: optimized bitmap over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("trie", "cs-trie"),
        "subscribe_ns",
        AtLeast(249.0 / 380.0),
        "subscribe: trie over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("naive", "cs-trie"),
        "unsubscribe_ns",
        AtLeast(38.0 / 359.0),
        "unsubscribe: naive map over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("inverted-bitmap", "cs-trie"),
        "unsubscribe_ns",
        AtLeast(108.0 / 359.0),
        "unsubscribe: inverted bitmap over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("optimized-bitmap", "cs-trie"),
        "unsubscribe_ns",
        AtLeast(202.0 / 359.0),
        "unsubscribe: optimized bitmap over CS-trie, as published",
    ),
    times(
        "thousand",
        "1k hot",
        ("trie", "cs-trie"),
        "unsubscribe_ns",
        AtLeast(131.0 / 359.0),
        "unsubscribe: trie over CS-trie, as published",
    ),
    rates(
        "three",
        "3 words, 3 hits",
        ("cs-trie", "naive"),
        AtLeast(927.0 / 8.5),
        "three words: CS-trie's matches/s over naive map's, as published",
    ),
    rates(
        "three",
        "3 words, 3 hits",
        ("cs-trie", "inverted-bitmap"),
        AtLeast(927.0 / 2_900.0),
        "three words: over inverted bitmap's, as published",
    ),
    rates(
        "three",
        "3 words, 3 hits",
        ("cs-trie", "optimized-bitmap"),
        AtLeast(927.0 / 248.0),
        "three words: over optimized bitmap's, as published",
    ),
    rates(
        "three",
        "3 words, 3 hits",
        ("cs-trie", "trie"),
        AtLeast(927.0 / 567.0),
        "three words: over trie's, as published",
    ),
];

/// The spread of a figure over the rounds; failed samples do not count.
pub(super) fn spread(samples: &[Sample], load: &str, system: &str, name: &str) -> Option<Spread> {
    Spread::of(by_round(samples, load, system, name).into_values())
}

/// The spread of a figure over another one of the same round.
pub(super) fn ratio(
    samples: &[Sample],
    mine: (&str, &str, &str),
    over: (&str, &str, &str),
) -> Option<Spread> {
    let over = by_round(samples, over.0, over.1, over.2);
    let mine = by_round(samples, mine.0, mine.1, mine.2);
    Spread::of(mine.into_iter().filter_map(|(round, value)| Some(value / over.get(&round)?)))
}

fn by_round(samples: &[Sample], load: &str, system: &str, name: &str) -> BTreeMap<u32, f64> {
    let mine = |s: &&Sample| s.failed.is_none() && s.load == load && s.system == system;
    let value = |s: &Sample| Some((s.round, *s.figures.get(name)?));
    samples.iter().filter(mine).filter_map(value).collect()
}

impl Target {
    pub(super) fn spread(&self, run: &PartRun) -> Option<Spread> {
        if cores(&run.setting.machine) < self.cores_min {
            return None;
        }
        let mine = (self.mine.load, self.mine.system, self.mine.name);
        match self.over {
            Some(over) => ratio(&run.samples, mine, (over.load, over.system, over.name)),
            None => spread(&run.samples, mine.0, mine.1, mine.2),
        }
    }
}

/// The number that a setting's machine begins with.
fn cores(machine: &str) -> usize {
    machine.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(system: &str, round: u32, value: f64) -> Sample {
        Sample {
            part: "million".into(),
            load: "1M unique".into(),
            system: system.into(),
            round,
            figures: BTreeMap::from([(RATE.into(), value)]),
            failed: None,
            line: String::new(),
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_failures_left_out() {
        let mut samples = vec![sample("tailrace", 1, 8.0), sample("nats", 1, 1.0)];
        samples.extend([sample("tailrace", 2, 30.0), sample("nats", 2, 3.0), sample("tailrace", 3, 1.0)]);
        let over = |samples: &[Sample]| {
            ratio(samples, ("1M unique", "tailrace", RATE), ("1M unique", "nats", RATE)).unwrap()
        };
        assert_eq!((over(&samples).lowest, over(&samples).highest), (8.0, 10.0));
        samples[0].failed = Some("found something else".into());
        assert_eq!(over(&samples).rounds, 1);
    }

    #[test]
    fn sixteen_threads_need_sixteen_cores() {
        assert_eq!(cores("16 CPUs AMD, 128 GiB"), 16);
        assert!(TARGETS.iter().all(|target| target.mine.load != SIXTEEN || target.cores_min == 16));
    }
}
