//! What this process takes of the machine, from /proc. Where there is none, it says 0.

use std::sync::Mutex;
use tailrace_env::time::{Duration, Instant};

/// Time over which the CPU is measured at least.
const WINDOW: Duration = Duration::from_secs(1);

/// Share of the CPU, by two looks.
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

    /// Percent of one core since the last look that was at least a second ago; above 100 on several.
    pub(super) fn percent(&self) -> f64 {
        let mut look = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

/// Clock ticks that all threads have used.
fn ticks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may hold blanks. User and system time are the 14th and 15th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Threads on the page at most. The server has some dozens; worker threads may be hundreds.
const THREADS_MAX: usize = 4096;

/// The threads of this process with their names and states, a line each: what there is in place of Go's stacks.
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

/// proc_pid_stat(5).
fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting for a disk",
        'T' | 't' => "stopped",
        _ => "ended",
    }
}

/// Bytes of memory in use.
pub(super) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.as_deref().and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    resident.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Cores that this process may use.
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
        assert_eq!(CpuMeter::new().percent(), 0.0, "no window is over");
        let taken = || ticks().expect("/proc is there");
        while taken() < 20 {
            std::hint::spin_loop();
        }
        // Other tests of this process may have taken more than two windows have.
        let (at, ticks) = (Instant::now() - 2 * WINDOW, taken() - 20);
        let meter = CpuMeter(Mutex::new(Look { at, ticks, percent: 0.0 }));
        let percent = meter.percent();
        assert!((1.0..=100.0 * cores() as f64).contains(&percent), "{percent}");
        assert_eq!(meter.percent(), percent, "the next window is not over");
    }
}
