//! What server and generator use while a run goes on: processor time, memory, context switches, reads and writes.
//!
//! Sampled once per second from /proc, for the process that was started, without its children.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);

/// A thread that samples until it is stopped.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<String>>,
}

impl Sampler {
    /// Samples these processes, each with a name.
    pub(super) fn start(processes: Vec<(&'static str, u32)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let body = move || sample(&processes, &flag);
        Self { stop, thread: thread::Builder::new().name("sampler".to_owned()).spawn(body).ok() }
    }

    /// Ends it; returns the samples as CSV.
    pub(super) fn finish(mut self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn sample(processes: &[(&str, u32)], stop: &AtomicBool) -> String {
    let mut text = String::from(
        "second,process,cpu_seconds,resident_bytes,voluntary_switches,involuntary_switches,read_bytes,written_bytes,\
         disk_read_bytes,disk_written_bytes\n",
    );
    let begun = Instant::now();
    let mut next = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        if begun.elapsed() < next {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        next += INTERVAL;
        for (name, pid) in processes {
            let _ =
                writeln!(text, "{:.3},{name},{}", begun.elapsed().as_secs_f64(), Sample::take(*pid).row());
        }
    }
    text
}

/// Counters since the beginning of the process, and its memory now. What cannot be read is 0.
#[derive(Debug, Default, PartialEq)]
struct Sample {
    cpu_seconds: f64,
    resident_bytes: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    read_bytes: u64,
    written_bytes: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
}

impl Sample {
    fn take(pid: u32) -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        Self::parse(&read("stat"), &read("status"), &read("io"))
    }

    fn parse(stat: &str, status: &str, io: &str) -> Self {
        // The name in parentheses may hold anything; fields are counted from behind it.
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let ticks: u64 = fields.iter().skip(11).take(2).sum();
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let of = |text: &str, key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Self {
            cpu_seconds: ticks as f64 / per_second as f64,
            resident_bytes: of(status, "VmRSS") * 1024,
            voluntary_switches: of(status, "voluntary_ctxt_switches"),
            involuntary_switches: of(status, "nonvoluntary_ctxt_switches"),
            read_bytes: of(io, "rchar"),
            written_bytes: of(io, "wchar"),
            disk_read_bytes: of(io, "read_bytes"),
            disk_written_bytes: of(io, "write_bytes"),
        }
    }

    fn row(&self) -> String {
        format!(
            "{:.2},{},{},{},{},{},{},{}",
            self.cpu_seconds,
            self.resident_bytes,
            self.voluntary_switches,
            self.involuntary_switches,
            self.read_bytes,
            self.written_bytes,
            self.disk_read_bytes,
            self.disk_written_bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 300 200 0 0";
        let status =
            "Name:\tx\nVmRSS:\t  12 kB\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        let io = "rchar: 10\nwchar: 20\nread_bytes: 30\nwrite_bytes: 40\n";
        let sample = Sample::parse(stat, status, io);
        assert_eq!(
            (sample.resident_bytes, sample.voluntary_switches, sample.involuntary_switches),
            (12_288, 5, 6)
        );
        assert!(sample.cpu_seconds > 0.0);
        assert_eq!((sample.read_bytes, sample.disk_written_bytes), (10, 40));
        assert_eq!(Sample::parse("", "", ""), Sample::default());
    }

    #[test]
    fn this_process_is_sampled() {
        let sampler = Sampler::start(vec![("generator", std::process::id())]);
        thread::sleep(Duration::from_millis(100));
        let text = sampler.finish();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.contains(",generator,")), "{text}");
    }
}
