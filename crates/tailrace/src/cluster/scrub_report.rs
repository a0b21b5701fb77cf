//! The output of `tailrace cluster scrub`: progress on the nodes, and whether everything was read in the end.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::Value;
use tailrace_cli::failure::note;
use tailrace_cli::text::units::{self, plural};

use super::pages::{Pages, cell, list};

/// Time between two lines of progress if standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// After this long, a node's measured rate counts; before, its limit does.
const MEASURED_AFTER_MS: u64 = 3_000;
/// Estimates from this length on bring the advice to raise the rate.
const LONG_SECONDS: f64 = 600.0;

/// A count in a page; 0 if the node is too old to send it.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Damaged files that a round has found. An older node sends no count, so the files that it lists are
/// counted.
pub(super) fn found_in(scrub: &Value) -> u64 {
    scrub["found_total"].as_u64().unwrap_or(list(scrub, "found").count() as u64)
}

pub(super) fn damaged_files(count: u64) -> String {
    if count == 0 { "no damaged file".to_owned() } else { plural(count, "damaged file") }
}

/// The progress of a round on all nodes together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Progress {
    nodes: usize,
    working: usize,
    partitions: u64,
    partitions_done: u64,
    bytes: u64,
    bytes_done: u64,
    /// Bytes read per second by all nodes.
    rate: f64,
    /// The limit per node; 0 if there is none.
    limit: u64,
    /// Seconds until the last node is done, if they can be estimated.
    seconds_left: Option<f64>,
}

impl Progress {
    pub(super) fn of(pages: &Pages, request: &str, nodes: usize, working: usize) -> Self {
        let its = |page: &&Value| page["scrub"]["request"].as_str() == Some(request);
        let scrubs = pages.all.iter().filter_map(|(_, page)| page.as_ref().ok()).filter(its);
        let mut all = Self { nodes, working, ..Self::default() };
        scrubs.for_each(|page| all.add(&page["scrub"]));
        all
    }

    fn add(&mut self, scrub: &Value) {
        // The total is slightly off if data is appended or deleted during the round.
        let done = number(&scrub["bytes_done"]);
        let total = number(&scrub["bytes"]).max(done);
        self.partitions += number(&scrub["partitions"]);
        self.partitions_done += number(&scrub["partitions_done"]);
        (self.bytes, self.bytes_done) = (self.bytes + total, self.bytes_done + done);
        if scrub["running"].as_bool() != Some(true) {
            return;
        }
        let (elapsed_ms, limit) = (number(&scrub["elapsed_ms"]), number(&scrub["bytes_per_second"]));
        let measured = done as f64 * 1e3 / elapsed_ms.max(1) as f64;
        let rate = if elapsed_ms >= MEASURED_AFTER_MS || limit == 0 { measured } else { limit as f64 };
        self.limit = self.limit.max(limit);
        self.rate += rate;
        if rate > 0.0 {
            let left = (total - done) as f64 / rate;
            self.seconds_left = Some(self.seconds_left.map_or(left, |longest| longest.max(left)));
        }
    }

    /// Reports whether any node has started.
    fn has_begun(&self) -> bool {
        self.partitions > 0
    }

    fn line(&self) -> String {
        let done = self.nodes - self.working;
        let left = self
            .seconds_left
            .map_or_else(String::new, |seconds| format!(", about {} left", units::duration(seconds)));
        format!(
            "{done} of {} done, {} of {}, {} of {}, {}/s{left}",
            plural(self.nodes as u64, "node"),
            self.partitions_done,
            plural(self.partitions, "partition"),
            units::bytes(self.bytes_done as f64),
            units::bytes(self.bytes as f64),
            units::bytes(self.rate),
        )
    }

    /// Advice if the round takes long because of a limit.
    fn advice(&self) -> Option<String> {
        let is_long = self.limit > 0 && self.seconds_left.is_some_and(|seconds| seconds >= LONG_SECONDS);
        is_long.then(|| {
            format!(
                "a node reads at most {}/s (tailrace.scrub.bytes.per.second), a terabyte in {}; --rate 64MiB is faster, for \
                 that round alone",
                units::bytes(self.limit as f64),
                units::duration(1e12 / self.limit as f64)
            )
        })
    }
}

/// Shows progress on standard error: on a terminal as a line that is overwritten, elsewhere as a line every
/// ten seconds.
pub(super) struct Watch {
    on_terminal: bool,
    advises: bool,
    shown: Option<Instant>,
    line_is_there: bool,
}

impl Watch {
    pub(super) fn new(advises: bool) -> Self {
        let on_terminal = std::io::stderr().is_terminal() && !tailrace_cli::failure::speaks_json();
        Self { on_terminal, advises, shown: None, line_is_there: false }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if !progress.has_begun() {
            return;
        }
        if let Some(advice) = progress.advice().filter(|_| std::mem::take(&mut self.advises)) {
            self.clear();
            note(&advice);
        } else if progress.seconds_left.is_some() && progress.advice().is_none() {
            self.advises = false;
        }
        if self.on_terminal {
            // A write error on standard error does not matter.
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", progress.line());
            self.line_is_there = true;
        } else if self.shown.is_none_or(|shown| shown.elapsed() >= LINE_INTERVAL) {
            note(&progress.line());
            self.shown = Some(Instant::now());
        }
    }

