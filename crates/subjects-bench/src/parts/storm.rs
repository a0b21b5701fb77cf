//! Subscribe storm: all threads but one subscribe and unsubscribe without pause, and one looks up.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::line::{Line, short};
use crate::options::Options;
use crate::systems::{System, subscribe};
use crate::table::{Table, ways_ns};
use crate::workload::{Texts, Workload};

use super::table::HOT;

/// Patterns that a writer adds and removes.
const PATTERNS: usize = 1_024;

pub(super) fn run<S: System>(options: &Options) {
    let workload = Workload::new(options.seed);
    let count = options.count;
    let threads = options.threads.iter().copied().max().unwrap_or(2).max(2);
    let writers = threads - 1;
    let patterns = workload.patterns(count + writers * PATTERNS);
    let subjects = workload.subjects(&patterns, count, count);
    let slices: Vec<&[u8]> = subjects.iter().collect();
    let table = Table::<S>::fill(&patterns, count, &subjects);
    let check = table.check(&patterns, &subjects);
    for (what, list) in [("unique", &slices[..]), ("hot", &slices[..HOT])] {
        let (stop, start) = (AtomicBool::new(false), Barrier::new(threads));
        let (rates, writes) = thread::scope(|scope| {
            let writers: Vec<_> = (0..writers)
                .map(|index| {
                    let first = count + index * PATTERNS;
                    let (matcher, patterns, stop, start) = (&table.matcher, &patterns, &stop, &start);
                    scope.spawn(move || {
                        start.wait();
                        write(matcher, patterns, first, stop)
                    })
                })
                .collect();
            start.wait();
            let rates = ways_ns(&table.matcher, list, options.seconds);
            stop.store(true, Ordering::Relaxed);
            (
                rates,
                writers.into_iter().map(|writer| writer.join().expect("a writer ended well")).sum::<f64>(),
            )
        });
        for (way, ns) in rates {
            let load = format!("{} {what}, storm", short(count));
            let line = Line::new("storm", &load, &way.name(S::NAME), &check).rate(ns);
            line.with("changes_per_s", writes).with("writers", writers as f64).print();
        }
    }
}

/// Subscribes and unsubscribes until the end. Returns changes per second; a subscribe and an unsubscribe are
/// two.
fn write<S: System>(matcher: &S, patterns: &Texts, first: usize, stop: &AtomicBool) -> f64 {
    let mut kept = Vec::with_capacity(PATTERNS);
    let (began, mut changes) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        kept.extend(
            (first..first + PATTERNS).map(|index| subscribe(matcher, patterns.get(index), index as u64)),
        );
        for subscription in kept.drain(..) {
            assert!(matcher.unsubscribe(subscription), "a subscription is missing");
        }
        changes += 2 * PATTERNS;
    }
    changes as f64 / began.elapsed().as_secs_f64()
}
