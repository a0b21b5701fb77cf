//! 1,000 patterns: each operation with hot caches, and with caches that were emptied before it.

use std::hint::black_box;
use std::time::Instant;

use crate::line::Line;
use crate::measure::{self, Evictor};
use crate::options::Options;
use crate::systems::{System, Way, subscribe};
use crate::table::{Table, ways_ns};
use crate::workload::{Texts, Workload};

const COUNT: usize = 1_000;
/// Cold samples of each operation, of which the median is shown.
const COLD: usize = 33;

pub(super) fn run<S: System>(options: &Options) {
    let workload = Workload::new(options.seed);
    let patterns = workload.patterns(2 * COUNT);
    let subjects = workload.subjects(&patterns, COUNT, COUNT);
    let table = Table::<S>::fill(&patterns, COUNT, &subjects);
    let check = table.check(&patterns, &subjects);
    let slices: Vec<&[u8]> = subjects.iter().collect();
    for (way, ns) in ways_ns(&table.matcher, &slices, options.seconds) {
        Line::new("thousand", "1k hot", &way.name(S::NAME), &check).rate(ns).print();
    }
    let (subscribe_ns, unsubscribe_ns) = writes(&table, &patterns, options.seconds);
    Line::new("thousand", "1k hot", S::NAME, &check)
        .with("subscribe_ns", subscribe_ns)
        .with("unsubscribe_ns", unsubscribe_ns)
        .print();
    cold(&table, &patterns, &slices)
        .into_iter()
        .fold(Line::new("thousand", "1k cold", S::NAME, &check), |line, (figure, value)| {
            line.with(figure, value)
        })
        .print();
}

/// Subscribes another thousand patterns in addition to the first and removes them again, until the time is
/// up.
fn writes<S: System>(table: &Table<S>, patterns: &Texts, seconds: f64) -> (f64, f64) {
    let mut kept: Vec<Option<S::Subscription>> = Vec::new();
    kept.resize_with(COUNT, || None);
    let (began, mut rounds, mut spent) = (Instant::now(), 0.0, (0.0, 0.0));
    while began.elapsed().as_secs_f64() < seconds {
        spent.0 += measure::each_ns(COUNT, |index| {
            kept[index] = Some(subscribe(&table.matcher, patterns.get(COUNT + index), index as u64));
        });
        spent.1 += measure::each_ns(COUNT, |index| {
            let subscription = kept[index].take().expect("it was subscribed");
            assert!(table.matcher.unsubscribe(subscription), "a subscription is missing");
        });
        rounds += 1.0;
    }
    (spent.0 / rounds, spent.1 / rounds)
}

/// One operation at a time, each after the core's caches were emptied. The time includes reading the clock.
fn cold<S: System>(table: &Table<S>, patterns: &Texts, subjects: &[&[u8]]) -> [(&'static str, f64); 3] {
    let mut evictor = Evictor::new();
    let mut own = S::own();
    let (mut subscribes, mut lookups, mut unsubscribes) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..COLD {
        evictor.evict();
        let began = Instant::now();
        let subscription = subscribe(&table.matcher, patterns.get(COUNT + index), 0);
        subscribes.push(measure::since(began));
        evictor.evict();
        let began = Instant::now();
        table.matcher.ask(&mut own, Way::Plain, &subjects[index..=index], |found| {
            black_box(found);
        });
        lookups.push(measure::since(began));
        evictor.evict();
        let began = Instant::now();
        assert!(table.matcher.unsubscribe(subscription), "a subscription is missing");
        unsubscribes.push(measure::since(began));
    }
    [
        ("subscribe_ns", measure::median(subscribes)),
        ("match_ns", measure::median(lookups)),
        ("unsubscribe_ns", measure::median(unsubscribes)),
    ]
}
