//! The measured runs, by part.

use std::collections::{BTreeMap, BTreeSet};

use crate::sample::{PartRun, Sample};

pub(super) type Parts = BTreeMap<String, PartRun>;

/// The position of a system in tables and plots.
pub(super) fn place(system: &str) -> usize {
    const ORDER: [&str; 11] = [
        "tailrace",
        "tailrace-batch16",
        "tailrace-batch64",
        "tailrace-cache",
        "nats",
        "nats-cached",
        "cs-trie",
        "trie",
        "optimized-bitmap",
        "inverted-bitmap",
        "naive",
    ];
    ORDER.iter().position(|known| *known == system).unwrap_or(ORDER.len())
}

/// The numbers of threads that were measured.
pub(super) fn thread_counts(samples: &[Sample]) -> Vec<usize> {
    let counts = samples.iter().filter_map(|sample| sample.figures.get("threads"));
    let counts: BTreeSet<usize> = counts.map(|count| *count as usize).collect();
    counts.into_iter().collect()
}
