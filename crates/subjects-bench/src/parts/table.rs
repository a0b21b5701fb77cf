//! A large table and one thread: insert, lookups of unique, hot and repeated subjects, memory, remove.

use std::hint::black_box;

use tailrace_subjects::{Dialect, Limits, Pattern};

use crate::line::{Line, short};
use crate::measure;
use crate::options::Options;
use crate::systems::System;
use crate::table::{Table, ways_ns};
use crate::workload::Workload;

/// Subjects that are looked up repeatedly.
pub(super) const HOT: usize = 512;
/// How often a repeated subject is in its list, so that a batch holds nothing else.
const REPEATED: usize = 512;

pub(super) fn run<S: System>(options: &Options) {
    let workload = Workload::new(options.seed);
    let count = options.count;
    let patterns = workload.patterns(count);
    let subjects = workload.subjects(&patterns, count, count);
    let slices: Vec<&[u8]> = subjects.iter().collect();
    let mut table = Table::<S>::fill(&patterns, count, &subjects);
    let check = table.check(&patterns, &subjects);
    let load = |what: &str| format!("{} {what}", short(count));
    let repeated = [slices[0]; REPEATED];
    for (what, list) in [("unique", &slices[..]), ("hot", &slices[..HOT]), ("one", &repeated[..])] {
        for (way, ns) in ways_ns(&table.matcher, list, options.seconds) {
            Line::new("table", &load(what), &way.name(S::NAME), &check).rate(ns).print();
        }
    }
    let resident = table.resident / count as f64;
    let insert_ns = table.insert_ns;
    let remove_ns = table.drain();
    let parse_ns = measure::each_ns(count, |index| {
        black_box(Pattern::parse(Dialect::Nats, patterns.get(index), &Limits::default()).is_ok());
    });
    Line::new("table", &load("build"), S::NAME, &check)
        .with("insert_ns", insert_ns)
        .with("parse_ns", parse_ns)
        .with("remove_ns", remove_ns)
        .with("resident_bytes", resident)
        .print();
}
