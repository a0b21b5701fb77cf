//! Resources that this process uses, from /proc. They are 0 if /proc is unavailable.

use parking_lot::Mutex;
use tailrace_env::time::{Duration, Instant};

/// Minimum time over which the CPU usage is measured.
const WINDOW: Duration = Duration::from_secs(1);

/// Measures the CPU usage between two readings.
#[derive(Debug)]
pub(super) struct CpuMeter(Mutex<Look>);

#[derive(Debug)]
struct Look {
    at: Instant,
    ticks: u64,
    percent: f64,
}

impl CpuMeter {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Look { at: Instant::now(), ticks: ticks().unwrap_or(0), percent: 0.0 }))
    }

    /// Returns the CPU usage in percent of one core, since the last reading at least a second ago. May exceed
    /// 100 on several cores.
    pub(super) fn percent(&self) -> f64 {
        let mut look = self.0.lock();
        let took = look.at.elapsed();
        if took >= WINDOW
            && let Some(now) = ticks()
        {
            let busy = now.saturating_sub(look.ticks) as f64 / rustix::param::clock_ticks_per_second() as f64;
            let percent = 100.0 * busy / took.as_secs_f64();
            *look = Look { at: Instant::now(), ticks: now, percent: percent.round() };
        }
        look.percent
    }
}

/// Returns the clock ticks that all threads have used.
fn ticks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may contain blanks. User and system time are the 14th and 15th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Most threads on the page. The server has some dozens, and there may be hundreds of worker threads.
const THREADS_MAX: usize = 4096;

/// Lists the threads of this process, a line with name and state for each. This takes the place of Go's
/// stacks.
pub(super) fn threads() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lines = tasks.take(THREADS_MAX).filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (number, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        Some(format!("thread {number} [{}]: {name}\n", state(rest.chars().next()?)))
    });
    lines.collect()
}

/// Names a state of proc_pid_stat(5).
fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting for a disk",
        'T' | 't' => "stopped",
        _ => "ended",
    }
}

/// Returns the bytes of memory in use.
pub(super) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.as_deref().and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    resident.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Returns the number of cores that this process may use.
pub(super) fn cores() -> usize {
    tailrace_env::thread::processors()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_takes_something() {
        assert!(resident_bytes() > 100_000);
        assert!(cores() > 0);
        assert!(ticks().is_some());
        assert!(threads().lines().any(|line| line.starts_with("thread ") && line.contains("[running]: ")));
    }

    #[test]
    fn the_share_of_the_cpu_is_that_of_the_time_since_the_last_look() {
        assert_eq!(CpuMeter::new().percent(), 0.0, "no window has ended");
        let taken = || ticks().expect("/proc is available");
        while taken() < 20 {
            std::hint::spin_loop();
        }
        // Other tests of this process may have used more ticks than fit into two windows.
        let (at, ticks) = (Instant::now() - 2 * WINDOW, taken() - 20);
        let meter = CpuMeter(Mutex::new(Look { at, ticks, percent: 0.0 }));
        let percent = meter.percent();
        assert!((1.0..=100.0 * cores() as f64).contains(&percent), "{percent}");
        assert_eq!(meter.percent(), percent, "the next window has not ended");
    }
}
