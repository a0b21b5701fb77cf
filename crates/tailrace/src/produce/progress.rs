//! Progress of a run: counters that both threads share, and a line on standard error.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tailrace_cli::text::units;

/// Time between two lines.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Progress {
    started: Instant,
    shown: bool,
    input_bytes: Option<u64>,
    read_bytes: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    line_is_there: AtomicBool,
}

impl Progress {
    pub(super) fn new(input_bytes: Option<u64>, shown: bool) -> Self {
        Self {
            started: Instant::now(),
            shown,
            input_bytes,
            read_bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            line_is_there: AtomicBool::new(false),
        }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.shown
    }

    pub(super) fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn acknowledge(&self, records: u64, bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records, and bytes of their keys and values.
    pub(super) fn acknowledged(&self) -> (u64, u64) {
        (self.records.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Overwrites the last line.
    pub(super) fn show(&self) {
        if !self.shown {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let (records, bytes) = self.acknowledged();
        let part = match self.input_bytes {
            Some(total) if total > 0 => {
                let read = self.read_bytes.load(Ordering::Relaxed).min(total);
                format!("{:3.0} %  ", 100.0 * read as f64 / total as f64)
            }
            _ => String::new(),
        };
        let rate = units::count(records as f64 / seconds.max(1e-9));
        let _ = write!(
            std::io::stderr(),
            "\r{part}{} records, {}, {rate} records/s\x1b[K",
            units::count(records as f64),
            units::bytes(bytes as f64),
        );
        self.line_is_there.store(true, Ordering::Relaxed);
    }

    /// Clears the line before other output.
    pub(super) fn clear(&self) {
        if self.line_is_there.swap(false, Ordering::Relaxed) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
