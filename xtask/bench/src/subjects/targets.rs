//! The targets of the matcher, and whether a run meets them. A ratio is computed within each round, and the
//! median of the ratios counts.

use std::collections::BTreeMap;

use crate::sample::{PartRun, Sample};
use crate::stats::Spread;
use crate::targets::Bound::{self, AtLeast, AtMost, Stated};

/// A figure of a system under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure<'a> {
    pub(super) load: &'a str,
    pub(super) system: &'a str,
    pub(super) name: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) part: &'static str,
    pub(super) what: &'static str,
    pub(super) mine: Figure<'static>,
    /// The figure to divide `mine` by.
    pub(super) over: Option<Figure<'static>>,
    pub(super) bound: Bound,
    /// The target does not apply to machines with fewer cores.
    pub(super) cores_min: usize,
}

pub(super) const fn figure<'a>(load: &'a str, system: &'a str, name: &'a str) -> Figure<'a> {
    Figure { load, system, name }
}

const RATE: &str = "matches_per_s";
const NS: &str = "match_ns";

/// A figure divided by the same figure of another system.
const fn compared(
    part: &'static str,
    mine: Figure<'static>,
    system: &'static str,
    bound: Bound,
    what: &'static str,
) -> Target {
    let over = Some(Figure { system, ..mine });
    Target { part, what, mine, over, bound, cores_min: 1 }
}

/// A figure without comparison.
const fn plain(part: &'static str, mine: Figure<'static>, bound: Bound, what: &'static str) -> Target {
    Target { part, what, mine, over: None, bound, cores_min: 1 }
}

