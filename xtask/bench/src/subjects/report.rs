//! Tables for the terminal and for docs/benchmarks/subjects.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::sample::Sample;
use xtask::run::root;

use super::part::Part;
use super::parts::{Parts, place, thread_counts};
use super::targets::{TARGETS, figure, ratio, spread};
use super::{build, plots};

const PAGE: &str = "docs/benchmarks/subjects.md";
const PLOTS: &str = "docs/benchmarks/subjects";
/// The file that tells the plotting program what to draw.
const SPEC: &str = "plots.json";
/// The text between these two lines is generated. The rest of the page is prose and stays.
const BEGIN: &str = "<!-- tables: begin -->";
const END: &str = "<!-- tables: end -->";
/// The systems with which a column compares all others.
const BASES: [&str; 3] = ["nats", "nats-cached", "cs-trie"];

/// Figures in the order of their columns.
const COLUMNS: [(&str, &str); 30] = [
    ("subscribe_ns", "subscribe ns"),
    ("unsubscribe_ns", "unsubscribe ns"),
    ("match_ns", "lookup ns"),
    ("matches_per_s", "matches/s"),
    ("changes_per_s", "changes/s"),
    ("insert_ns", "insert ns"),
    ("parse_ns", "of it parsing ns"),
    ("remove_ns", "remove ns"),
    ("resident_bytes", "resident bytes each"),
    ("heap_bytes", "heap bytes each"),
    ("p10_ns", "p10 ns"),
    ("p50_ns", "p50 ns"),
    ("p75_ns", "p75 ns"),
    ("p90_ns", "p90 ns"),
    ("p95_ns", "p95 ns"),
    ("p99_ns", "p99 ns"),
    ("p99.9_ns", "p99.9 ns"),
    ("p99.99_ns", "p99.99 ns"),
    ("p99.999_ns", "p99.999 ns"),
    ("max_ns", "max ns"),
    ("stalls", "of 1 ms or more"),
    ("start_mib", "before MiB"),
    ("singly_mib", "after pairs MiB"),
    ("full_mib", "all at once MiB"),
    ("at_once_mib", "after these MiB"),
    ("given_back_mib", "given back MiB"),
    ("singly_ratio", "after pairs / before"),
    ("at_once_ratio", "after these / before"),
    ("given_back_ratio", "given back / before"),
    ("writers", "writers"),
];

/// The tables of the newest run of each part.
pub(super) fn tables(parts: &Parts) -> String {
    let mut text = settings(parts);
    let _ = write!(text, "\n### Targets\n\n{}{}", targets(parts), failures(parts));
    for part in Part::ALL {
        let Some(run) = parts.get(part.name()) else { continue };
        let _ = write!(text, "\n### {}\n\n", part.title());
        text.push_str(&match part {
            Part::Threads | Part::MillionThreads => by_threads(&run.samples),
            _ => figures(&run.samples),
        });
    }
    text
}

/// Writes the page and its plots.
pub(super) fn write(parts: &Parts, scratch: &Path) -> Result<(), String> {
    let path = root().join(PAGE);
    let failure = |error| format!("{}: {error}", path.display());
    let old = fs::read_to_string(&path).map_err(failure)?;
    let spec = scratch.join(SPEC);
    let plots = plots::spec(parts);
    let json = serde_json::to_string(&plots).map_err(|error| error.to_string())?;
    fs::write(&spec, json).map_err(|error| format!("{}: {error}", spec.display()))?;
    build::draw(&spec, &root().join(PLOTS))?;
    let pictures: Vec<String> =
        plots.iter().map(|plot| format!("![{}](subjects/{}.png)\n", plot.title, plot.file)).collect();
    let new = between(&old, &format!("{}\n### Plots\n\n{}", tables(parts), pictures.join("\n")))?;
    fs::write(&path, new).map_err(failure)
}

/// Replaces the generated part of the page.
fn between(old: &str, tables: &str) -> Result<String, String> {
    let (head, rest) = old.split_once(BEGIN).ok_or_else(|| format!("{PAGE} has no line '{BEGIN}'"))?;
    let (_, tail) = rest.split_once(END).ok_or_else(|| format!("{PAGE} has no line '{END}'"))?;
    Ok(format!("{head}{BEGIN}\n{tables}{END}{tail}"))
}

