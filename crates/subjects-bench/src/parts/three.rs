//! Three words, three hits for each message.

use crate::line::Line;
use crate::options::Options;
use crate::systems::System;
use crate::table::{Table, ways_ns};
use crate::workload::Workload;

pub(super) fn run<S: System>(options: &Options) {
    let workload = Workload::new(options.seed);
    let (patterns, subjects) = (workload.three_patterns(), workload.three_subjects());
    let table = Table::<S>::fill(&patterns, patterns.len(), &subjects);
    let check = table.check(&patterns, &subjects);
    let slices: Vec<&[u8]> = subjects.iter().collect();
    for (way, ns) in ways_ns(&table.matcher, &slices, options.seconds) {
        Line::new("three", "3 words, 3 hits", &way.name(S::NAME), &check).rate(ns).print();
    }
}
