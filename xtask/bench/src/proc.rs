//! Reads figures of processes and of the machine from /proc.

use std::collections::HashMap;
use std::fs;

/// Clock ticks per second in /proc. User space sees 100 on every architecture of Linux.
const TICKS_PER_S: f64 = 100.0;

/// The fields of /proc/PID/stat that are used here.
struct Stat {
    parent: u32,
    own_ticks: u64,
    children_ticks: u64,
}

impl Stat {
    /// Parses the line. The name in parentheses may contain anything, so the fields are counted from its end.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            own_ticks: number(11)? + number(12)?,
            children_ticks: number(13)? + number(14)?,
        })
    }

    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// CPU seconds that all threads of a process have used so far, in steps of 10 ms.
pub(super) fn cpu_s(pid: u32) -> Option<f64> {
    Some(Stat::of(pid)?.own_ticks as f64 / TICKS_PER_S)
}

/// CPU seconds that this thread has used so far, with nanosecond resolution.
pub(super) fn thread_cpu_s() -> Option<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

/// `VmHWM` (peak) or `VmRSS` (current) of a process, in MiB.
pub(super) fn memory_mib(pid: u32, key: &str) -> Option<f64> {
    status_mib(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, key)
}

fn status_mib(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

/// Resets `VmHWM` to the current size.
pub(super) fn reset_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Bytes that a process has read from the disk so far.
pub(super) fn disk_read_bytes(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

/// CPU seconds used so far by everything but this process and its descendants.
pub(super) fn foreign_s() -> Option<f64> {
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let busy = busy_ticks(machine.lines().next()?)?;
    let entries = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: HashMap<u32, Stat> = pids.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    Some((busy as f64 - descendants_ticks(&processes, std::process::id()) as f64) / TICKS_PER_S)
}

/// user + nice + system + irq + softirq of a `cpu` line.
fn busy_ticks(line: &str) -> Option<u64> {
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6].into_iter().map(|at| fields.get(at).copied()).sum()
}

fn descendants_ticks(processes: &HashMap<u32, Stat>, root: u32) -> u64 {
    let below = |pid: u32| {
        let mut at = pid;
        while at != root {
            match processes.get(&at) {
                Some(stat) if stat.parent > 1 => at = stat.parent,
                _ => return false,
            }
        }
        true
    };
    let mine = processes.iter().filter(|(pid, _)| below(**pid));
    mine.map(|(_, stat)| stat.own_ticks + stat.children_ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32, ticks: u64) -> (u32, Stat) {
        (pid, Stat { parent, own_ticks: ticks, children_ticks: 0 })
    }

    #[test]
    fn a_stat_line_is_read_behind_its_name() {
        let line = "7 (a ) b) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.own_ticks, stat.children_ticks), (3, 30, 70));
    }

    #[test]
    fn memory_is_read_in_mib() {
        let status = "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n";
        assert_eq!(status_mib(status, "VmHWM"), Some(2.0));
        assert_eq!(status_mib(status, "VmSwap"), None);
    }

    #[test]
    fn idle_and_stolen_time_are_not_busy() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 0 0"), Some(31));
    }

    #[test]
    fn descendants_are_found_through_their_parents() {
        let processes = [stat(10, 1, 1), stat(20, 10, 2), stat(30, 20, 4), stat(40, 1, 8), stat(50, 99, 16)];
        assert_eq!(descendants_ticks(&processes.into_iter().collect(), 10), 7);
    }
}