/// A table with one line for each setting under which parts were measured.
fn settings(parts: &Parts) -> String {
    let mut shown = BTreeMap::<String, Vec<&str>>::new();
    for (part, run) in parts {
        let s = &run.setting;
        let label = if s.quick { ", **quick: not to be quoted**" } else { "" };
        let rounds = run.samples.iter().map(|sample| sample.round).max().unwrap_or(0);
        let cells = [&s.date, &s.commit, &s.machine, &s.kernel, &s.peer].map(String::as_str).join(" | ");
        shown.entry(format!("{cells} | {rounds}{label} |")).or_default().push(part);
    }
    let mut text = String::from(
        "| parts | date | commit | machine | kernel | peer | rounds |\n|---|---|---|---|---|---|---|\n",
    );
    for (setting, parts) in shown {
        let _ = writeln!(text, "| {} | {setting}", parts.join(" "));
    }
    text
}

fn targets(parts: &Parts) -> String {
    let mut text =
        String::from("| part | what | target | measured | rounds | met |\n|---|---|---|---|---|---|\n");
    for target in TARGETS {
        let found = parts.get(target.part).and_then(|run| target.spread(run));
        let (measured, rounds, met) = match found {
            None if target.cores_min > 1 => (format!("needs {} cores", target.cores_min), 0, ""),
            None => ("not measured".to_owned(), 0, ""),
            Some(found) => {
                let met = match target.bound.is_met(found.median) {
                    Some(true) => "yes",
                    Some(false) => "**no**",
                    None => "-",
                };
                (found.to_string(), found.rounds, met)
            }
        };
        let (part, what, bound) = (target.part, target.what, target.bound.shown());
        let _ = writeln!(text, "| {part} | {what} | {bound} | {measured} | {rounds} | {met} |");
    }
    text
}

fn failures(parts: &Parts) -> String {
    let mut text = String::new();
    let failed = parts.values().flat_map(|run| &run.samples).filter(|sample| sample.failed.is_some());
    for Sample { part, load, system, round, failed, .. } in failed {
        let reason = failed.as_deref().unwrap_or_default();
        let _ =
            writeln!(text, "- {part} {load}, {system}, round {round} failed and does not count: {reason}.");
    }
    text
}