const fn on(cores_min: usize, target: Target) -> Target {
    Target { cores_min, ..target }
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
    compared(
        "million",
        figure("1M unique", "tailrace", RATE),
        "nats",
        AtLeast(8.0),
        "1 M patterns: matches/s, over nats uncached",
    ),
    compared(
        "million",
        figure("1M unique", "tailrace-batch64", RATE),
        "nats",
        AtLeast(25.0),
        "1 M patterns, batches of 64: matches/s, over nats uncached",
    ),
    compared(
        "million",
        figure("1M unique", "tailrace-batch16", RATE),
        "nats",
        Stated,
        "the same, batches of 16",
    ),
    compared(
        "table",
        figure("100k hot", "tailrace-cache", RATE),
        "nats-cached",
        AtLeast(3.0),
        "512 hot subjects of 100 k patterns, cached: matches/s, over nats cached",
    ),
    compared(
        "million",
        figure("1M hot", "tailrace-cache", RATE),
        "nats-cached",
        AtLeast(3.0),
        "the same with 1 M patterns",
    ),
    compared(
        "threads",
        figure(TWO, "tailrace", RATE),
        "nats",
        AtLeast(10.0),
        "2 threads, 10 % writes: matches/s, over nats uncached",
    ),
    compared(
        "threads",
        figure(TWO, "tailrace", RATE),
        "nats-cached",
        AtLeast(10.0),
        "2 threads, 10 % writes: over nats cached",
    ),
    on(
        16,
        compared(
            "threads",
            figure(SIXTEEN, "tailrace", RATE),
            "nats",
            AtLeast(100.0),
            "16 threads, 10 % writes: over nats uncached",
        ),
    ),
    on(
        16,
        compared(
            "threads",
            figure(SIXTEEN, "tailrace", RATE),
            "cs-trie",
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
    compared(
        "million",
        figure("1M unique", "tailrace-cache", NS),
        "tailrace",
        AtMost(1.1),
        "unique subjects, 1 M patterns: a lookup through the cache, over one without",
    ),
    compared(
        "table",
        figure("100k unique", "tailrace-cache", NS),
        "tailrace",
        AtMost(1.1),
        "the same with 100 k patterns",
    ),
    compared(
        "storm",
        figure("100k unique, storm", "tailrace-cache", NS),
        "tailrace",
        AtMost(1.1),
        "unique subjects in a subscribe storm: the same",
    ),
    compared(
        "storm",
        figure("100k hot, storm", "tailrace-cache", NS),
        "tailrace",
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
    compared(
        "growth",
        figure("0 to 2M", "tailrace", "p99_ns"),
        "tailrace's empty loop",
        Stated,
        "p99 of an insert while the table grows, over an empty loop's",
    ),
    compared(
        "growth",
        figure("0 to 2M", "tailrace", "p99.99_ns"),
        "tailrace's empty loop",
        Stated,
        "p99.99 of an insert while the table grows, over an empty loop's",
    ),
    compared(
        "growth",
        figure("0 to 2M", "tailrace", "max_ns"),
        "tailrace's empty loop",
        Stated,
        "the slowest insert, over an empty loop's",
    ),
    // The published figures of the CS-trie with 1,000 patterns and hot caches: subscribe 380 ns, unsubscribe
    // 359 ns, lookup 1,296 ns, and 927,000 matches/s with the three-word set.
    compared(
        "thousand",
        figure("1k hot", "naive", NS),
        "cs-trie",
        AtLeast(302_905.0 / 1_296.0),
        "lookup: naive map over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "inverted-bitmap", NS),
        "cs-trie",
        AtLeast(455.0 / 1_296.0),
        "lookup: inverted bitmap over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "optimized-bitmap", NS),
        "cs-trie",
        AtLeast(2_587.0 / 1_296.0),
        "lookup: optimized bitmap over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "trie", NS),
        "cs-trie",
        AtLeast(2_103.0 / 1_296.0),
        "lookup: trie over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "naive", "subscribe_ns"),
        "cs-trie",
        AtLeast(154.0 / 380.0),
        "subscribe: naive map over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "inverted-bitmap", "subscribe_ns"),
        "cs-trie",
        AtLeast(2_585.0 / 380.0),
        "subscribe: inverted bitmap over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "optimized-bitmap", "subscribe_ns"),
        "cs-trie",
        AtLeast(935.0 / 380.0),
        "subscribe: optimized bitmap over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "trie", "subscribe_ns"),
        "cs-trie",
        AtLeast(249.0 / 380.0),
        "subscribe: trie over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "naive", "unsubscribe_ns"),
        "cs-trie",
        AtLeast(38.0 / 359.0),
        "unsubscribe: naive map over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "inverted-bitmap", "unsubscribe_ns"),
        "cs-trie",
        AtLeast(108.0 / 359.0),
        "unsubscribe: inverted bitmap over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "optimized-bitmap", "unsubscribe_ns"),
        "cs-trie",
        AtLeast(202.0 / 359.0),
        "unsubscribe: optimized bitmap over CS-trie, as published",
    ),
    compared(
        "thousand",
        figure("1k hot", "trie", "unsubscribe_ns"),
        "cs-trie",
        AtLeast(131.0 / 359.0),
        "unsubscribe: trie over CS-trie, as published",
    ),
    compared(
        "three",
        figure("3 words, 3 hits", "cs-trie", RATE),
        "naive",
        AtLeast(927.0 / 8.5),
        "three words: CS-trie's matches/s over naive map's, as published",
    ),
    compared(
        "three",
        figure("3 words, 3 hits", "cs-trie", RATE),
        "inverted-bitmap",
        AtLeast(927.0 / 2_900.0),
        "three words: over inverted bitmap's, as published",
    ),
    compared(
        "three",
        figure("3 words, 3 hits", "cs-trie", RATE),
        "optimized-bitmap",
        AtLeast(927.0 / 248.0),
        "three words: over optimized bitmap's, as published",
    ),
    compared(
        "three",
        figure("3 words, 3 hits", "cs-trie", RATE),
        "trie",
        AtLeast(927.0 / 567.0),
        "three words: over trie's, as published",
    ),
];

/// The spread of a figure over the rounds, without failed samples.
pub(super) fn spread(samples: &[Sample], load: &str, system: &str, name: &str) -> Option<Spread> {
    Spread::of(by_round(samples, figure(load, system, name)).into_values())
}

/// The spread of the ratio of two figures of the same round.
pub(super) fn ratio(samples: &[Sample], mine: Figure<'_>, over: Figure<'_>) -> Option<Spread> {
    let over = by_round(samples, over);
    let mine = by_round(samples, mine);
    Spread::of(mine.into_iter().filter_map(|(round, value)| Some(value / over.get(&round)?)))
}

fn by_round(samples: &[Sample], figure: Figure<'_>) -> BTreeMap<u32, f64> {
    let mine = |s: &&Sample| s.failed.is_none() && s.load == figure.load && s.system == figure.system;
    let value = |s: &Sample| Some((s.round, *s.figures.get(figure.name)?));
    samples.iter().filter(mine).filter_map(value).collect()
}

impl Target {
    pub(super) fn spread(&self, run: &PartRun) -> Option<Spread> {
        if cores(&run.setting.machine) < self.cores_min {
            return None;
        }
        let mine = self.mine;
        match self.over {
            Some(over) => ratio(&run.samples, mine, over),
            None => spread(&run.samples, mine.load, mine.system, mine.name),
        }
    }
}

/// The number of cores, with which the description of a machine starts.
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
            ratio(samples, figure("1M unique", "tailrace", RATE), figure("1M unique", "nats", RATE)).unwrap()
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
