//! Prints what is being measured and how long the rest will take.

use std::time::Instant;

use super::sample::Sample;
use super::stats::number;

/// The figures that a line of progress shows, if the sample has them.
const SHOWN: [&str; 29] = [
    "sent_per_s",
    "received_per_s",
    "messages_per_s",
    "server_cpu_s_per_m",
    "server_cpu_s_per_gb",
    "peak_rss_mib",
    "ready_ms",
    "idle_rss_mib",
    "node_cpu_pct",
    "node_rss_mib",
    "answers_s",
    "created_s",
    "p50_us",
    "p99_us",
    "p99.9_us",
    "ack_p50_us",
    "ack_p99_us",
    "foreign_pct",
    "match_ns",
    "matches_per_s",
    "writes_per_s",
    "subscribe_ns",
    "unsubscribe_ns",
    "insert_ns",
    "remove_ns",
    "resident_bytes",
    "p99_ns",
    "max_ns",
    "at_once_ratio",
];

pub(super) struct Progress {
    began: Instant,
    /// The planned seconds of the whole run.
    planned_s: f64,
    /// The planned seconds of the finished parts.
    finished_s: f64,
    /// The planned seconds of the current part.
    part_s: f64,
}

impl Progress {
    pub(super) fn new(planned_s: f64) -> Self {
        Self { began: Instant::now(), planned_s, finished_s: 0.0, part_s: 0.0 }
    }

    pub(super) fn begin(&mut self, name: &str, planned_s: f64) {
        self.finished_s += self.part_s;
        self.part_s = planned_s;
        self.say(&format!("part {name}, about {}", minutes(planned_s)));
    }

    pub(super) fn say(&self, what: &str) {
        eprintln!("[{}] {what}", minutes(self.began.elapsed().as_secs_f64()));
    }

    pub(super) fn sample(&self, sample: &Sample, rounds: u32) {
        let elapsed = self.began.elapsed().as_secs_f64();
        let left = left_s(
            self.planned_s,
            self.finished_s,
            self.part_s,
            elapsed,
            f64::from(sample.round) / f64::from(rounds),
        );
        let shown =
            SHOWN.iter().filter_map(|name| Some(format!("{name}={}", number(*sample.figures.get(*name)?))));
        let figures: Vec<String> = shown.collect();
        let failed = sample.failed.as_ref().map_or(String::new(), |reason| format!(" FAILED: {reason}"));
        eprintln!(
            "[{}, {} left] {} {} {} {}/{rounds}: {}{failed}",
            minutes(elapsed),
            minutes(left),
            sample.part,
            sample.load,
            sample.system,
            sample.round,
            figures.join(" "),
        );
    }
}

/// The planned time of the rest, scaled by the pace of the finished parts.
fn left_s(planned: f64, finished: f64, part: f64, elapsed: f64, part_done: f64) -> f64 {
    let done = finished + part * part_done.min(1.0);
    let stretch = if finished > 0.0 { (elapsed / done).clamp(0.5, 4.0) } else { 1.0 };
    ((planned - done) * stretch).max(0.0)
}

fn minutes(seconds: f64) -> String {
    format!("{}:{:02}", seconds as u64 / 60, seconds as u64 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_pace() {
        assert_eq!(left_s(100.0, 0.0, 20.0, 7.0, 0.5), 90.0);
        assert_eq!(left_s(100.0, 40.0, 20.0, 100.0, 0.5), 100.0);
        assert_eq!(left_s(100.0, 90.0, 20.0, 100.0, 1.0), 0.0);
        assert_eq!(minutes(65.9), "1:05");
    }
}
