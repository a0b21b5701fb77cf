//! Writes the report after every sample, so that an interrupted run leaves one as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::options::Options;
use super::sample::{PartRun, Record, Sample, Setting};
use super::stats::Spread;
use super::targets::Target;

/// The line of the report that precedes its hand-written notes, which are kept.
const NOTES: &str = "<!-- What follows is written by hand and kept when the report is written again. -->";

/// The parts of a report that do not depend on its figures.
pub(super) struct Plan {
    pub(super) introduction: &'static str,
    /// Name and heading of each part, in order.
    pub(super) parts: &'static [(&'static str, &'static str)],
    pub(super) targets: &'static [Target],
}

impl Plan {
    /// Parses the arguments of a comparison whose parts have the names of the report.
    pub(super) fn options(
        &'static self,
        arguments: &[String],
        usage: &str,
    ) -> Result<Options<&'static str>, String> {
        let all = self.parts.iter().map(|(name, _)| *name);
        let one = |word: &str| {
            let known = all.clone().find(|name| *name == word);
            known.ok_or_else(|| format!("no part '{word}'\n{usage}"))
        };
        Options::parse_with(arguments, usage, all.clone().collect(), |text| {
            text.split(',').map(one).collect()
        })
    }
}

pub(super) struct Report {
    path: PathBuf,
    record: Record,
    plan: &'static Plan,
}

impl Report {
    pub(super) fn new(path: &Path, record: Record, plan: &'static Plan) -> Self {
        Self { path: path.to_owned(), record, plan }
    }

