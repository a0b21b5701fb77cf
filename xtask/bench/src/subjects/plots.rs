//! The data of the plots, for the plotting program of `crates/subjects-bench`.

use serde::Serialize;

use crate::sample::Sample;

use super::parts::{Parts, place, thread_counts};
use super::targets::spread;

/// One picture. All values are medians of the rounds; the value axis is logarithmic.
#[derive(Serialize)]
pub(super) struct Plot {
    pub(super) file: &'static str,
    pub(super) title: String,
    x_label: &'static str,
    y_label: &'static str,
    /// The label under each group of bars, or under each x value of lines, which are equally spaced.
    categories: Vec<String>,
    bars: bool,
    series: Vec<Series>,
}

#[derive(Serialize)]
struct Series {
    name: String,
    /// The index of the category, and the value.
    points: Vec<(usize, f64)>,
}

type Pick<'a> = (&'a str, &'a str, &'a str);

/// Returns the plots for which there are figures.
pub(super) fn spec(parts: &Parts) -> Vec<Plot> {
    let plots = [
        operations(parts),
        lookups(parts),
        threads(parts, "unique"),
        threads(parts, "hot"),
        memory(parts),
        growth(parts),
    ];
    plots.into_iter().filter(|plot| !plot.series.is_empty()).collect()
}

/// Systems along the axis, a bar for each operation.
fn operations(parts: &Parts) -> Plot {
    let picks: [(&str, Pick<'_>); 6] = [
        ("subscribe, hot", ("thousand", "1k hot", "subscribe_ns")),
        ("unsubscribe, hot", ("thousand", "1k hot", "unsubscribe_ns")),
        ("lookup, hot", ("thousand", "1k hot", "match_ns")),
        ("subscribe, cold", ("thousand", "1k cold", "subscribe_ns")),
        ("unsubscribe, cold", ("thousand", "1k cold", "unsubscribe_ns")),
        ("lookup, cold", ("thousand", "1k cold", "match_ns")),
    ];
    bars(parts, "operations", "Time of an operation, 1,000 patterns of five words", "nanoseconds", &picks)
}

fn lookups(parts: &Parts) -> Plot {
    let picks: [(&str, Pick<'_>); 5] = [
        ("1 k", ("thousand", "1k hot", "match_ns")),
        ("100 k, unique subjects", ("table", "100k unique", "match_ns")),
        ("1 M, unique subjects", ("million", "1M unique", "match_ns")),
        ("100 k, 512 hot subjects", ("table", "100k hot", "match_ns")),
        ("100 k, one subject", ("table", "100k one", "match_ns")),
    ];
    bars(parts, "lookups", "Time of a lookup, one thread", "nanoseconds", &picks)
}

fn memory(parts: &Parts) -> Plot {
    let picks: [(&str, Pick<'_>); 3] = [
        ("resident, 100 k", ("table", "100k build", "resident_bytes")),
        ("resident, 1 M", ("million", "1M build", "resident_bytes")),
        ("on the heap, 1 M", ("memory", "1M", "heap_bytes")),
    ];
    bars(parts, "memory", "Bytes per subscription", "bytes", &picks)
}

fn bars(
    parts: &Parts,
    file: &'static str,
    title: &str,
    y_label: &'static str,
    picks: &[(&str, Pick<'_>)],
) -> Plot {
    let mut systems: Vec<&str> = Vec::new();
    for (_, (part, load, name)) in picks {
        let samples = samples(parts, part);
        let has = |s: &&Sample| s.load == *load && s.figures.contains_key(*name);
        systems.extend(samples.iter().filter(has).map(|sample| sample.system.as_str()));
    }
    systems.sort_by_key(|system| place(system));
    systems.dedup();
    let series = picks.iter().map(|(label, (part, load, name))| Series {
        name: (*label).to_owned(),
        points: points(systems.iter().map(|system| median(samples(parts, part), load, system, name))),
    });
    Plot {
        file,
        title: title.to_owned(),
        x_label: "",
        y_label,
        series: series.filter(|series| !series.points.is_empty()).collect(),
        categories: systems.into_iter().map(str::to_owned).collect(),
        bars: true,
    }
}

/// 100,000 patterns with 10 % writes.
fn threads(parts: &Parts, what: &str) -> Plot {
    let samples = samples(parts, "threads");
    let counts = thread_counts(samples);
    let load = |count: &usize| format!("100k {what}, {count} threads, 10% writes");
    let line = |system: &str| Series {
        name: system.to_owned(),
        points: points(counts.iter().map(|count| median(samples, &load(count), system, "matches_per_s"))),
    };
    Plot {
        file: if what == "hot" { "threads-hot" } else { "threads-unique" },
        title: format!("Throughput with 10 % writes, 100,000 patterns, {what} subjects"),
        x_label: "threads",
        y_label: "matches per second",
        series: lines(systems(samples), line),
        categories: counts.iter().map(usize::to_string).collect(),
        bars: false,
    }
}

fn growth(parts: &Parts) -> Plot {
    const PERCENTILES: [&str; 10] =
        ["p10", "p50", "p75", "p90", "p95", "p99", "p99.9", "p99.99", "p99.999", "max"];
    let samples = samples(parts, "growth");
    let load = samples.first().map_or("", |sample| sample.load.as_str());
    let line = |system: &str| Series {
        name: system.to_owned(),
        points: points(PERCENTILES.iter().map(|name| median(samples, load, system, &format!("{name}_ns")))),
    };
    Plot {
        file: "growth",
        title: "Time of each insert while the table grows from nothing to 2 million".to_owned(),
        x_label: "percentile of all inserts",
        y_label: "nanoseconds",
        series: lines(beside_one_empty_loop(samples), line),
        categories: PERCENTILES.iter().map(|name| (*name).to_owned()).collect(),
        bars: false,
    }
}

/// The systems, with only tailrace's empty loop. Every program measures its own, but they look alike.
fn beside_one_empty_loop(samples: &[Sample]) -> Vec<&str> {
    let mut systems = systems(samples);
    systems.retain(|system| !system.ends_with("empty loop") || system.starts_with("tailrace"));
    systems
}

fn lines(systems: Vec<&str>, line: impl Fn(&str) -> Series) -> Vec<Series> {
    systems.into_iter().map(line).filter(|series| !series.points.is_empty()).collect()
}

fn systems(samples: &[Sample]) -> Vec<&str> {
    let mut systems: Vec<&str> = samples.iter().map(|sample| sample.system.as_str()).collect();
    systems.sort_by_key(|system| (place(system), *system));
    systems.dedup();
    systems
}

fn samples<'a>(parts: &'a Parts, part: &str) -> &'a [Sample] {
    parts.get(part).map_or(&[], |run| &run.samples)
}

fn median(samples: &[Sample], load: &str, system: &str, name: &str) -> Option<f64> {
    Some(spread(samples, load, system, name)?.median)
}

/// The points of a series. Leaves out values that a logarithmic axis cannot show.
fn points(values: impl Iterator<Item = Option<f64>>) -> Vec<(usize, f64)> {
    let positive = |(index, value): (usize, Option<f64>)| Some((index, value.filter(|value| *value > 0.0)?));
    values.enumerate().filter_map(positive).collect()
}
