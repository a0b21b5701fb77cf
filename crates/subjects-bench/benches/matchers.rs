//! Workloads (a) to (d) of the benchmark under criterion, to examine a single change: `cargo bench -p
//! tailrace-subjects-bench [FILTER]`.
//!
//! The comparison with nats-server, threads, memory and verdicts are in `cargo xtask bench subjects`.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tailrace_subjects_bench::classic::{CsTrie, InvertedBitmap, Naive, OptimizedBitmap, Trie};
use tailrace_subjects_bench::measure::Evictor;
use tailrace_subjects_bench::systems::{System, Tailrace, Way, subscribe};
use tailrace_subjects_bench::table::{Round, Table};
use tailrace_subjects_bench::workload::{Texts, Workload};

const SEED: u64 = 42;
const HOT: usize = 512;

/// Patterns, how many of them are subscribed, and the topics to look up.
struct Load<'a> {
    patterns: &'a Texts,
    count: usize,
    topics: &'a Texts,
    subjects: Vec<&'a [u8]>,
}

fn lookups<S: System>(group: &mut BenchmarkGroup<'_, WallTime>, load: &Load<'_>) {
    let table = Table::<S>::fill(load.patterns, load.count, load.topics);
    for way in S::WAYS {
        let size = if let Way::Batch(size) = way { *size } else { 1 };
        let (mut own, mut round) = (S::own(), Round::new(&load.subjects, 0));
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::from_parameter(way.name(S::NAME)), |bencher| {
            bencher.iter(|| {
                let subjects = round.take(size);
                table.matcher.ask(&mut own, *way, subjects, |found| {
                    black_box(found);
                });
            });
        });
    }
}

/// Adds and removes a pattern.
fn writes<S: System>(group: &mut BenchmarkGroup<'_, WallTime>, load: &Load<'_>) {
    let table = Table::<S>::fill(load.patterns, load.count, load.topics);
    let (mut index, others) = (0, load.patterns.len() - load.count);
    group.bench_function(BenchmarkId::from_parameter(S::NAME), |bencher| {
        bencher.iter(|| {
            index = (index + 1) % others;
            let subscription = subscribe(&table.matcher, load.patterns.get(load.count + index), 0);
            assert!(table.matcher.unsubscribe(subscription), "a subscription is missing");
        });
    });
}

fn cold<S: System>(group: &mut BenchmarkGroup<'_, WallTime>, load: &Load<'_>) {
    let table = Table::<S>::fill(load.patterns, load.count, load.topics);
    let (mut own, mut round, mut evictor) = (S::own(), Round::new(&load.subjects, 0), Evictor::new());
    group.bench_function(BenchmarkId::from_parameter(S::NAME), |bencher| {
        let ask = |subjects: &[&[u8]]| {
            table.matcher.ask(&mut own, Way::Plain, subjects, |found| {
                black_box(found);
            });
        };
        let prepare = || {
            evictor.evict();
            round.take(1)
        };
        bencher.iter_batched(prepare, ask, criterion::BatchSize::PerIteration);
    });
}

/// Runs a function for every algorithm. The second list is for those that can hold large tables.
macro_rules! each {
    (all, $run:ident($group:expr, $load:expr)) => {
        each!(large, $run($group, $load));
        $run::<Naive<u64>>($group, $load);
        $run::<InvertedBitmap<u64>>($group, $load);
        $run::<OptimizedBitmap<u64>>($group, $load);
    };
    (large, $run:ident($group:expr, $load:expr)) => {
        $run::<Tailrace>($group, $load);
        $run::<Trie<u64>>($group, $load);
        $run::<CsTrie<u64>>($group, $load);
    };
}

fn short<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    group
}

fn thousand(criterion: &mut Criterion) {
    let workload = Workload::new(SEED);
    let patterns = workload.patterns(2_000);
    let topics = workload.subjects(&patterns, 1_000, 1_000);
    let load = Load { patterns: &patterns, count: 1_000, topics: &topics, subjects: topics.iter().collect() };
    let mut group = short(criterion, "1k lookup hot");
    each!(all, lookups(&mut group, &load));
    group.finish();
    let mut group = short(criterion, "1k subscribe and unsubscribe");
    each!(all, writes(&mut group, &load));
    group.finish();
    let mut group = short(criterion, "1k lookup cold");
    each!(all, cold(&mut group, &load));
    group.finish();
}

fn three(criterion: &mut Criterion) {
    let workload = Workload::new(SEED);
    let (patterns, topics) = (workload.three_patterns(), workload.three_subjects());
    let load = Load {
        patterns: &patterns,
        count: patterns.len(),
        topics: &topics,
        subjects: topics.iter().collect(),
    };
    let mut group = short(criterion, "3 words, 3 hits");
    each!(all, lookups(&mut group, &load));
    group.finish();
}

fn large(criterion: &mut Criterion) {
    let workload = Workload::new(SEED);
    for (name, count) in [("100k", 100_000), ("1M", 1_000_000)] {
        let patterns = workload.patterns(count);
        let topics = workload.subjects(&patterns, count, count);
        let all: Vec<&[u8]> = topics.iter().collect();
        for (what, subjects) in [("unique", &all[..]), ("hot", &all[..HOT])] {
            let load = Load { patterns: &patterns, count, topics: &topics, subjects: subjects.to_vec() };
            let mut group = short(criterion, &format!("{name} {what}"));
            each!(large, lookups(&mut group, &load));
            group.finish();
        }
    }
}

criterion_group!(benches, thousand, three, large);
criterion_main!(benches);