    pub(super) fn add(&mut self, sample: Sample) -> Result<(), String> {
        self.record.add(sample)?;
        let notes =
            fs::read_to_string(&self.path).ok().and_then(|old| Some(old.split_once(NOTES)?.1.to_owned()));
        let text = format!(
            "{}\n{NOTES}{}",
            markdown(self.plan, &self.record.newest()),
            notes.unwrap_or_else(|| "\n".to_owned())
        );
        fs::write(&self.path, text).map_err(|error| format!("{}: {error}", self.path.display()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The table of targets alone, for the terminal.
    pub(super) fn verdicts(&self) -> String {
        targets(self.plan, &self.record.newest())
    }
}

type Parts = BTreeMap<String, PartRun>;

fn markdown(plan: &Plan, parts: &Parts) -> String {
    let mut text = plan.introduction.to_owned();
    text.push_str(&settings(parts));
    text.push_str("\n## Targets\n");
    text.push_str(&targets(plan, parts));
    text.push_str("\n## What falls short\n");
    text.push_str(&shortfalls(plan, parts));
    for (part, title) in plan.parts {
        if let Some(run) = parts.get(*part) {
            let _ = write!(text, "\n## {title}\n{}", figures(&run.samples));
        }
    }
    text
}

/// A table with one line for each setting under which parts were measured.
fn settings(parts: &Parts) -> String {
    let mut shown = BTreeMap::<String, Vec<&str>>::new();
    for (part, run) in parts {
        shown.entry(setting(&run.setting)).or_default().push(part);
    }
    let mut text = String::from(
        "\n| parts | date | commit | machine | kernel | peer | rounds |\n|---|---|---|---|---|---|---|\n",
    );
    for (setting, parts) in shown {
        let _ = writeln!(text, "| {} {setting}", parts.join(" "));
    }
    text
}

fn setting(setting: &Setting) -> String {
    let Setting { date, commit, machine, kernel, peer, rounds, quick } = setting;
    let label = if *quick { ", **quick: not to be quoted**" } else { "" };
    format!("| {date} | {commit} | {machine} | {kernel} | {peer} | {rounds}{label} |")
}

fn targets(plan: &Plan, parts: &Parts) -> String {
    let mut text =
        String::from("| part | what | target | measured | rounds | met |\n|---|---|---|---|---|---|\n");
    for target in plan.targets {
        let spread = parts.get(target.part).and_then(|run| target.spread(&run.samples));
        let (measured, rounds, met) = match spread {
            None => ("not measured".to_owned(), 0, ""),
            Some(spread) => (spread.to_string(), spread.rounds, verdict(target, spread)),
        };
        let (part, what, bound) = (target.part, target.what, target.bound.shown());
        let _ = writeln!(text, "| {part} | {what} | {bound} | {measured} | {rounds} | {met} |");
    }
    text
}

fn verdict(target: &Target, spread: Spread) -> &'static str {
    match target.bound.is_met(spread.median) {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "-",
    }
}

fn shortfalls(plan: &Plan, parts: &Parts) -> String {
    let mut text = String::new();
    for target in plan.targets {
        let Some(spread) = parts.get(target.part).and_then(|run| target.spread(&run.samples)) else {
            continue;
        };
        if target.bound.is_met(spread.median) == Some(false) {
            let (part, what, bound) = (target.part, target.what, target.bound.shown());
            let _ = writeln!(text, "- {part}: {what}: {spread}, the target is {bound}.");
        }
    }
    let failed = parts.values().flat_map(|run| &run.samples).filter(|sample| sample.failed.is_some());
    for Sample { part, load, system, round, failed, .. } in failed {
        let reason = failed.as_deref().unwrap_or_default();
        let _ =
            writeln!(text, "- {part} {load}, {system}, round {round} failed and does not count: {reason}.");
    }
    if text.is_empty() { "Nothing that was measured.\n".to_owned() } else { text }
}

/// The figures that are worth a column, in the order of the columns.
const COLUMNS: [(&str, &str); 29] = [
    ("sent_per_s", "sent/s"),
    ("received_per_s", "received/s"),
    ("messages_per_s", "messages/s"),
    ("disk_mb_per_s", "disk MB/s"),
    ("disk_read_gb", "GB read from disk"),
    ("gb_per_s", "GB/s"),
    ("server_cpu_s_per_m", "server CPU s per 1M"),
    ("received_ratio", "received/s, ratio"),
    ("server_cpu_s_per_m_delivered", "server CPU s per 1M delivered"),
    ("replaced", "subscriptions replaced"),
    ("server_cpu_s_per_gb", "server CPU s per GB"),
    ("client_cpu_s_per_m", "client CPU s per 1M"),
    ("server_cpu_s", "server CPU s"),
    ("peak_rss_mib", "peak RSS MiB"),
    ("idle_rss_mib", "idle RSS MiB"),
    ("ready_ms", "ready ms"),
    ("node_cpu_pct", "% of a core per node"),
    ("node_rss_mib", "RSS MiB per node"),
    ("answers_s", "s to all leaders"),
    ("created_s", "s to create"),
    ("p50_us", "p50 us"),
    ("p99_us", "p99 us"),
    ("p99.9_us", "p99.9 us"),
    ("ack_p50_us", "ack p50 us"),
    ("ack_p99_us", "ack p99 us"),
    ("ack_p99.9_us", "ack p99.9 us"),
    ("lag_p99_us", "judge's lag p99 us"),
    ("wall_s", "s"),
    ("foreign_pct", "foreign CPU %"),
];

fn figures(samples: &[Sample]) -> String {
    let good = || samples.iter().filter(|sample| sample.failed.is_none());
    let used: BTreeSet<&str> = good().flat_map(|sample| sample.figures.keys().map(String::as_str)).collect();
    let columns: Vec<_> = COLUMNS.iter().filter(|(name, _)| used.contains(name)).collect();
    let heads: Vec<&str> = columns.iter().map(|(_, head)| *head).collect();
    let mut text =
        format!("| load | system | {} |\n{}|\n", heads.join(" | "), "|---".repeat(columns.len() + 2));
    let mut rows = Vec::new();
    for sample in good() {
        let row = (sample.load.as_str(), sample.system.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.sort_by_key(|(load, _)| samples.iter().position(|sample| sample.load == *load));
    for (load, system) in rows {
        let cell = |name: &str| {
            let mine = good().filter(|sample| sample.load == load && sample.system == system);
            let spread = Spread::of(mine.filter_map(|sample| sample.figures.get(name).copied()));
            spread.map_or_else(|| "-".to_owned(), |spread| spread.to_string())
        };
        let cells: Vec<String> = columns.iter().map(|(name, _)| cell(name)).collect();
        let _ = writeln!(text, "| {load} | {system} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(load: &str, system: &str, name: &str, value: f64) -> Sample {
        Sample {
            part: "produce".into(),
            load: load.into(),
            system: system.into(),
            round: 1,
            figures: BTreeMap::from([(name.into(), value)]),
            failed: None,
            line: String::new(),
        }
    }

    fn parts(samples: Vec<Sample>) -> Parts {
        let text = |text: &str| text.to_owned();
        let setting = Setting {
            date: text("today"),
            commit: text("abc"),
            machine: text("m"),
            kernel: text("k"),
            peer: text("Kafka"),
            rounds: 1,
            quick: true,
        };
        Parts::from([("produce".to_owned(), PartRun { setting, samples })])
    }

    #[test]
    fn verdicts_follow_the_median() {
        let rate = |system, value| sample("acks1", system, "sent_per_s", value);
        let text = markdown(&crate::PLAN, &parts(vec![rate("tailrace", 150.0), rate("kafka", 100.0)]));
        assert!(
            text.contains("| acks=1: records/s, over Kafka's | at least 2.00 | 1.50 | 1 | **no** |"),
            "{text}"
        );
        assert!(
            text.contains("- produce: acks=1: records/s, over Kafka's: 1.50, the target is at least 2.00."),
            "{text}"
        );
        assert!(text.contains("| not measured | 0 |"));
        assert!(text.contains("quick: not to be quoted"));
    }

    #[test]
    fn failures_are_named_and_left_out() {
        let mut failed = sample("acks1", "kafka", "sent_per_s", 100.0);
        failed.failed = Some("lost".into());
        let text =
            markdown(&crate::PLAN, &parts(vec![sample("acks1", "tailrace", "sent_per_s", 150.0), failed]));
        assert!(text.contains("round 1 failed and does not count: lost."));
        assert!(!text.contains("| acks1 | kafka |"));
    }

    #[test]
    fn rows_of_a_load_stand_together() {
        let rate = |load, system| sample(load, system, "sent_per_s", 1.0);
        let text = figures(&[rate("a", "x"), rate("b", "x"), rate("a", "y")]);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows, ["| a | x | 1.00 |", "| a | y | 1.00 |", "| b | x | 1.00 |"]);
    }
}