/// Loads and systems, grouped by load. Loads are in the order of the samples, and the systems of a load in
/// the order of [`place`].
fn rows(samples: &[Sample]) -> Vec<(&str, &str)> {
    let mut rows = Vec::new();
    for sample in samples.iter().filter(|sample| sample.failed.is_none()) {
        let row = (sample.load.as_str(), sample.system.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let first = |load: &str| samples.iter().position(|sample| sample.load == load);
    rows.sort_by_key(|(load, system)| (first(load), place(system)));
    rows
}

fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A table with a row for each load and system. If there are lookup rates, it also has their ratios.
fn figures(samples: &[Sample]) -> String {
    let used: BTreeSet<&str> = samples.iter().flat_map(|s| s.figures.keys().map(String::as_str)).collect();
    let columns: Vec<_> = COLUMNS.iter().filter(|(name, _)| used.contains(name)).collect();
    let compared = used.contains("matches_per_s");
    let bases: Vec<&str> = BASES
        .into_iter()
        .filter(|base| compared && samples.iter().any(|sample| sample.system == *base))
        .collect();
    let mut heads: Vec<String> = columns.iter().map(|(_, head)| (*head).to_owned()).collect();
    heads.extend(bases.iter().map(|base| format!("matches/s over {base}'s")));
    let mut text =
        format!("| load | system | {} |\n{}|\n", heads.join(" | "), "|---".repeat(heads.len() + 2));
    for (load, system) in rows(samples) {
        let mut cells: Vec<String> =
            columns.iter().map(|(name, _)| cell(spread(samples, load, system, name))).collect();
        cells.extend(bases.iter().map(|base| over(samples, load, system, base)));
        let _ = writeln!(text, "| {load} | {system} | {} |", cells.join(" | "));
    }
    text
}

fn over(samples: &[Sample], load: &str, system: &str, base: &str) -> String {
    const RATE: &str = "matches_per_s";
    cell(
        (system != base)
            .then(|| ratio(samples, figure(load, system, RATE), figure(load, base, RATE)))
            .flatten(),
    )
}

/// A table of millions of matches per second, with a row for each share of writes and system, and a column
/// for each number of threads.
fn by_threads(samples: &[Sample]) -> String {
    let threads = thread_counts(samples);
    let most = threads.last().copied().unwrap_or(1);
    let bases: Vec<&str> =
        BASES.into_iter().filter(|base| samples.iter().any(|sample| sample.system == *base)).collect();
    let mut heads: Vec<String> = threads.iter().map(|count| format!("{count} threads, M/s")).collect();
    heads.extend(bases.iter().map(|base| format!("{most} threads, over {base}'s")));
    let mut text = format!(
        "| subjects | writes | system | {} |\n{}|\n",
        heads.join(" | "),
        "|---".repeat(heads.len() + 3)
    );
    let mut seen = BTreeSet::new();
    for (load, system) in rows(samples) {
        let Some((what, writes)) = split_load(load) else { continue };
        if !seen.insert((what, writes, system)) {
            continue;
        }
        let load = |count: usize| format!("{what}, {count} threads, {writes} writes");
        let mut cells: Vec<String> = threads
            .iter()
            .map(|count| cell(spread(samples, &load(*count), system, "matches_per_s").map(|s| s.per(1e6))))
            .collect();
        cells.extend(bases.iter().map(|base| over(samples, &load(most), system, base)));
        let _ = writeln!(text, "| {what} | {writes} | {system} | {} |", cells.join(" | "));
    }
    text
}

/// Splits `100k hot, 2 threads, 10% writes` into `100k hot` and `10%`.
fn split_load(load: &str) -> Option<(&str, &str)> {
    let (what, rest) = load.split_once(", ")?;
    Some((what, rest.split_once(", ")?.1.strip_suffix(" writes")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{PartRun, Setting};

    fn sample(load: &str, system: &str, name: &str, value: f64) -> Sample {
        Sample {
            part: "million".into(),
            load: load.into(),
            system: system.into(),
            round: 1,
            figures: BTreeMap::from([(name.into(), value)]),
            failed: None,
            line: String::new(),
        }
    }

    fn parts(part: &str, samples: Vec<Sample>) -> Parts {
        let text = |text: &str| text.to_owned();
        let setting = Setting {
            date: text("today"),
            commit: text("abc"),
            machine: text("2 CPUs"),
            kernel: text("k"),
            peer: text("nats"),
            rounds: 1,
            quick: false,
        };
        Parts::from([(part.to_owned(), PartRun { setting, samples })])
    }

    #[test]
    fn verdicts_and_ratios_are_shown() {
        let rate = |system, value| sample("1M unique", system, "matches_per_s", value);
        let text = tables(&parts("million", vec![rate("nats", 1e6), rate("tailrace", 5e6)]));
        assert!(text.contains("| at least 8.00 | 5.00 | 1 | **no** |"), "{text}");
        assert!(text.contains("| 1M unique | tailrace | 5,000,000 | 5.00 |"), "{text}");
        assert!(text.find("| 1M unique | tailrace |") < text.find("| 1M unique | nats |"));
        assert!(text.contains("needs 16 cores"));
    }

    #[test]
    fn threads_become_columns() {
        let at = |threads: f64, value| {
            let load = format!("100k hot, {threads} threads, 10% writes");
            let mut sample = sample(&load, "trie", "matches_per_s", value);
            sample.figures.insert("threads".into(), threads);
            sample
        };
        let text = by_threads(&[at(1.0, 1e6), at(2.0, 3e6)]);
        assert!(text.contains("| 100k hot | 10% | trie | 1.00 | 3.00 |"), "{text}");
    }

    #[test]
    fn prose_around_the_tables_stays() {
        let old = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(between(&old, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(between("a", "new").is_err());
    }
}