    /// Clears the line before other output.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.line_is_there) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The result of a round on all nodes.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    nodes: u64,
    pub(super) partitions: u64,
    pub(super) bytes: u64,
    pub(super) found: u64,
    /// Damage that the nodes know of, also from earlier rounds.
    pub(super) not_mended: u64,
    /// Why the round is not complete.
    missing: Vec<String>,
}

impl Outcome {
    pub(super) fn of(reports: &[Value], pages: &Pages) -> Self {
        let mut all = Self::default();
        reports.iter().for_each(|report| all.add(report));
        let damaged = pages.all.iter().filter_map(|(_, page)| page.as_ref().ok());
        all.not_mended = damaged.map(|page| list(page, "damaged").count() as u64).sum();
        all
    }

    fn add(&mut self, report: &Value) {
        let (node, scrub) = (cell(&report["node"]), &report["scrub"]);
        if let Some(error) = report["error"].as_str() {
            self.missing.push(format!("node {node}: {error}"));
            return;
        }
        let (done, total) = (number(&scrub["partitions_done"]), number(&scrub["partitions"]));
        let not_read = list(scrub, "not_read").count() as u64;
        if scrub["running"].as_bool() == Some(true) {
            self.missing
                .push(format!("node {node} is still reading: {done} of {}", plural(total, "partition")));
        } else if done < total {
            self.missing
                .push(format!("node {node} was stopped after {done} of {}", plural(total, "partition")));
        } else if not_read > 0 {
            self.missing.push(format!("node {node} could not read {}", plural(not_read, "partition")));
        }
        self.nodes += 1;
        self.partitions += done;
        self.bytes += number(&scrub["bytes_done"]);
        self.found += found_in(scrub);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.nodes > 0
    }

    /// The last line.
    pub(super) fn line(&self) -> String {
        let counts = format!(
            "{}, {}, {}, {}",
            plural(self.nodes, "node"),
            plural(self.partitions, "partition"),
            units::bytes(self.bytes as f64),
            damaged_files(self.found)
        );
        let known = match self.not_mended {
            0 => String::new(),
            count => format!("; {} not repaired, see `tailrace cluster status`", plural(count, "damage")),
        };
        if self.is_complete() {
            return format!("complete: {counts}{known}\n");
        }
        format!("NOT COMPLETE: {}; read so far: {counts}{known}\n", self.missing.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scrub(elapsed_ms: u64, bytes_done: u64, limit: u64) -> Value {
        json!({
            "request": "r", "running": true, "partitions": 10, "partitions_done": 4, "bytes": 1_000_000_000_000_u64,
            "bytes_done": bytes_done, "bytes_per_second": limit, "elapsed_ms": elapsed_ms, "found": [], "found_total": 0,
        })
    }

    fn progress(scrubs: &[Value]) -> Progress {
        let mut progress = Progress { nodes: 2, working: 2, ..Progress::default() };
        scrubs.iter().for_each(|scrub| progress.add(scrub));
        progress
    }

    #[test]
    fn a_terabyte_takes_three_days_and_it_is_said() {
        let slow = progress(&[scrub(100, 0, 4_194_304)]);
        assert_eq!(
            slow.line(),
            "0 of 2 nodes done, 4 of 10 partitions, 0 B of 1.00 TB, 4.19 MB/s, about 2 d 18 h left"
        );
        let advice = slow.advice().unwrap();
        assert!(advice.contains("4.19 MB/s") && advice.contains("a terabyte in 2 d 18 h"), "{advice}");
        // The slowest node counts, at its measured rate.
        let both = progress(&[scrub(10_000, 10_000_000_000, 0), scrub(10_000, 500_000_000_000, 0)]);
        assert!(both.line().ends_with("51.0 GB/s, about 16 min left"), "{}", both.line());
        assert_eq!(both.advice(), None, "there is no limit");
    }

    fn report(running: bool, done: u64, not_read: &[&str]) -> Value {
        let not_read: Vec<_> =
            not_read.iter().map(|name| json!({ "partition": name, "reason": "why" })).collect();
        json!({ "node": 1, "scrub": {
            "running": running, "partitions": 3, "partitions_done": done, "bytes_done": 2000, "found": [],
            "found_total": 2, "not_read": not_read, "elapsed_ms": 10,
        } })
    }

    #[test]
    fn what_was_not_read_is_not_complete() {
        let line = |reports: &[Value]| {
            let mut outcome = Outcome::default();
            reports.iter().for_each(|report| outcome.add(report));
            (outcome.is_complete(), outcome.line())
        };
        let complete = (true, "complete: 1 node, 3 partitions, 2.00 kB, 2 damaged files\n".to_owned());
        assert_eq!(line(&[report(false, 3, &[])]), complete);
        for (reports, says) in [
            (
                vec![report(false, 2, &[])],
                "NOT COMPLETE: node 1 was stopped after 2 of 3 partitions; read so far",
            ),
            (vec![report(true, 2, &[])], "NOT COMPLETE: node 1 is still reading: 2 of 3 partitions; "),
            (vec![report(false, 3, &["t-0"])], "NOT COMPLETE: node 1 could not read 1 partition; "),
            (
                vec![report(false, 3, &[]), json!({ "node": 2, "error": "gone" })],
                "NOT COMPLETE: node 2: gone; ",
            ),
            (vec![], "NOT COMPLETE: "),
        ] {
            let (is_complete, line) = line(&reports);
            assert!(!is_complete && line.starts_with(says), "{line}");
        }
    }
}
