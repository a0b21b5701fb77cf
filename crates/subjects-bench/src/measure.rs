//! Clocks, memory of the process, and percentiles.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::line::Line;

/// Current bytes on the heap; `None` if the program does not count them.
pub type HeapBytes = Option<fn() -> usize>;

/// Lookups between two readings of the clock.
pub(crate) const CLOCK_EVERY: usize = 512;

/// Repeats `work`, which returns how many operations it did, until the time is up. Returns nanoseconds per
/// operation.
pub(crate) fn pace(seconds: f64, mut work: impl FnMut() -> usize) -> f64 {
    let limit = Duration::from_secs_f64(seconds);
    let (began, mut done) = (Instant::now(), 0);
    loop {
        done += work();
        let elapsed = began.elapsed();
        if elapsed >= limit {
            return elapsed.as_nanos() as f64 / done as f64;
        }
    }
}

/// Nanoseconds per operation of `count` operations.
pub(crate) fn each_ns(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let began = Instant::now();
    (0..count).for_each(&mut work);
    began.elapsed().as_nanos() as f64 / count as f64
}

/// Resident bytes of this process; 0 if the kernel does not report them.
#[must_use]
pub(crate) fn resident_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// The median; with an even count the upper of the two middle ones.
///
/// # Panics
/// There are no samples.
#[must_use]
pub(crate) fn median(mut samples: Vec<u32>) -> f64 {
    samples.sort_unstable();
    f64::from(samples[samples.len() / 2])
}

/// Percentiles of all samples, with their names in the report, in thousandths of a per cent.
const PERCENTILES: [(&str, usize); 10] = [
    ("p10_ns", 10_000),
    ("p50_ns", 50_000),
    ("p75_ns", 75_000),
    ("p90_ns", 90_000),
    ("p95_ns", 95_000),
    ("p99_ns", 99_000),
    ("p99.9_ns", 99_900),
    ("p99.99_ns", 99_990),
    ("p99.999_ns", 99_999),
    ("max_ns", WHOLE),
];
const WHOLE: usize = 100_000;

/// Adds the distribution of `samples`: for each percentile the smallest value that this share of them does
/// not exceed.
#[must_use]
pub(crate) fn distribution(mut line: Line, mut samples: Vec<u32>) -> Line {
    samples.sort_unstable();
    for (name, share) in PERCENTILES {
        let rank = (samples.len() * share).div_ceil(WHOLE).max(1);
        line = line.with(name, f64::from(samples[rank - 1]));
    }
    line
}

/// The time since `began` in whole nanoseconds, capped at about four seconds.
#[must_use]
pub(crate) fn since(began: Instant) -> u32 {
    u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

/// Makes the caches of the core cold by reading more memory than they hold.
///
/// The caches that cores share with others (480 MiB on some hosts) may be larger; they are not evicted.
#[derive(Debug)]
pub struct Evictor {
    buffer: Vec<u64>,
}

impl Evictor {
    const BYTES: usize = 64 << 20;
    const LINE_WORDS: usize = 8;

    /// Allocates the memory.
    #[must_use]
    pub fn new() -> Self {
        Self { buffer: (0..Self::BYTES as u64 / 8).collect() }
    }

    /// Reads and writes all of it.
    pub fn evict(&mut self) {
        for line in self.buffer.chunks_mut(Self::LINE_WORDS) {
            line[0] = line[0].wrapping_add(1);
        }
        black_box(&self.buffer);
    }
}

impl Default for Evictor {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_every_sample() {
        let line = distribution(Line::default(), (1..=1000).collect());
        let figure = |name: &str| line.figures[name];
        assert_eq!((figure("p50_ns"), figure("p99.9_ns"), figure("max_ns")), (500.0, 999.0, 1000.0));
        assert_eq!(median(vec![9, 1, 5]), 5.0);
    }

    #[test]
    fn a_process_has_memory() {
        assert!(resident_bytes() > 100_000.0);
        assert!(pace(0.001, || 10) < 1e5);
    }
}
